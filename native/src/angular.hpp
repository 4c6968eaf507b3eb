// Duals of the angle θ between two fields: sin²(θ/2) = s = (D - (√q1 - √q2)²)/(4r), r = √(q1 q2).
#pragma once

#include <iterator>

#include "elementary.hpp"
#include "polynomials.hpp"
#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

// The first two sides: √q, and 1/(2√q), 0 where q is so small that the product of two might overflow.
struct OfAngle {
  template <int K>
  static EQT_INLINE void sides(Doubles q, Doubles (&out)[K]) {
    out[0] = square_root(q);
    out[1] = q > 1e-300 ? 0.5 / out[0] : Doubles{};
  }
};

// φ(x) = max(x, 0) + a min(x, 0). With s = sin²(θ/2) = (D - (√q1 - √q2)²)/(4r), r = √(q1 q2), and the squares
// o = ((1+a)/2)² and e = ((1-a)/2)² of φ's odd and even part:
// D' = o D + e (√q1 - √q2)² + 4 e r [m + (α cos α - sin α)/π],  E[φ'φ'] = o ± (e - 2 e α/π),
// where m = min(s, 1-s) and α is θ, or past the right angle (lower sign) π - θ. Both α/√m and (α cos α - sin α)/m^{3/2}
// are polynomials in m.
template <class T>
struct PiecewiseLinear : OfAngle {
  static constexpr int kSides = 2;
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

  static EQT_INLINE Doubles variance(const Op& op, Doubles q) { return (1 + op.parameters[0] * op.parameters[0]) / 2 * q; }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    return (1 - op.parameters[0]) / 2 * square_root(2 / 3.14159265358979323846 * q);
  }
};

// φ(x) = σ exp(√γ x/σ - γ), σ² the variance of x: E[φφ] = r e^{γ(cos θ - 1)} = r e^{-2γs} and E[φ'φ'] = γ e^{-2γs}, where
// r = √(q1 q2) and s = sin²(θ/2) = (D - (√q1 - √q2)²)/(4r); D' = (√q1 - √q2)² - 2r (e^{-2γs} - 1).
template <class T>
struct NormalisedExponential : OfAngle {
  static constexpr int kSides = 2;
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

  static EQT_INLINE Doubles variance(const Op&, Doubles q) { return q; }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    return square_root(q) * (1 + exponential_less_one(Doubles{} - 0.5 * op.parameters[0]));
  }
};

// From the first two sides, √q and 1/(2√q): s between 0 and 1, and 1/2 where a variance vanishes.
template <class T, int K>
EQT_INLINE Vec<T> half_angle(Vec<T> d, const Vec<T> (&x)[K], const Vec<T> (&y)[K]) {
  using V = Vec<T>;
  const V gap = x[0] - y[0], inverse = x[1] * y[1];
  const V s = inverse > 0 ? (d - gap * gap) * inverse : T(0.5) - V{};
  return minimum(maximum(s, V{}), T(1) - V{});
}

// Normalisation by the variance of each position: D' = (α1 - α2)² + 4 α1 α2 s, α² = q/(q + ε).
template <class T>
struct Normalised : OfAngle {
  static constexpr int kSides = 4;  // √q, 1/(2√q), α, 1/√(q + ε)
  using V = Vec<T>;
  double eps;

  explicit Normalised(const Op& op) : eps(op.parameters[0]) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V gap = x[2] - y[2];
    d = gap * gap + T(4) * (x[2] * y[2]) * half_angle<T>(d, x, y);
    theta = theta * (x[3] * y[3]);
  }

  EQT_INLINE void sides(Doubles q, const Units& units, Doubles (&out)[kSides]) const {
    OfAngle::sides(q, out);
    out[3] = units.before / units.after / square_root(units.before * units.before * q + eps);
    out[2] = out[0] * out[3];
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) { return q / (q + op.parameters[0]); }
  static EQT_INLINE Doubles mean(const Op&, Doubles) { return Doubles{}; }
};

// Normalisation by the mean variance of all positions, σ²: D' = D/(σσ') + (1/σ - 1/σ')(q1/σ - q2/σ').
template <class T>
struct Standardised {
  static constexpr int kSides = 2;  // 1/σ, q/σ
  using V = Vec<T>;

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V factor = x[0] * y[0];
    d = factor * d + (x[0] - y[0]) * (x[1] - y[1]);
    theta = theta * factor;
  }

  // These are made of all positions: see `PreparedSides`.
  static EQT_INLINE void sides(Doubles q, Doubles (&out)[kSides]) { out[0] = out[1] = q; }
  static EQT_INLINE Doubles variance(const Op&, Doubles q) { return q; }
  static EQT_INLINE Doubles mean(const Op&, Doubles) { return Doubles{}; }
};

// Sign and step: D' = c θ/π, with variances `own` of all fields that do not vanish. There is no E[φ'φ'].
template <class T>
struct Step : OfAngle {
  static constexpr int kSides = 2;
  using V = Vec<T>;
  using P = Polynomials<T>;
  T scale, own;

  explicit Step(const Op& op) : scale(T(op.parameters[0])), own(T(op.parameters[1])) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V s = half_angle<T>(d, x, y), gap = x[0] - y[0];
    V m = minimum(s, T(1) - s);
    const V doubt = (d + magnitude(gap) * (x[0] + y[0])) * (PiecewiseLinear<T>::kDoubt * (x[1] * y[1]));
    m = m > doubt ? m : V{};
    const V acute = T(1 / 3.14159265358979323846) * square_root(m) * polynomial(P::angle, m);
    const V alone = (x[0] > 0 ? own - V{} : V{}) + (y[0] > 0 ? own - V{} : V{});
    d = minimum(x[0], y[0]) > 0 ? scale * (s > T(0.5) ? T(1) - acute : acute) : alone;
    theta = V{};
  }

  static EQT_INLINE Doubles variance(const Op& op, Doubles q) { return q > 0 ? op.parameters[1] - Doubles{} : q * 0; }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    return op.parameters[1] == 1 ? Doubles{} : variance(op, q);
  }
};

// max(x, 0)^n, n >= 2 (Cho & Saul 2009): E[φφ] = rⁿ J_n/(2π), E[φ'φ'] = n² rⁿ⁻¹ J_(n-1)/(2π). With c = cos θ,
// J_n = π Q_n - h_n, where Q_0 = 1, Q_1 = c, h_0 = θ, h_1 = θ cos θ - sin θ, and both follow
// f_(n+1) = (2n+1) c f_n + n² sin²θ f_(n-1). D' = J_n(0)/(2π) (p - p')² + pp' (Q_n(1) - Q_n + h_n/π), p = q^(n/2).
template <class T>
struct RectifiedMonomial : OfAngle {
  static constexpr int kSides = 4;  // √q, 1/(2√q), p, p/√q
  using V = Vec<T>;
  using P = Polynomials<T>;
  int degree;
  T half_moment, slope;

  explicit RectifiedMonomial(const Op& op) : degree(int(op.parameters[0])) {
    half_moment = T(own(op));
    slope = T(op.parameters[0] * op.parameters[0] / 2);
  }
  // E[φ²] of variance 1: (2n-1)!!/2.
  static double own(const Op& op) {
    double product = 0.5;
    for (int n = 1; n <= int(op.parameters[0]); ++n) product *= 2 * n - 1;
    return product;
  }

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V s = half_angle<T>(d, x, y), c = T(1) - T(2) * s, sine2 = T(4) * s * (T(1) - s);
    const auto far = s > T(0.5);
    const V m = far ? T(1) - s : s, root = square_root(m);
    const V acute = root * polynomial(P::angle, m), lens = m * root * polynomial(P::lens, m);
    const T turn = T(1 / 3.14159265358979323846);
    // h/π, Q, and Q(1) - Q, of this degree and of the one before.
    V h0 = far ? T(1) - turn * acute : turn * acute, h1 = far ? c + turn * lens : turn * lens;
    V q0 = T(1) - V{}, q1 = c, e1 = T(2) * s;
    for (int n = 1; n < degree; ++n) {
      const T a = T(2 * n + 1), b = T(n) * T(n);
      const V h2 = a * (c * h1) + b * (sine2 * h0), q2 = a * (c * q1) + b * (sine2 * q0);
      e1 = a * (e1 + T(2) * s * q1) - b * (sine2 * q0);
      h0 = h1, h1 = h2, q0 = q1, q1 = q2;
    }
    const V gap = x[2] - y[2];
    d = half_moment * gap * gap + (x[2] * y[2]) * (e1 + h1);
    theta = theta * (slope * (x[3] * y[3]) * (q0 - h0));
  }

  EQT_INLINE void sides(Doubles q, const Units& units, Doubles (&out)[kSides]) const {
    OfAngle::sides(q, out);
    out[3] = units.before / units.after;
    for (int n = 1; n < degree; ++n) out[3] *= units.before * out[0];
    out[2] = out[3] * out[0];
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) {
    Doubles found = own(op) - Doubles{};
    for (int n = 0; n < int(op.parameters[0]); ++n) found *= q;
    return found;
  }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    Doubles found = op.parameters[1] - Doubles{};
    const Doubles root = square_root(q);
    for (int n = 0; n < int(op.parameters[0]); ++n) found *= root;
    return found;
  }
};

// 1/n for n = 1, …, N.
template <class T, int N>
struct Reciprocals {
  T of[N + 1]{};
  constexpr Reciprocals() {
    for (int n = 1; n <= N; ++n) of[n] = T(1.0 / n);
  }
};

// Polynomials Σ_j c_j x^j of fields as they are: with a_n(q) = E[φ⁽ⁿ⁾], ρ = cos θ and b_n = a_n q^((n-1)/2)/√(n-1)!, E[φ'φ'] = Σ_n b_n b_n' ρⁿ⁻¹
// and D' = (a_0 - a_0')² + Σ_n [(b_n √q1 - b_n' √q2)² + 2 r b_n b_n' (1 - ρⁿ)]/n, 1 - ρⁿ = 2s (1 + ρ + … + ρⁿ⁻¹).
template <class T, int Degree>
struct PolynomialDual : OfAngle {
  static constexpr int kSides = Degree + 3;  // √q, 1/(2√q), a_0, b_1, b_2, …
  using V = Vec<T>;
  static constexpr Reciprocals<T, Degree> kShare{};
  const double* coefficients;
  int degree;

  explicit PolynomialDual(const Op& op) : coefficients(op.weights), degree(op.weight_count - 1) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V s = half_angle<T>(d, x, y), cosine = T(1) - T(2) * s, r = x[0] * y[0], four = T(4) * s * r;
    const V constant = x[2] - y[2];
    V distance = constant * constant, slope{}, power = T(1) - V{}, sum{};
    const auto add = [&](int n) __attribute__((always_inline)) {
      const V both = x[2 + n] * y[2 + n];  // and a gap that is exactly 0 between equal inputs
      const V gap = T(0.5) * ((x[2 + n] - y[2 + n]) * (x[0] + y[0]) + (x[2 + n] + y[2 + n]) * (x[0] - y[0]));
      sum += power;
      slope += both * power;
      distance += kShare.of[n] * (gap * gap + four * (both * sum));
      power *= cosine;
    };
    if constexpr (Degree <= kShort) {  // unrolled, so that the sides stay in registers
#pragma GCC unroll 8
      for (int n = 1; n <= Degree; ++n) {
        if (n > degree) break;
        add(n);
      }
    } else {
      for (int n = 1; n <= degree; ++n) add(n);
    }
    d = distance;
    theta = theta * slope;
  }

  // a_n(q) = Σ_j c_j j!/(2^h h!) q^h over h = (j - n)/2 = 0, 1, …
  static EQT_INLINE Doubles derivative(const double* c, int count, int n, Doubles q) {
    double factor = 1;
    for (int i = 2; i <= n; ++i) factor *= i;
    Doubles found{}, power = 1 - Doubles{};
    for (int j = n, h = 0; j < count; j += 2) {
      found += (c[j] * factor) * power;
      ++h;
      factor *= double(j + 1) * (j + 2) / (2.0 * h);
      power *= q;
    }
    return found;
  }

  EQT_INLINE void sides(Doubles q, const Units& units, Doubles (&out)[kSides]) const {
    OfAngle::sides(q, out);
    const Doubles all = units.before * units.before * q, root = units.before * out[0];
    out[2] = derivative(coefficients, degree + 1, 0, all) / units.after;
    Doubles power = units.before / units.after;
    for (int n = 1; n <= Degree; ++n) {
      out[2 + n] = n <= degree ? power * derivative(coefficients, degree + 1, n, all) : Doubles{};
      power *= root / square_root(double(n) - Doubles{});
    }
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) {
    Doubles found{}, power = 1 - Doubles{};
    for (int n = 0; n < op.weight_count; ++n) {
      const Doubles a = derivative(op.weights, op.weight_count, n, q);
      found += power * a * a;
      power *= q / double(n + 1);
    }
    return found;
  }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) { return derivative(op.weights, op.weight_count, 0, q); }
};

}  // namespace eqt::EQT_ISA
