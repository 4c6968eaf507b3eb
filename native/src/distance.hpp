// Squared distances of plain vectors, the first step of an MLP's kernel: like a matrix product, in blocks that keep
// sums in registers, but of differences, so that near-equal inputs lose nothing.
#pragma once

#include "fibre.hpp"

namespace eqt::EQT_ISA {

constexpr int kSpan = 128;                          // channels summed before their sum is rounded into the total
constexpr int kRows = EQT_BYTES == 64 ? 12 : 6;     // first inputs at a time: what the registers hold

template <class T, int R>
void distance_rows(const T* const* a, const T* b, int64_t n, T* out) {
  constexpr int L = kLanes<T>;
  Vec<T> sum[R]{};
  for (int64_t c = 0; c < n; ++c) {
    const Vec<T> y = load(b + c * L);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> gap = a[r][c] - y;
      sum[r] += gap * gap;
    }
  }
  for (int r = 0; r < R; ++r) store(out + r * L, load(out + r * L) + sum[r]);
}

// Distances that the caller knows already.
template <class T>
void given_distances(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      const double d = l < tile.columns ? tile.distances[r * tile.distance_stride + l] : 0;
      tile.k[r * L + l] = plan.vector_dual ? d : (tile.variances[r] + tile.variances2[l] - d) / 2;
      tile.theta[r * L + l] = 0;
    }
}

template <class T>
void distances(const Plan& plan, const Tile<T>& tile) {
  if (tile.distances) return given_distances(plan, tile);
  constexpr int L = kLanes<T>;
  const Workspace<T> work(plan, tile.workspace);
  const int64_t size = plan.positions_in * plan.channels;
  T* out = work.row;
  for (int r = 0; r < tile.rows; ++r) store(out + r * L, Vec<T>{});
  for (int64_t c = 0; c < size; c += kSpan) {
    const int64_t n = size - c < kSpan ? size - c : kSpan;
    if (is_set(tile.cancel)) return;
    int r = 0;
    const T* a[kTileRows];
    for (int i = 0; i < tile.rows; ++i) a[i] = tile.inputs[i] + c;
    for (; r + kRows <= tile.rows; r += kRows) distance_rows<T, kRows>(a + r, tile.signals2 + c * L, n, out + r * L);
    for (; r < tile.rows; ++r) distance_rows<T, 1>(a + r, tile.signals2 + c * L, n, out + r * L);
  }
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      const double d = double(out[r * L + l]) / double(size);
      tile.k[r * L + l] = plan.vector_dual ? d : (tile.variances[r] + tile.variances2[l] - d) / 2;
      tile.theta[r * L + l] = 0;
    }
}

// Of the inputs in the same lanes.
template <class T>
void listed_distances(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  const int64_t size = plan.positions_in * plan.channels;
  double sums[L] = {};
  for (int64_t i = 0; i < size; i += kSpan) {
    Vec<T> sum{};
    for (int64_t c = i; c < i + kSpan && c < size; ++c) {
      const Vec<T> gap = load(tile.signals1 + c * L) - load(tile.signals2 + c * L);
      sum += gap * gap;
    }
    accumulate<T>(sums, sum);
  }
  for (int l = 0; l < L; ++l) {
    const double d = sums[l] / double(size);
    tile.k[l] = plan.vector_dual ? d : (tile.variances[l] + tile.variances2[l] - d) / 2;
    tile.theta[l] = 0;
  }
}

}  // namespace eqt::EQT_ISA
