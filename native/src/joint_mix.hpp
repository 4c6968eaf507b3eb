// K' = A K A'ᵀ and Θ' = A Θ A'ᵀ: one product after the other, of the entries that are not zero.
#pragma once

#include "joint_memory.hpp"

namespace eqt::EQT_ISA {

// One row of A: its entries by lanes (`Lanes`: every input of the vector has its own) or one for all.
template <bool Lanes>
struct MixingRow {
  static constexpr int L = kLanes<double>;
  const double* entries;
  const int32_t* columns;
  int64_t size;

  Doubles entry(int64_t e) const {
    if constexpr (Lanes) return load(entries + e * L);
    else return splat(entries[e]);
  }

  // Those that are not zero, or not numbers, listed in `memory`.
  int list(const JointMemory& memory) const {
    int count = 0;
    for (int64_t e = 0; e < size; ++e) {
      const Doubles v = entry(e);
      bool zero = true;
      for (int l = 0; l < (Lanes ? L : 1); ++l) zero = zero && v[l] == 0;
      if (zero) continue;
      store(memory.listed + count * L, v);
      memory.columns[count++] = columns[e];
    }
    return count;
  }
};

// `N` cells, `step` numbers apart: the sums of listed entries times cells whose column lies `jump` numbers from the next.
template <int N>
EQT_INLINE void listed_sum(const JointMemory& memory, int count, const double* cells, int64_t step, int64_t jump, Doubles (&k)[N],
                           Doubles (&theta)[N]) {
  constexpr int L = kLanes<double>;
  for (int i = 0; i < N; ++i) k[i] = theta[i] = Doubles{};
  for (int e = 0; e < count; ++e) {
    const Doubles w = load(memory.listed + e * L);
    const double* cell = cells + memory.columns[e] * jump;
    for (int i = 0; i < N; ++i, cell += step) {
      k[i] += w * load(cell);
      theta[i] += w * load(cell + L);
    }
  }
}

// half(p, b) = Σ_a A(p, a) of cells (a, b), for one p.
inline void mix_first(const JointMemory& memory, int count, const double* cells, int64_t width, double* half) {
  constexpr int L = kLanes<double>;
  const auto put = [&](int64_t b, auto&& k, auto&& theta, int n) {
    for (int i = 0; i < n; ++i) {
      store(half + (b + i) * 2 * L, k[i]);
      store(half + (b + i) * 2 * L + L, theta[i]);
    }
  };
  int64_t b = 0;
  for (; b + 4 <= width; b += 4) {
    Doubles k[4], theta[4];
    listed_sum(memory, count, cells + b * 2 * L, 2 * L, width * 2 * L, k, theta);
    put(b, k, theta, 4);
  }
  for (; b < width; ++b) {
    Doubles k[1], theta[1];
    listed_sum(memory, count, cells + b * 2 * L, 2 * L, width * 2 * L, k, theta);
    put(b, k, theta, 1);
  }
}

// Calls put(p, K, Θ) for all p < rows, with Σ_b A'(p', b) half(p, b) for one p'.
template <class F>
void mix_second(const JointMemory& memory, int count, const double* half, int64_t rows, int64_t width, F&& put) {
  constexpr int L = kLanes<double>;
  int64_t p = 0;
  for (; p + 4 <= rows; p += 4) {
    Doubles k[4], theta[4];
    listed_sum(memory, count, half + p * width * 2 * L, width * 2 * L, 2 * L, k, theta);
    for (int i = 0; i < 4; ++i) put(p + i, k[i], theta[i]);
  }
  for (; p < rows; ++p) {
    Doubles k[1], theta[1];
    listed_sum(memory, count, half + p * width * 2 * L, width * 2 * L, 2 * L, k, theta);
    put(p, k[0], theta[0]);
  }
}

}  // namespace eqt::EQT_ISA
