// φ = erf: E[φφ] = (2/π) arcsin(2k/√p), p = (1+2q1)(1+2q2). With m half the sum of the arcsines of the variances and γ that
// of the covariance, D' = (4/π)(m - γ), and tan((m-γ)/2) = s/(√p + c), where c = √p cos(m-γ) = cos m √(p-4k²) + 2k sin m
// and s = √p sin(m-γ) = sin m √(p-4k²) - 2k cos m. For k > 0 that difference would cancel; there
// s = [4((q1-q2)/(√(1+4q1)+√(1+4q2)))² + 4(r-k)(r+k)] / (sin m √(p-4k²) + 2k cos m), r = √(q1 q2), does not.
#pragma once

#include "elementary.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct Erf {
  static constexpr int kSides = 6;  // √q, q, sin(α/2), cos(α/2), √(1+2q), √(1+4q), α the arcsine of the variance
  using V = Vec<T>;

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const T scale = T(4 / 3.14159265358979323846);
    const V gap = x[0] - y[0], r = x[0] * y[0];
    const V k = T(0.5) * (x[1] + (y[1] - d));
    const V spread = d - gap * gap;
    const V product = spread * (r + k);  // 2 (r - k)(r + k)
    const V root_p = x[4] * y[4];
    // p - 4k², with 1 + 2 (q1 + q2) = p - 4 r²
    const V radicand = maximum(T(1) + T(2) * (x[1] + y[1]) + T(2) * product, T(1) - V{});
    const V root = square_root(radicand);
    const V sine_m = x[2] * y[3] + x[3] * y[2], cosine_m = x[3] * y[3] - x[2] * y[2];
    const V q_gap = gap * (x[0] + y[0]) / (x[5] + y[5]);
    const V c = cosine_m * root + T(2) * (sine_m * k);
    const V first = sine_m * root, second = T(2) * (cosine_m * k);
    const auto near = k > 0;
    const V above = near ? T(4) * q_gap * q_gap + T(2) * product : first - second;
    const V below = near ? (first + second) * (root_p + c) : root_p + c;
    d = (T(2) * scale) * arctangent(above, below);
    theta = theta * (scale / root);
  }

  static EQT_INLINE Doubles angle(Doubles q) { return arctangent(2 * q, square_root(1 + 4 * q)); }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    const Doubles root = square_root(1 + 4 * q), both = 1 + 2 * q;
    out[0] = square_root(q);
    out[1] = q;
    out[3] = square_root(0.5 * (1 + root / both));
    out[2] = q / (both * out[3]);
    out[4] = square_root(both);
    out[5] = root;
  }
  static EQT_INLINE Doubles variance(const Op&, Doubles q) { return (2 / 3.14159265358979323846) * angle(q); }
  static EQT_INLINE Doubles mean(const Op&, Doubles) { return Doubles{}; }
};

}  // namespace eqt::EQT_ISA
