// Duals made of exponentials: a e^{bx}, √2 sin(√(2γ) x + π/4), a e^{bx²} and e^{-x²} sin x. Each distance is a sum of terms
// that do not cancel for near-equal inputs; `duals/elementary.py` derives them.
#pragma once

#include <limits>

#include "elementary.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

EQT_INLINE Doubles exponential(Doubles x) {
  const Doubles found = 1 + exponential_less_one(x);
  return x > 700 ? std::numeric_limits<double>::infinity() - Doubles{} : found;
}

// a e^{bx}: with E = a e^{b²q}, D' = (E1 - E2)² - 2 E1 E2 (e^{-b²D/2} - 1) and E[φ'φ'] = b² E1 E2 e^{-b²D/2}, with the D of
// fields as they are: of fields in units t and t' it is tt'D + (t - t')(tq - t'q').
template <class T>
struct Exponential {
  static constexpr int kSides = 4;  // E, the unit t, tq, and tE
  using V = Vec<T>;
  double a, square;

  explicit Exponential(const Op& op) : a(op.parameters[0]), square(op.parameters[1] * op.parameters[1]) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V gap = x[0] - y[0], all = (x[1] * y[1]) * d + (x[1] - y[1]) * (x[2] - y[2]);
    const V excess = exponential_less_one(T(-0.5 * square) * all), slopes = x[3] * y[3];
    d = gap * gap - T(2) * (x[0] * y[0]) * excess;
    theta = theta * (T(square) * (slopes + slopes * excess));
  }

  EQT_INLINE void sides(Doubles q, const Units& units, Doubles (&out)[kSides]) const {
    out[0] = a * exponential(square * (units.before * units.before * q)) / units.after;
    out[1] = units.before;
    out[2] = units.before * q;
    out[3] = units.before * out[0];
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) {
    const Doubles root = op.parameters[0] * exponential(op.parameters[1] * op.parameters[1] * q);
    return root * root;
  }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    return op.parameters[0] * exponential(0.5 * op.parameters[1] * op.parameters[1] * q);
  }
};

// The kernel of radial basis functions: D' = 2 - 2 e^{-γD}, E[φ'φ'] = 2γ e^{-γD}.
template <class T>
struct RadialBasis {
  static constexpr int kSides = 1;  // of which nothing is needed
  using V = Vec<T>;
  T gamma;

  explicit RadialBasis(const Op& op) : gamma(T(op.parameters[0])) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&)[kSides], const V (&)[kSides]) const {
    const V excess = exponential_less_one(-gamma * d);
    d = T(-2) * excess;
    theta = theta * (T(2) * gamma * (T(1) + excess));
  }

  static EQT_INLINE void sides(Doubles, Doubles (&out)[kSides]) { out[0] = Doubles{}; }
  static EQT_INLINE Doubles variance(const Op&, Doubles) { return 1 - Doubles{}; }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) { return exponential(-op.parameters[0] * q); }
};

// What Gaussian weights e^{-βx²} make of a pair: with A, B = 1 + 4βq, minor = q1 q2 - k² and
// Δ = (1 + 2βq1)(1 + 2βq2) - 4β²k² = √(AB) + excess, D' = (A^-¼ - B^-¼)² + 2 excess/(√Δ (AB)^¼ (√Δ + (AB)^¼)).
template <class T>
struct Weighted {
  using V = Vec<T>;
  V total, k, minor, mean, inverse, half, excess, delta, root, distance;

  // Of both inputs: √q, √A, A^-¼.
  EQT_INLINE Weighted(T beta, V d, const V* x, const V* y) {
    const V gap = x[0] - y[0];
    total = x[0] * x[0] + y[0] * y[0];
    k = T(0.5) * (total - d);
    minor = maximum(T(0.5) * (d - gap * gap) * (x[0] * y[0] + k), V{});
    mean = x[1] * y[1];
    inverse = x[2] * y[2];
    half = x[1] - y[1];
    excess = T(0.5) * half * half + T(4) * beta * beta * minor;
    delta = mean + excess;
    root = square_root(delta);
    const V between = x[2] - y[2];
    distance = between * between + T(2) * excess * inverse / (root * (root + mean * inverse));
  }

  static EQT_INLINE void sides(double beta, Doubles q, Doubles* out) {
    out[0] = square_root(q);
    out[1] = square_root(1 + 4 * beta * q);
    out[2] = 1 / square_root(out[1]);
  }
};

// a e^{bx²}, b = -β: E[φφ] = a²/√Δ, E[φ'φ'] = 4a²β² k/Δ^(3/2).
template <class T>
struct Gaussian {
  static constexpr int kSides = 3;
  using V = Vec<T>;
  T square, beta, slope;

  explicit Gaussian(const Op& op)
      : square(T(op.parameters[0] * op.parameters[0])), beta(T(-op.parameters[1])), slope(T(4 * op.parameters[0] * op.parameters[0] * op.parameters[1] * op.parameters[1])) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const Weighted<T> of(beta, d, x, y);
    d = square * of.distance;
    theta = theta * (slope * of.k / (of.delta * of.root));
  }

  EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) const { Weighted<T>::sides(double(beta), q, out); }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) {
    return op.parameters[0] * op.parameters[0] / square_root(1 - 4 * op.parameters[1] * q);
  }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) { return op.parameters[0] / square_root(1 - 2 * op.parameters[1] * q); }
};

// e^{-x²} sin x: φφ' = e^{-u²-v²} (cos(u-v) - cos(u+v))/2, whose distances are taken one by one. With
// F = A^-¼ e^{-q/A}, that of the cosines of sums is (F1 - F2)² - 2 F1 F2 (e^shift - 1), e^shift = e^y (AB)^¼/√Δ.
template <class T>
struct Gabor {
  static constexpr int kSides = 4;  // those of the weights, and F
  using V = Vec<T>;

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const Weighted<T> of(T(1), d, x, y);
    const V turned = T(-2) * exponential_less_one(T(-0.5) * (d + T(4) * of.minor) / of.delta) / of.root;
    const V share = of.excess / of.mean, lean = of.half / of.mean;
    const V u = share / (T(1) + of.root * of.inverse);  // √(1 + share) - 1
    const V power = T(0.5) * ((d - share) / of.delta - T(0.5) * lean * lean);
    const V gap = x[3] - y[3];
    const V sums = gap * gap - T(2) * (x[3] * y[3]) * ((exponential_less_one(power) - u) / (T(1) + u));
    const V inner = of.k / of.delta, grown = exponential_less_one(inner);
    const V scale = (T(1) + exponential_less_one(T(-0.5) * (of.total + T(4) * of.minor) / of.delta)) / of.root;
    const V back = grown / (T(1) + grown);
    const V sine = T(0.5) * scale * (grown + back), cosine = scale * (T(1) + T(0.5) * grown * back);
    theta = theta * (T(4) * inner * (T(1) + (T(1) + of.total) / of.delta) * sine +
                     cosine * (T(1) / of.delta + T(8) * inner * inner));
    d = T(0.5) * ((of.distance + turned) - sums);
  }

  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) {
    Weighted<T>::sides(1, q, out);
    out[3] = out[2] * exponential(-q / (1 + 4 * q));
  }
  static EQT_INLINE Doubles variance(const Op&, Doubles q) {
    const Doubles a = 1 + 4 * q;
    return -0.5 * exponential_less_one(-2 * q / a) / square_root(a);
  }
  static EQT_INLINE Doubles mean(const Op&, Doubles) { return Doubles{}; }
};

}  // namespace eqt::EQT_ISA
