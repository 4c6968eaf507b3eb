// Squares of numbers, as many vectors as each has lanes, with rows and columns exchanged.
#pragma once

#include <utility>

#include "vector.hpp"

namespace eqt::EQT_ISA {

// Lanes of a and b in turn, from the first half of each or from the second.
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
