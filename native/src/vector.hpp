// Vectors of the width that this translation unit is compiled for, as GCC and Clang spell them on every machine.
// Everything lives in a namespace of its own per instruction set, so that the linker cannot mix them.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef EQT_ISA
#error "EQT_ISA names the instruction set, EQT_BYTES the width of its vectors"
#endif

namespace eqt::EQT_ISA {

typedef float Floats __attribute__((vector_size(EQT_BYTES)));
typedef double Doubles __attribute__((vector_size(EQT_BYTES)));
typedef int32_t Ints __attribute__((vector_size(EQT_BYTES)));
typedef int64_t Longs __attribute__((vector_size(EQT_BYTES)));

template <class T>
struct Traits;
template <>
struct Traits<float> {
  using Vector = Floats;
  using Integers = Ints;
};
template <>
struct Traits<double> {
  using Vector = Doubles;
  using Integers = Longs;
};

template <class T>
using Vec = typename Traits<T>::Vector;
template <class T>
constexpr int kLanes = EQT_BYTES / sizeof(T);

#define EQT_INLINE inline __attribute__((always_inline))

template <class T>
EQT_INLINE Vec<T> load(const T* p) {
  return *reinterpret_cast<const Vec<T>*>(p);
}
template <class T>
EQT_INLINE void store(T* p, Vec<T> v) {
  *reinterpret_cast<Vec<T>*>(p) = v;
}
template <class T>
EQT_INLINE Vec<T> splat(T x) {
  return x - Vec<T>{};
}

template <class V>
EQT_INLINE V minimum(V a, V b) {
  return a < b ? a : b;
}
template <class V>
EQT_INLINE V maximum(V a, V b) {
  return a > b ? a : b;
}

EQT_INLINE Floats square_root(Floats x) {
#if EQT_BYTES == 64
  return (Floats)_mm512_sqrt_ps((__m512)x);
#elif EQT_BYTES == 32
  return (Floats)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (Floats)_mm_sqrt_ps((__m128)x);
#else
  return (Floats)vsqrtq_f32((float32x4_t)x);
#endif
}
EQT_INLINE Doubles square_root(Doubles x) {
#if EQT_BYTES == 64
  return (Doubles)_mm512_sqrt_pd((__m512d)x);
#elif EQT_BYTES == 32
  return (Doubles)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
  return (Doubles)_mm_sqrt_pd((__m128d)x);
#else
  return (Doubles)vsqrtq_f64((float64x2_t)x);
#endif
}

// Σ c_i x^i
template <class V, class T, int N>
EQT_INLINE V polynomial(const T (&c)[N], V x) {
  V sum = c[N - 1] - V{};
#pragma GCC unroll 32
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

}  // namespace eqt::EQT_ISA
