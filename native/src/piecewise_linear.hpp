// φ(x) = max(x, 0) + a min(x, 0). With s = sin²(θ/2) = (D - (√q1 - √q2)²)/(4r), r = √(q1 q2), and the squares
// o = ((1+a)/2)² and e = ((1-a)/2)² of φ's odd and even part:
// D' = o D + e (√q1 - √q2)² + 4 e r [m + (α cos α - sin α)/π],  E[φ'φ'] = o ± (e - 2 e α/π),
// where m = min(s, 1-s) and α is θ, or past the right angle (lower sign) π - θ. Both α/√m and (α cos α - sin α)/m^{3/2}
// are polynomials in m.
#pragma once

#include <iterator>

#include "elementary.hpp"
#include "polynomials.hpp"
#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct PiecewiseLinear {
  static constexpr int kSides = 2;  // √q, and 1/(2√q), 0 where q is so small that the product of two might overflow
  using V = Vec<T>;
  using P = Polynomials<T>;
  static constexpr T kDoubt = sizeof(T) == 4 ? T(9.5e-7) : T(1.8e-15);  // 8 units in the last place
  static constexpr T kSuspect = sizeof(T) == 4 ? T(1e-3) : T(1e-9);      // above it m is beyond doubt
  T odd, even;
  T lens[std::size(P::lens)], angle[std::size(P::angle)];  // times 4e/π and 2e/π

  explicit PiecewiseLinear(const Op& op) {
    const double a = op.parameters[0], pi = 3.14159265358979323846;
    const double e = (1 - a) * (1 - a) / 4;
    odd = T((1 + a) * (1 + a) / 4);
    even = T(e);
    for (size_t i = 0; i < std::size(lens); ++i) lens[i] = T(4 * e / pi * P::lens[i]);
    for (size_t i = 0; i < std::size(angle); ++i) angle[i] = T(2 * e / pi * P::angle[i]);
  }

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V gap = x[0] - y[0], square = gap * gap, r = x[0] * y[0], inverse = x[1] * y[1];
    V s = (d - square) * inverse;
    s = inverse > 0 ? s : T(0.5) - V{};  // where a variance vanishes the angle counts as π/2
    V m = minimum(s, T(1) - s);
    // What rounding of D and of the variances alone can make of parallel or opposite fields counts as 0: α is its root.
    if (any_below(m, kSuspect)) {
      const V doubt = (d + magnitude(gap) * (x[0] + y[0])) * (kDoubt * inverse);
      m = m > doubt ? m : V{};
    }
    const V root = square_root(m);
    const V rest = even - root * polynomial(angle, m);
    const V bend = m * (4 * even + root * polynomial(lens, m));
    theta = theta * (s > T(0.5) ? odd - rest : odd + rest);
    d = odd * d + (even * square + r * bend);
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    out[0] = square_root(q);
    out[1] = q > (sizeof(T) == 4 ? 1e-36 : 1e-300) ? 0.5 / out[0] : Doubles{};
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) { return (1 + op.parameters[0] * op.parameters[0]) / 2 * q; }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    return (1 - op.parameters[0]) / 2 * square_root(2 / 3.14159265358979323846 * q);
  }
};

}  // namespace eqt::EQT_ISA
