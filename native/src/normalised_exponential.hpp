// φ(x) = σ exp(√γ x/σ - γ), σ² the variance of x: E[φφ] = r e^{γ(cos θ - 1)} = r e^{-2γs} and E[φ'φ'] = γ e^{-2γs}, where
// r = √(q1 q2) and s = sin²(θ/2) = (D - (√q1 - √q2)²)/(4r); D' = (√q1 - √q2)² - 2r (e^{-2γs} - 1).
#pragma once

#include "elementary.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct NormalisedExponential {
  static constexpr int kSides = 2;  // √q, and 1/(2√q), 0 where q is so small that the product of two might overflow
  using V = Vec<T>;
  T gamma;

  explicit NormalisedExponential(const Op& op) : gamma(T(op.parameters[0])) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V gap = x[0] - y[0], square = gap * gap, r = x[0] * y[0], inverse = x[1] * y[1];
    V s = (d - square) * inverse;
    s = inverse > 0 ? s : T(0.5) - V{};  // where a variance vanishes the angle counts as π/2
    s = minimum(maximum(s, V{}), T(1) - V{});
    const V excess = exponential_less_one(T(-2) * gamma * s);
    d = square - T(2) * r * excess;
    theta = theta * (gamma + gamma * excess);
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    out[0] = square_root(q);
    out[1] = q > (sizeof(T) == 4 ? 1e-36 : 1e-300) ? 0.5 / out[0] : Doubles{};
  }
  static EQT_INLINE Doubles variance(const Op&, Doubles q) { return q; }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    return square_root(q) * (1 + exponential_less_one(Doubles{} - 0.5 * op.parameters[0]));
  }
};

}  // namespace eqt::EQT_ISA
