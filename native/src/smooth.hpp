// Duals of smooth functions: erf, GELU, sines and cosines, exponentials.
#pragma once

#include <limits>

#include "elementary.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

// φ = erf: E[φφ] = (2/π) arcsin(2k/√p), p = (1+2q1)(1+2q2). With m half the sum of the arcsines of the variances and γ that
// of the covariance, D' = (4/π)(m - γ), and tan((m-γ)/2) = s/(√p + c), where c = √p cos(m-γ) = cos m √(p-4k²) + 2k sin m
// and s = √p sin(m-γ) = sin m √(p-4k²) - 2k cos m. For k > 0 that difference would cancel; there
// s = [4((q1-q2)/(√(1+4q1)+√(1+4q2)))² + 4(r-k)(r+k)] / (sin m √(p-4k²) + 2k cos m), r = √(q1 q2), does not.
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

// φ(x) = x Φ(x): with Δ = (1+q1)(1+q2) - k², F = 1/(2π√Δ), P = 1/4 + arctan(k/√Δ)/(2π), i = 1/(1+q1) + 1/(1+q2):
// E[φφ] = kP + F [q1 q2 - k² + k² i],  E[φ'φ'] = P + kF [i + 1/Δ].
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

// φ = sin(x + phase), with the sign cos(2 phase): 1 of the sine, -1 of the cosine. With S = 2(q1+q2) - D, E[φφ] = (e^{-D/2} - sign·e^{-S/2})/2, and
// E[φ'φ'] = (e^{-D/2} + sign·e^{-S/2})/2. D' = 1 - e^{-D/2} + sign·(e^{-S/2} - (e^{-2q1} + e^{-2q2})/2), where
// e^{-S/2} - ... = e^{-q1-q2}(e^{D/2} - 1) - (e^{-q1} - e^{-q2})²/2 has no cancellation.
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

// Duals made of exponentials: a e^{bx}, √2 sin(√(2γ) x + π/4), a e^{bx²} and e^{-x²} sin x. Each distance is a sum of terms
// that do not cancel for near-equal inputs; `duals/elementary.py` derives them.

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
