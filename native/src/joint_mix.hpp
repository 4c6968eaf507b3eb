// K' = A K A'ᵀ and Θ' = A Θ A'ᵀ: one product after the other, of the entries that are not zero; or, where all entries are
// there, in blocks that keep sums in registers.
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

// Products of rows of A without zeros with cells, four rows at a time.
template <bool Lanes>
struct FullProduct {
  static constexpr int L = kLanes<double>, kRows = 4, kCells = EQT_BYTES == 64 ? 2 : 1;
  const double* entries;  // (rows, size), by lanes or one for all
  int64_t rows, size;
  const double* cells;
  int64_t step, jump;  // numbers between cells that are added, and between those that are not
  int64_t count;       // of sums for each row

  // Calls put(i, j, K, Θ) with the sums of row i and cell j.
  template <class F>
  void each(F&& put) const {
    int64_t i = 0;
    for (; i + kRows <= rows; i += kRows) along<kRows>(i, put);
    for (; i < rows; ++i) along<1>(i, put);
  }

 private:
  template <int R, class F>
  void along(int64_t i, F&& put) const {
    int64_t j = 0;
    for (; j + kCells <= count; j += kCells) block<R, kCells>(i, j, put);
    for (; j < count; ++j) block<R, 1>(i, j, put);
  }

  template <int R, int C, class F>
  EQT_INLINE void block(int64_t i, int64_t j, F&& put) const {
    Doubles k[R][C]{}, theta[R][C]{};
    const double *row = entries + i * size * (Lanes ? L : 1), *cell = cells + j * jump;
    for (int64_t e = 0; e < size; ++e, cell += step)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        Doubles w;
        if constexpr (Lanes) w = load(row + (r * size + e) * L);
        else w = splat(row[r * size + e]);
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) {
          k[r][c] += w * load(cell + c * jump);
          theta[r][c] += w * load(cell + c * jump + L);
        }
      }
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) put(i + r, j + c, k[r][c], theta[r][c]);
  }
};

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
