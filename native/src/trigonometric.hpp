// φ = sin(x + phase), with the sign cos(2 phase): 1 of the sine, -1 of the cosine. With S = 2(q1+q2) - D, E[φφ] = (e^{-D/2} - sign·e^{-S/2})/2, and
// E[φ'φ'] = (e^{-D/2} + sign·e^{-S/2})/2. D' = 1 - e^{-D/2} + sign·(e^{-S/2} - (e^{-2q1} + e^{-2q2})/2), where
// e^{-S/2} - ... = e^{-q1-q2}(e^{D/2} - 1) - (e^{-q1} - e^{-q2})²/2 has no cancellation.
#pragma once

#include "elementary.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct Trigonometric {
  static constexpr int kSides = 2;  // q, e^{-q}
  using V = Vec<T>;
  T sign;

  explicit Trigonometric(double s) : sign(T(s)) {}
  static double sign_of(const Op& op) {
    return op.dual == DualKind::sine ? 1 : op.dual == DualKind::cosine ? -1 : op.parameters[0];
  }

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V half = T(0.5) * d, total = x[0] + y[0];
    const V gap = x[1] - y[1], base = x[1] * y[1];
    const auto near = d < 1;  // far apart, the exponential of D/2 alone could overflow
    const V shrunk = exponential_less_one(-half);
    const V grown = exponential_less_one(near ? half : half - total);
    const V excess = (near ? base * grown : (T(1) + grown) - base) - T(0.5) * gap * gap;
    const V sum = near ? base + base * grown : T(1) + grown;  // e^{-S/2}
    d = sign * excess - shrunk;
    theta = theta * (T(0.5) * ((T(1) + shrunk) + sign * sum));
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    out[0] = q;
    out[1] = 1 + exponential_less_one(-q);
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) {
    const Doubles excess = exponential_less_one(-2 * q);
    const double sign = sign_of(op);
    return 0.5 * (1 - sign) - 0.5 * sign * excess;
  }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    const double sine = op.dual == DualKind::sine ? 0 : op.dual == DualKind::cosine ? 1 : op.parameters[1];  // of the phase
    return sine * (1 + exponential_less_one(-0.5 * q));
  }
};

}  // namespace eqt::EQT_ISA
