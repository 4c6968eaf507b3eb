// φ(x) = max(x, 0) + a min(x, 0). With s = sin²(θ/2) = (D - (√q1 - √q2)²)/(4r), r = √(q1 q2):
// D' = c0 D + c1 r (θ cos θ - sin θ),  E[φ'φ'] = c0 - c2 θ,  c0 = (1+a²)/2, c1 = (1-a)²/π, c2 = (1-a)²/(2π).
// Of m = min(s, 1-s), θ/√m and (θ cos θ - sin θ)/m^{3/2} are polynomials; past the right angle θ → π - θ.
#pragma once

#include <iterator>

#include "polynomials.hpp"
#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct PiecewiseLinear {
  static constexpr int kSides = 2;  // √q, and 1/(2√q), 0 where q is so small that the product of two might overflow
  using V = Vec<T>;
  using P = Polynomials<T>;
  T c0, lens_far, slope_far;
  T lens[std::size(P::lens)], angle[std::size(P::angle)];  // times c1, and c2

  explicit PiecewiseLinear(const Op& op) {
    const double a = op.first, pi = 3.14159265358979323846;
    const double c1 = (1 - a) * (1 - a) / pi;
    c0 = T((1 + a * a) / 2);
    lens_far = T(c1 * pi);
    slope_far = T((1 + a * a) / 2 - c1 / 2 * pi);
    for (size_t i = 0; i < std::size(lens); ++i) lens[i] = T(c1 * P::lens[i]);
    for (size_t i = 0; i < std::size(angle); ++i) angle[i] = T(c1 / 2 * P::angle[i]);
  }

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V gap = x[0] - y[0], r = x[0] * y[0], inverse = x[1] * y[1];
    V s = (d - gap * gap) * inverse;
    s = inverse > 0 ? s : T(0.5) - V{};  // where a variance vanishes the angle counts as π/2
    const auto far = s > T(0.5);
    const V m = maximum(minimum(s, T(1) - s), V{});
    const V root = square_root(m);
    const V turn = root * polynomial(angle, m);
    const V near = m * root * polynomial(lens, m);
    const V bend = far ? near + (2 * lens_far * m - lens_far) : near;
    const V slope = far ? slope_far + turn : c0 - turn;
    d = c0 * d + r * bend;
    theta = theta * slope;
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    out[0] = square_root(q);
    out[1] = q > (sizeof(T) == 4 ? 1e-36 : 1e-300) ? 0.5 / out[0] : Doubles{};
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) { return (1 + op.first * op.first) / 2 * q; }
};

}  // namespace eqt::EQT_ISA
