// Squared distances of plain vectors, the first step of an MLP's kernel, in blocks that keep sums in registers. Of most
// pairs D = q + q' - 2 x·x', by products at the rate of a matrix product; of near ones from differences, at half of it, so
// that they lose nothing. Which way a pair goes is seen from its own products: it is the same in every tile and call.
#pragma once

#include "pair_offset.hpp"

namespace eqt::EQT_ISA {

constexpr int kSpan = 128;                          // channels summed before their sum is rounded into the total
constexpr int kRows = EQT_BYTES == 64 ? 12 : 6;     // first inputs at a time: what the registers hold
constexpr int kAbreast = 3;                         // vectors of second inputs that are multiplied at a time
constexpr double kNear = 1.0 / 32;                  // pairs with D below this times q + q' are near: cosines from 31/32 on

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

// First inputs that are multiplied at a time: with `kAbreast` vectors of second ones what the registers hold.
template <class T>
constexpr int kMultiplied = EQT_BYTES == 64 ? 8 : kLanes<T> < 4 ? kLanes<T> : 4;

// Adds the products of R first inputs, neighbours in a vector by lanes, with G vectors of second inputs.
template <class T, int R, int G>
void multiply(const T* a, const T* const* b, int64_t n, T* out) {
  constexpr int L = kLanes<T>;
  // All loops over sums are unrolled, so that these never leave the registers.
  Vec<T> sum[R][G];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) sum[r][g] = Vec<T>{};
  const T* second[G];
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) second[g] = b[g];
  for (int64_t c = 0; c < n; ++c) {
    Vec<T> y[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) y[g] = load(second[g] + c * L);
    const T* x = a + c * L;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) sum[r][g] += x[r] * y[g];
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      T* to = out + (g * kTileRows + r) * L;
      store(to, load(to) + sum[r][g]);
    }
}

// Products of first inputs from number `at` on, which is a multiple of 8, with `groups` vectors of second inputs, at most
// `kAbreast`: (groups, kTileRows, lanes). `first` and `second` are inputs by lanes, (size, lanes) for one vector after another.
template <class T>
void products(const Plan& plan, const T* first, int64_t at, int rows, const T* second, int groups, T* out, const Flag* cancel) {
  constexpr int L = kLanes<T>, R = kMultiplied<T>;
  const int64_t size = plan.positions_in * plan.channels;
  for (int i = 0; i < groups * kTileRows; ++i) store(out + i * L, Vec<T>{});
  for (int64_t c = 0; c < size; c += kSpan) {
    if (is_set(cancel)) return;
    const int64_t n = size - c < kSpan ? size - c : kSpan;
    const T* b[kAbreast];
    for (int g = 0; g < groups; ++g) b[g] = second + (g * size + c) * L;
    const auto from = [&](int r) { return first + ((at + r) / L * size + c) * L + (at + r) % L; };
    const auto each = [&](auto abreast) {
      constexpr int G = decltype(abreast)::value;
      int r = 0;
      // Of a last block some rows are no inputs, but lie in the same vector.
      for (; r + R / 2 < rows; r += R) multiply<T, R, G>(from(r), b, n, out + r * L);
      for (; r < rows; ++r) multiply<T, 1, G>(from(r), b, n, out + r * L);
    };
    if (groups == 1) each(std::integral_constant<int, 1>{});
    else if (groups == 2) each(std::integral_constant<int, 2>{});
    else each(std::integral_constant<int, 3>{});
  }
}

// D of a first input, of variance q, with a vector of second ones from their products; whether no pair is near.
template <class T>
EQT_INLINE bool far_distances(const T* products, double q, const double* variances2, double share, Doubles (&d)[kVectors<T, double>]) {
  Doubles product[kVectors<T, double>];
  widened<double>(load(products), product);
  bool far = true;
  for (int i = 0; i < kVectors<T, double>; ++i) {
    const Doubles sum = q + load(variances2 + i * kLanes<double>);
    d[i] = sum - share * product[i];
    far &= all_at_least(d[i], kNear * sum);
  }
  return far;
}

// Sums of squared differences of `count` first inputs with the second ones, row r into row r of `out`.
template <class T>
void sum_differences(const T* const* inputs, int count, const T* second, int64_t size, T* out, const Flag* cancel) {
  constexpr int L = kLanes<T>;
  for (int r = 0; r < count; ++r) store(out + r * L, Vec<T>{});
  const T* a[kTileRows];
  for (int64_t c = 0; c < size; c += kSpan) {
    const int64_t n = size - c < kSpan ? size - c : kSpan;
    if (is_set(cancel)) return;
    int r = 0;
    for (int i = 0; i < count; ++i) a[i] = inputs[i] + c;
    for (; r + kRows <= count; r += kRows) distance_rows<T, kRows>(a + r, second + c * L, n, out + r * L);
    for (; r < count; ++r) distance_rows<T, 1>(a + r, second + c * L, n, out + r * L);
  }
}

template <class T>
void distances(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  const Workspace<T> work(plan, tile.workspace);
  const int64_t size = plan.positions_in * plan.channels;
  const double share = 2 / double(size);
  const T* near[kTileRows];
  int count = 0, row[kTileRows];
  for (int r = 0; r < tile.rows; ++r) {
    Doubles d[kVectors<T, double>];
    const bool far = far_distances(tile.products + r * L, tile.variances[r], tile.variances2, share, d);
    for (int i = 0; i < kVectors<T, double>; ++i) store(tile.k + r * L + i * kLanes<double>, d[i]);
    if (!far) near[count] = tile.inputs[r], row[count++] = r;
  }
  T* out = work.row;
  sum_differences(near, count, tile.signals2, size, out, tile.cancel);
  for (int i = 0; i < count; ++i)
    for (int l = 0; l < L; ++l) {
      double& d = tile.k[row[i] * L + l];
      if (!(d >= kNear * (tile.variances[row[i]] + tile.variances2[l]))) d = double(out[i * L + l]) / double(size);
    }
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      if (!plan.vector_dual) tile.k[r * L + l] = (tile.variances[r] + tile.variances2[l] - tile.k[r * L + l]) / 2;
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
