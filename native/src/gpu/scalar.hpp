// What vector.hpp is to the CPU, with vectors of one lane: each thread of a GPU carries positions of its own.
// Without a CUDA compiler the same text is C++ whose threads are iterations of a loop (block.hpp).
#pragma once

#if defined(__CUDACC_RTC__)  // no standard headers there
typedef int int32_t;
typedef long long int64_t;
namespace std {
template <class T, size_t N>
constexpr size_t size(const T (&)[N]) {
  return N;
}
}  // namespace std
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>
#endif

#if defined(__CUDACC__)
#define EQT_INLINE __device__ __forceinline__
#else
#define EQT_INLINE inline __attribute__((always_inline))
#endif
#define EQT_ISA gpu

namespace eqt::EQT_ISA {

typedef double Doubles;

template <class T>
struct Traits;
template <>
struct Traits<float> {
  using Integers = int32_t;
};
template <>
struct Traits<double> {
  using Integers = int64_t;
};

template <class T>
using Vec = T;
template <class V>
using Number = V;

EQT_INLINE bool any_below(float x, float bound) { return x < bound; }
EQT_INLINE bool any_below(double x, double bound) { return x < bound; }

#if defined(__CUDACC__)
EQT_INLINE float square_root(float x) { return sqrtf(x); }
EQT_INLINE double square_root(double x) { return sqrt(x); }
EQT_INLINE float minimum(float a, float b) { return fminf(a, b); }
EQT_INLINE double minimum(double a, double b) { return fmin(a, b); }
EQT_INLINE float maximum(float a, float b) { return fmaxf(a, b); }
EQT_INLINE double maximum(double a, double b) { return fmax(a, b); }
#else
template <class T>
EQT_INLINE T square_root(T x) {
  return std::sqrt(x);
}
template <class T>
EQT_INLINE T minimum(T a, T b) {
  return a < b ? a : b;
}
template <class T>
EQT_INLINE T maximum(T a, T b) {
  return a > b ? a : b;
}
#endif

// The same bits as another type.
template <class To, class From>
EQT_INLINE To bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "of the same size");
  To found;
  memcpy(&found, &value, sizeof found);
  return found;
}

// Σ c_i x^i; a GPU hides the latency of the chain behind other threads.
template <class V, class T, int N>
EQT_INLINE V polynomial(const T (&c)[N], V x) {
  V value = c[N - 1];
#pragma unroll
  for (int i = N - 2; i >= 0; --i) value = value * x + c[i];
  return value;
}

}  // namespace eqt::EQT_ISA
