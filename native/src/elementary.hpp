// Elementary functions of vectors, to rounding on the ranges that the dual activations need.
#pragma once

#include "polynomials.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

template <class V>
EQT_INLINE V magnitude(V x) {
  return x < 0 ? -x : x;
}

// Rounding by addition: `shift` is so large that its last bit counts ones. `bias` and `width` are the exponent's.
template <class T>
struct Exponent;
template <>
struct Exponent<float> {
  static constexpr float shift = 12582912.0f, low = -87.0f, high = 87.0f;
  static constexpr float log2_high = 0.693359375f, log2_low = -2.12194440e-4f;
  static constexpr int32_t bias = 127, width = 23;
};
template <>
struct Exponent<double> {
  static constexpr double shift = 6755399441055744.0, low = -700.0, high = 700.0;
  static constexpr double log2_high = 6.93145751953125e-1, log2_low = 1.42860682030941723212e-6;
  static constexpr int64_t bias = 1023, width = 52;
};

// e^x - 1, for x clamped to the range where it neither overflows nor differs from -1.
template <class V>
EQT_INLINE V exponential_less_one(V x) {
  using T = Number<V>;
  using E = Exponent<T>;
  using I = typename Traits<T>::Integers;
  x = minimum(maximum(x, E::low - V{}), E::high - V{});
  const V shifted = x * T(1.44269504088896340736) + E::shift;
  const V n = shifted - E::shift;
  const V r = (x - n * E::log2_high) - n * E::log2_low;
  const I exponent = (bits<I>(shifted) - bits<I>(E::shift - V{}) + E::bias) << E::width;
  const V power = bits<V>(exponent);
  return power * (r * polynomial(Polynomials<T>::excess, r)) + (power - T(1));
}

// arctan(y/x) for x > 0.
template <class V>
EQT_INLINE V arctangent(V y, V x) {
  using T = Number<V>;
  const V size = magnitude(y);
  const auto steep = size > x * T(2.41421356237309504880);
  const auto middle = size > x * T(0.41421356237309504880);
  const V above = steep ? -x : (middle ? size - x : size);
  const V below = steep ? size : (middle ? size + x : x);
  const V base = steep ? T(1.57079632679489661923) - V{} : (middle ? T(0.78539816339744830962) - V{} : V{});
  const V ratio = above / below;
  const V angle = base + ratio * polynomial(Polynomials<T>::arctangent, ratio * ratio);
  return y < 0 ? -angle : angle;
}

// arcsin(x) for |x| <= 1/2.
template <class V>
EQT_INLINE V small_arcsine(V x) {
  return x * polynomial(Polynomials<Number<V>>::arcsine, x * x);
}

}  // namespace eqt::EQT_ISA
