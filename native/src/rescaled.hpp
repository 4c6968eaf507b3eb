// Smooth nonlinearities between fields in units of their own. Of inputs t f̂ and t' ĝ before, with ρ = √q, the angle is in
// E = tt' [D̂ - (ρ̂ - ρ̂')²] = 2(r - K), r = ρρ', and D = E + (ρ - ρ')². Behind φ, in units u and u', D̂ is
// (√Q/u - √Q'/u')² + E'/(uu'), where E' is what is left of φ's own D', and of fields of very different norm 2(√(QQ') - K').
#pragma once

#include "smooth.hpp"

namespace eqt::EQT_ISA {

// From r, E, D and the sides of φ: K' and E[φ'φ'], to rounding of K' where norms differ.
template <class T>
struct Apart {
  using V = Vec<T>;
  V r, e, d;

  EQT_INLINE V k() const { return r - T(0.5) * e; }
  EQT_INLINE V minor() const { return maximum(T(0.5) * e * (r + k()), V{}); }

  template <int K>
  EQT_INLINE V behind(const Erf<T>&, const V (&x)[K], const V (&y)[K], V& slope) const {
    const T scale = T(2 / 3.14159265358979323846);
    const V root = square_root(T(1) + T(2) * (x[1] + y[1]) + T(4) * minor());
    slope = T(2) * scale / root;
    return scale * arctangent(T(2) * k(), root);
  }
  template <int K>
  EQT_INLINE V behind(const Gelu<T>&, const V (&x)[K], const V (&y)[K], V& slope) const {
    return Gelu<T>::moments(k(), minor(), x[1] + y[1], x[2] + y[2], slope);
  }
  template <int K>
  EQT_INLINE V behind(const BentGelu<T>&, const V (&x)[K], const V (&y)[K], V& slope) const {
    return Gelu<T>::moments(k(), minor(), x[1] + y[1], T(1) / (x[5] * x[5]) + T(1) / (y[5] * y[5]), slope);
  }
  // e^{-h} sinh k and e^{-h} cosh k, h = (q + q')/2.
  template <int K>
  EQT_INLINE V behind(const Trigonometric<T>& of, const V (&x)[K], const V (&y)[K], V& slope) const {
    const V one = T(1) - V{}, half = T(0.5) * (x[0] + y[0]), middle = minimum(maximum(k(), -one), one);
    const V up = one + exponential_less_one(T(-0.5) * d), down = one + exponential_less_one(-k() - half);
    const V small = T(0.5) * (one + exponential_less_one(-half)) * (exponential_less_one(middle) - exponential_less_one(-middle));
    const V sine = magnitude(k()) < 1 ? small : T(0.5) * (up - down), cosine = T(0.5) * (up + down);
    const T odd = (1 + of.sign) / 2, even = (1 - of.sign) / 2;
    slope = odd * cosine + even * sine;
    return odd * sine + even * cosine;
  }
  template <int K>
  EQT_INLINE V behind(const RadialBasis<T>& of, const V (&)[K], const V (&)[K], V& slope) const {
    const V value = T(1) + exponential_less_one(-of.gamma * d);
    slope = T(2) * of.gamma * value;
    return value;
  }
  // Δ = (√(AB) + ((√A - √B)²)/2 + 4β² minor): see `Weighted`.
  template <int K>
  EQT_INLINE V delta(T beta, const V (&x)[K], const V (&y)[K]) const {
    const V half = x[1] - y[1];
    return x[1] * y[1] + T(0.5) * half * half + T(4) * beta * beta * minor();
  }
  template <int K>
  EQT_INLINE V behind(const Gaussian<T>& of, const V (&x)[K], const V (&y)[K], V& slope) const {
    const V all = delta(of.beta, x, y), root = square_root(all);
    slope = of.slope * k() / (all * root);
    return of.square / root;
  }
  template <int K>
  EQT_INLINE V behind(const Gabor<T>&, const V (&x)[K], const V (&y)[K], V& slope) const {
    const V all = delta(T(1), x, y), total = x[0] * x[0] + y[0] * y[0], inner = k() / all;
    const V scale = (T(1) + exponential_less_one(T(-0.5) * (total + T(4) * minor()) / all)) / square_root(all);
    const V grown = exponential_less_one(inner), back = grown / (T(1) + grown);
    const V sine = T(0.5) * scale * (grown + back), cosine = scale * (T(1) + T(0.5) * grown * back);
    slope = T(4) * inner * (T(1) + (T(1) + total) / all) * sine + cosine * (T(1) / all + T(8) * inner * inner);
    return sine;
  }
};

template <class T, class Dual>
struct Rescaled {
  static constexpr int kOwn = converted_sides(DualKind::erf);  // t, ρ̂, √Q, √Q/u, 1/u, t/u, and then those of φ
  static constexpr int kSides = kOwn + Dual::kSides;
  static constexpr T kFar = 8;  // of ratios of norms, from which K' tells more than D'
  using V = Vec<T>;
  const Op& op;
  Dual dual;

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    V a[Dual::kSides], b[Dual::kSides];
    for (int i = 0; i < Dual::kSides; ++i) a[i] = x[kOwn + i], b[i] = y[kOwn + i];
    const V first = x[0] * x[1], second = y[0] * y[1], gap = x[1] - y[1], norms = first - second;
    // K is not below -r: of norms too far apart rounding alone is left of D̂ - (ρ̂ - ρ̂')².
    const V e = minimum((x[0] * y[0]) * maximum(d - gap * gap, V{}), T(4) * first * second);
    V distance = e + norms * norms, slope = T(1) - V{};
    const V all = distance;
    dual.pair(distance, slope, a, b);
    const V between = x[2] - y[2];
    V left = distance - between * between;
    const V far = minimum(kFar * first - second, kFar * second - first);
    if (any_below(far, T(0))) {
      V steep;
      const V k = Apart<T>{first * second, e, all}.behind(dual, a, b, steep);
      left = far < 0 ? T(2) * (x[2] * y[2] - k) : left;
      slope = far < 0 ? steep : slope;
    }
    const V apart = x[3] - y[3];
    d = apart * apart + (x[4] * y[4]) * maximum(left, V{});
    theta = theta * (slope * (x[5] * y[5]));
  }

  EQT_INLINE void sides(Doubles q, const Units& units, Doubles (&out)[kSides]) const {
    const Doubles all = units.before * units.before * q, root = square_root(Dual::variance(op, all));
    out[0] = units.before, out[1] = square_root(q), out[2] = root;
    out[3] = root / units.after, out[4] = 1 / units.after, out[5] = units.before / units.after;
    Doubles own[Dual::kSides];
    dual.sides(all, own);
    for (int i = 0; i < Dual::kSides; ++i) out[kOwn + i] = own[i];
  }
  static EQT_INLINE Doubles variance(const Op& of, Doubles q) { return Dual::variance(of, q); }
  static EQT_INLINE Doubles mean(const Op& of, Doubles q) { return Dual::mean(of, q); }
};

}  // namespace eqt::EQT_ISA
