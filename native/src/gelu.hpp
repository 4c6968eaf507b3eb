// φ(x) = x Φ(x): with Δ = (1+q1)(1+q2) - k², F = 1/(2π√Δ), P = 1/4 + arctan(k/√Δ)/(2π), i = 1/(1+q1) + 1/(1+q2):
// E[φφ] = kP + F [q1 q2 - k² + k² i],  E[φ'φ'] = P + kF [i + 1/Δ].
#pragma once

#include "elementary.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct Gelu {
  static constexpr int kSides = 4;  // √q, q, 1/(1+q), E[φ²]
  using V = Vec<T>;

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V gap = x[0] - y[0], r = x[0] * y[0];
    const V k = T(0.5) * (x[1] + y[1] - d);
    const V minor = maximum(T(0.5) * (d - gap * gap) * (r + k), V{});
    V slope;
    const V covariance = moments(k, minor, x[1] + y[1], x[2] + y[2], slope);
    const V distance = x[3] + y[3] - T(2) * covariance;
    // Equal inputs stay at distance zero exactly, and a negative distance is rounding.
    const V kept = d == 0 ? (x[1] == y[1] ? V{} : distance) : distance;
    d = maximum(kept, V{});
    theta = theta * slope;
  }

  // E[φφ] and E[φ'φ'] from the covariance, q1 q2 - k², q1 + q2, and i.
  template <class W>
  static EQT_INLINE W moments(W k, W minor, W total, W inverse, W& slope) {
    using N = Number<W>;
    const N turn = N(1 / (2 * 3.14159265358979323846));
    const W delta = N(1) + total + minor;
    const W root = square_root(delta);
    const W f = turn / root;
    const W p = N(0.25) + turn * arctangent(k, root);
    slope = p + k * f * (inverse + N(1) / delta);
    return k * p + f * (minor + k * k * inverse);
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    out[0] = square_root(q);
    out[1] = q;
    out[2] = 1 / (1 + q);
    out[3] = second_moment(q);
  }
  static EQT_INLINE Doubles second_moment(Doubles q) {
    Doubles slope;
    return moments(q, Doubles{}, 2 * q, 2 / (1 + q), slope);
  }
  static EQT_INLINE Doubles variance(const Op&, Doubles q) { return second_moment(q); }
  static EQT_INLINE Doubles mean(const Op&, Doubles q) {
    return q / square_root(2 * 3.14159265358979323846 * (1 + q));
  }
};

}  // namespace eqt::EQT_ISA
