// φ(x) = max(x, 0) + a min(x, 0). With s = sin²(θ/2) = (D - (√q1 - √q2)²)/(4r), r = √(q1 q2):
// D' = c0 D + c1 r (θ cos θ - sin θ),  E[φ'φ'] = c0 - c2 θ,  c0 = (1+a²)/2, c1 = (1-a)²/π, c2 = (1-a)²/(2π).
// Of m = min(s, 1-s), θ/√m and (θ cos θ - sin θ)/m^{3/2} are polynomials; past the right angle θ → π - θ.
#pragma once

#include "polynomials.hpp"
#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct PiecewiseLinear {
  static constexpr int kSides = 2;  // √q, and 1/(2√q), 0 where q is 0
  using V = Vec<T>;
  T c0, c1, c2;

  explicit PiecewiseLinear(const Op& op) {
    const double a = op.first, pi = 3.14159265358979323846;
    c0 = T((1 + a * a) / 2);
    c1 = T((1 - a) * (1 - a) / pi);
    c2 = T((1 - a) * (1 - a) / (2 * pi));
  }

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const T pi = T(3.14159265358979323846);
    const V gap = x[0] - y[0], r = x[0] * y[0];
    V s = (d - gap * gap) * x[1] * y[1];
    s = r > 0 ? s : T(0.5) - V{};  // where a variance vanishes the angle counts as π/2
    const V rest = T(1) - s;
    const auto far = s > T(0.5);
    const V m = maximum(far ? rest : s, V{});
    const V root = square_root(m);
    const V near_slope = c2 * root * polynomial(Polynomials<T>::angle, m);
    const V near_lens = m * root * polynomial(Polynomials<T>::lens, m);
    const V lens = far ? near_lens - pi * (T(1) - 2 * m) : near_lens;
    const V slope = far ? (c0 - c2 * pi) + near_slope : c0 - near_slope;
    d = c0 * d + c1 * r * lens;
    theta = theta * slope;
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    out[0] = square_root(q);
    out[1] = q > 0 ? 0.5 / out[0] : Doubles{};
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) { return (1 + op.first * op.first) / 2 * q; }
};

}  // namespace eqt::EQT_ISA
