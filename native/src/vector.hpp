// Vectors of the width that this translation unit is compiled for, as GCC and Clang spell them on every machine.
// Everything lives in a namespace of its own per instruction set, so that the linker cannot mix them.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__SSE2__)
// GCC's own header reads what it calls undefined, and warns of that.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
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
template <class V>
using Number = std::remove_reference_t<decltype(V{}[0])>;
template <class T>
constexpr int kLanes = EQT_BYTES / sizeof(T);

#define EQT_INLINE inline __attribute__((always_inline))
#define EQT_INLINE_LAMBDA __attribute__((always_inline))

// What fields are divided by before a nonlinearity and behind it.
struct Units {
  Doubles before, after;
};

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

// A vector that the compiler knows nothing of. A product that is fused with a sum is rounded once with it, one that several
// sums share is rounded by itself: where numbers must be the same in both places, factors are not known to be the same.
template <class V>
EQT_INLINE V opaque(V v) {
#if defined(__SSE2__)
  __asm__("" : "+v"(v));
#elif defined(__aarch64__)
  __asm__("" : "+w"(v));
#endif
  return v;
}

// The same bits as another type.
template <class To, class From>
EQT_INLINE To bits(From value) {
  return reinterpret_cast<To>(value);
}

// The name of an intrinsic for vectors of this width.
#if EQT_BYTES == 64
#define EQT_X86(name) _mm512_##name
#elif EQT_BYTES == 32
#define EQT_X86(name) _mm256_##name
#else
#define EQT_X86(name) _mm_##name
#endif

#if defined(__SSE2__)
EQT_INLINE Floats square_root(Floats x) { return EQT_X86(sqrt_ps)(x); }
EQT_INLINE Doubles square_root(Doubles x) { return EQT_X86(sqrt_pd)(x); }
EQT_INLINE Floats minimum(Floats a, Floats b) { return EQT_X86(min_ps)(a, b); }
EQT_INLINE Doubles minimum(Doubles a, Doubles b) { return EQT_X86(min_pd)(a, b); }
EQT_INLINE Floats maximum(Floats a, Floats b) { return EQT_X86(max_ps)(a, b); }
EQT_INLINE Doubles maximum(Doubles a, Doubles b) { return EQT_X86(max_pd)(a, b); }
#else
EQT_INLINE Floats square_root(Floats x) { return vsqrtq_f32(x); }
EQT_INLINE Doubles square_root(Doubles x) { return vsqrtq_f64(x); }
EQT_INLINE Floats minimum(Floats a, Floats b) { return vminq_f32(a, b); }
EQT_INLINE Doubles minimum(Doubles a, Doubles b) { return vminq_f64(a, b); }
EQT_INLINE Floats maximum(Floats a, Floats b) { return vmaxq_f32(a, b); }
EQT_INLINE Doubles maximum(Doubles a, Doubles b) { return vmaxq_f64(a, b); }
#endif

// Whether any lane of x is below a bound; whether every lane of a is at least that of b, as numbers that are not finite may not be.
#if EQT_BYTES == 64
EQT_INLINE bool any_below(Floats x, float bound) { return _mm512_cmp_ps_mask(x, _mm512_set1_ps(bound), _CMP_LT_OQ) != 0; }
EQT_INLINE bool any_below(Doubles x, double bound) { return _mm512_cmp_pd_mask(x, _mm512_set1_pd(bound), _CMP_LT_OQ) != 0; }
EQT_INLINE bool all_at_least(Doubles a, Doubles b) { return _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ) == 0xff; }
#elif defined(__SSE2__)
EQT_INLINE bool any_below(Floats x, float bound) { return EQT_X86(movemask_ps)(Floats(x < bound)) != 0; }
EQT_INLINE bool any_below(Doubles x, double bound) { return EQT_X86(movemask_pd)(Doubles(x < bound)) != 0; }
EQT_INLINE bool all_at_least(Doubles a, Doubles b) { return EQT_X86(movemask_pd)(Doubles(a >= b)) == (1 << EQT_BYTES / 8) - 1; }
#else
EQT_INLINE bool any_below(Floats x, float bound) { return vmaxvq_u32(reinterpret_cast<uint32x4_t>(x < bound)) != 0; }
EQT_INLINE bool any_below(Doubles x, double bound) { return vmaxvq_u32(reinterpret_cast<uint32x4_t>(x < bound)) != 0; }
EQT_INLINE bool all_at_least(Doubles a, Doubles b) { return vminvq_u32(reinterpret_cast<uint32x4_t>(a >= b)) != 0; }
#endif

// Adds the lanes of v, times `weight`, to sums in double.
template <class T>
EQT_INLINE void accumulate(double* sums, Vec<T> v, double weight = 1) {
  T values[kLanes<T>];
  std::memcpy(values, &v, sizeof v);
  for (int l = 0; l < kLanes<T>; ++l) sums[l] += weight * double(values[l]);
}

typedef float HalfFloats __attribute__((vector_size(EQT_BYTES / 2)));

// As many numbers of the other width. GCC would convert half of a vector at a time, and join vectors in memory.
EQT_INLINE Doubles widened(HalfFloats v) {
#if EQT_BYTES == 64
  return _mm512_cvtps_pd(v);
#elif EQT_BYTES == 32
  return _mm256_cvtps_pd(v);
#else
  return __builtin_convertvector(v, Doubles);
#endif
}
EQT_INLINE HalfFloats narrowed(Doubles v) {
#if EQT_BYTES == 64
  return _mm512_cvtpd_ps(v);
#elif EQT_BYTES == 32
  return _mm256_cvtpd_ps(v);
#else
  return __builtin_convertvector(v, HalfFloats);
#endif
}

// The lanes of a vector in two halves, and back.
EQT_INLINE void split(Floats v, HalfFloats (&halves)[2]) {
#if EQT_BYTES == 64
  halves[0] = _mm512_castps512_ps256(v), halves[1] = _mm512_extractf32x8_ps(v, 1);
#elif EQT_BYTES == 32
  halves[0] = _mm256_castps256_ps128(v), halves[1] = _mm256_extractf128_ps(v, 1);
#else
  std::memcpy(halves, &v, sizeof v);
#endif
}
EQT_INLINE Floats joined(HalfFloats low, HalfFloats high) {
#if EQT_BYTES == 64
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
#elif EQT_BYTES == 32
  return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
#else
  const HalfFloats halves[2] = {low, high};
  Floats out;
  std::memcpy(&out, halves, sizeof out);
  return out;
#endif
}

// The lanes of a vector of T in vectors of S, a type at least as wide: `kVectors` of them.
template <class T, class S>
constexpr int kVectors = sizeof(S) / sizeof(T);

template <class S>
EQT_INLINE void widened(Vec<S> v, Vec<S> (&out)[1]) {
  out[0] = v;
}
template <class S>
EQT_INLINE void widened(Floats v, Doubles (&out)[2]) {
  HalfFloats halves[2];
  split(v, halves);
  for (int i = 0; i < 2; ++i) out[i] = widened(halves[i]);
}

template <class V>
EQT_INLINE V rounded(const V (&v)[1]) {
  return v[0];
}
EQT_INLINE Floats rounded(const Doubles (&v)[2]) { return joined(narrowed(v[0]), narrowed(v[1])); }

// Writes as many doubles as a vector of T has lanes, rounded.
template <class T>
EQT_INLINE void round_to(T* to, const double* from) {
  constexpr int N = kVectors<T, double>;
  Doubles wide[N];
  for (int i = 0; i < N; ++i) wide[i] = load(from + i * kLanes<double>);
  store(to, rounded(wide));
}

// Σ c_i x^i by Estrin's scheme: neighbours are joined with ever higher powers of x, so that chains of dependent
// operations stay short; these loops are bound by latency.
template <class V, class T, int N>
EQT_INLINE V polynomial(const T (&c)[N], V x) {
  V terms[(N + 1) / 2];
#pragma GCC unroll 16
  for (int i = 0; i < N / 2; ++i) terms[i] = c[2 * i + 1] * x + c[2 * i];
  if (N % 2) terms[N / 2] = c[N - 1] - V{};
  V power = x;
#pragma GCC unroll 8
  for (int n = (N + 1) / 2; n > 1; n = (n + 1) / 2) {
    power = power * power;
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) terms[i] = terms[2 * i + 1] * power + terms[2 * i];
    if (n % 2) terms[n / 2] = terms[n - 1];
  }
  return terms[0];
}

// Squares of numbers, as many vectors as each has lanes, with rows and columns exchanged: lanes of a and b in turn, from the first half of each or from the second.
template <class T, bool High, int... I>
EQT_INLINE Vec<T> interleaved(Vec<T> a, Vec<T> b, std::integer_sequence<int, I...>) {
  constexpr int L = kLanes<T>, from = High ? L / 2 : 0;
#if defined(__clang__)
  return __builtin_shufflevector(a, b, (from + I / 2 + (I % 2) * L)...);
#else
  return __builtin_shuffle(a, b, typename Traits<T>::Integers{(from + I / 2 + (I % 2) * L)...});
#endif
}

template <class T>
EQT_INLINE void transpose(Vec<T> (&square)[kLanes<T>]) {
  constexpr int L = kLanes<T>;
  using Lanes = std::make_integer_sequence<int, L>;
#pragma GCC unroll 4
  for (int step = 1; step < L; step *= 2) {
    Vec<T> next[L];
#pragma GCC unroll 16
    for (int i = 0; i < L / 2; ++i) {
      next[2 * i] = interleaved<T, false>(square[i], square[i + L / 2], Lanes{});
      next[2 * i + 1] = interleaved<T, true>(square[i], square[i + L / 2], Lanes{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) square[i] = next[i];
  }
}

}  // namespace eqt::EQT_ISA
