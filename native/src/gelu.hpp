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

// The same with a distance of which no digit is lost, where a kink follows. φ = x/2 + h with h even, so that
// D' = D/4 + D_h, and with α, β the arcsines of q/(1+q), γ that of k/√N, N = (1+q1)(1+q2), w = √(1+2q), ω = √Δ:
// 2π E[hh] = kγ + [q1 q2/N] ω + [k²/N]/ω, whose distance is that of kγ, D m + (q1-q2)(α-β)/2 + 2k(m-γ), m = (α+β)/2, and
// (c1-c2)² + [2 q1 q2/N] [√(g1 g2) - g] + 2 [q1 q2 - k²]/(Nω), where g = ω + 1/ω (g1 of w1) and c = q √g/(1+q).
// As for Erf, tan((m-γ)/2) = [h² + q1 q2 - k²]/([ω sin m + k cos m][√N + ω cos m + k sin m]), h = (w1-w2)/2;
// g1 g2 - g² = 4h²/(w1 w2) - e (1 - 1/(w1 w2 Δ)), e = Δ - w1 w2 = 2h² + q1 q2 - k².
template <class T>
struct BentGelu {
  static constexpr int kSides = 8;  // √q, q, sin(α/2), cos(α/2), α/2, √(1+q), w, c
  using V = Vec<T>;

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V one = T(1) - V{}, gap = x[0] - y[0], r = x[0] * y[0], product = x[1] * y[1];
    const V k = T(0.5) * (x[1] + (y[1] - d));
    const V minor = maximum(T(0.5) * (d - gap * gap) * (r + k), V{});
    const V delta = one + (x[1] + y[1]) + minor, root = square_root(delta), inverse = one / root;
    const V root_n = x[5] * y[5], n = root_n * root_n, both = x[6] * y[6];
    const V rise = magnitude(gap) * (x[0] + y[0]), half = rise / (x[6] + y[6]), square = half * half;
    const V sine = x[2] * y[3] + x[3] * y[2], cosine = x[3] * y[3] - x[2] * y[2], m = x[4] + y[4];
    const auto near = k > 0;  // else kγ is not near the mean of its own
    const V below = (sine * root + k * cosine) * (root_n + cosine * root + k * sine);
    const V turn = arctangent(near ? square + minor : k, near ? below : root);  // (m-γ)/2, or γ
    const V across = (x[1] * y[6] + y[1] * x[6]) * (both + product);
    const V lean = arctangent(near ? rise * (x[1] + y[1] + T(2) * product) : V{}, near ? across : one);  // |α-β|
    const V angles = near ? d * m + T(0.5) * rise * lean + T(4) * k * turn : T(2) * (x[1] * x[4] + y[1] * y[4] - k * turn);
    const V excess = T(4) * square / both - (T(2) * square + minor) * (one - one / (both * delta));
    const V means = square_root((x[6] + one / x[6]) * (y[6] + one / y[6])) + (root + inverse), c = x[7] - y[7];
    const V rest = c * c + T(2) * (product / n * excess / means + minor / n * inverse);
    const T turns = T(1 / (2 * 3.14159265358979323846));
    const V gamma = near ? m - T(2) * turn : turn;
    d = T(0.25) * d + turns * (angles + rest);
    theta = theta * (T(0.25) + turns * (gamma + k * inverse * ((x[5] * x[5] + y[5] * y[5]) / n + inverse * inverse)));
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    const Doubles both = 1 + q, w = square_root(1 + 2 * q);
    out[0] = square_root(q);
    out[1] = q;
    out[3] = square_root(0.5 * (1 + w / both));
    out[2] = q / (2 * both * out[3]);
    out[4] = 0.5 * arctangent(q, w);
    out[5] = square_root(both);
    out[6] = w;
    out[7] = q / both * square_root(w + 1 / w);
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) { return Gelu<T>::variance(op, q); }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) { return Gelu<T>::mean(op, q); }
};

}  // namespace eqt::EQT_ISA
