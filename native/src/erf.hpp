// φ = erf: E[φφ] = (2/π) arcsin(2k/√((1+2q1)(1+2q2))). With α, β the arcsines of the variances, γ that of the covariance,
// m = (α+β)/2: D' = (4/π)(m - γ), where sin(m-γ) = [8((q1-q2)/(√(1+4q1)+√(1+4q2)))² + 4(r-k)(r+k)·2] / (2 p sin(m+γ)),
// p = (1+2q1)(1+2q2), has no cancellation.
#pragma once

#include "elementary.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct Erf {
  static constexpr int kSides = 7;  // √q, q, α/2, sin(α/2), cos(α/2), √(1+2q), √(1+4q)
  using V = Vec<T>;

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const T scale = T(4 / 3.14159265358979323846);
    const V gap = x[0] - y[0], r = x[0] * y[0];
    const V k = T(0.5) * (x[1] + (y[1] - d));
    const V spread = d - gap * gap;
    const V product = spread * (r + k);  // 2 (r - k)(r + k)
    const V root_p = x[5] * y[5];
    // p - 4k², with 1 + 2 (q1 + q2) = p - 4 r²
    const V radicand = maximum(T(1) + T(2) * (x[1] + y[1]) + T(2) * product, T(1) - V{});
    const V root = square_root(radicand);
    const V m = x[2] + y[2];
    const V sine_m = x[3] * y[4] + x[4] * y[3], cosine_m = x[4] * y[4] - x[3] * y[3];
    const V q_gap = gap * (x[0] + y[0]) / (x[6] + y[6]);
    const V above = T(8) * q_gap * q_gap + T(4) * product;
    const V below = T(2) * root_p * (sine_m * root + T(2) * cosine_m * k);
    const auto near = k > 0;  // only then do m and γ nearly cancel, and only then is `below` safely positive
    const V sine = near ? above / (near ? below : T(1) - V{}) : T(1) - V{};
    const V difference = sine < T(0.5) ? small_arcsine(sine) : m - arctangent(T(2) * k, root);
    d = scale * difference;
    theta = theta * (scale / root);
  }

  static EQT_INLINE Doubles angle(Doubles q) { return arctangent(2 * q, square_root(1 + 4 * q)); }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    const Doubles root = square_root(1 + 4 * q), both = 1 + 2 * q;
    out[0] = square_root(q);
    out[1] = q;
    out[2] = 0.5 * angle(q);
    out[4] = square_root(0.5 * (1 + root / both));
    out[3] = q / (both * out[4]);
    out[5] = square_root(both);
    out[6] = root;
  }
  static EQT_INLINE Doubles variance(const Op&, Doubles q) { return (2 / 3.14159265358979323846) * angle(q); }
  static EQT_INLINE Doubles mean(const Op&, Doubles) { return Doubles{}; }
};

}  // namespace eqt::EQT_ISA
