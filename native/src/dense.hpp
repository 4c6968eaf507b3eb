// Plain vectors through dense layers with a kink between them: D and Θ of a few rows stay in registers from products to
// results. It is what `distances`, `vector_stage` and `put` do one after another, by the same steps, to the same bits.
#pragma once

#include "distance.hpp"
#include "transposed.hpp"
#include "vector_stage.hpp"

namespace eqt::EQT_ISA {

constexpr int kHeld = EQT_BYTES == 64 ? 4 : 2;  // rows that the registers hold

// R first inputs from number r of the tile on; false: a pair is near or nearly opposite, and none is written. Adds 0 times all results to `zeros`.
template <class T, int R>
EQT_INLINE bool dense_rows(const Plan& plan, const Tile<T>& tile, const PiecewiseLinear<T>& dual, int r, T* k, T* theta, int64_t stride,
                           Vec<T>& zeros) {
  constexpr int L = kLanes<T>, N = kVectors<T, double>, D = kLanes<double>;
  const double share = 2 / double(plan.positions_in * plan.channels);
  const auto first = [&](int i, int64_t at) { return splat(tile.sides[r + i][at]); };
  const auto second = [&](int64_t at) { return load(tile.sides2 + at * L); };
  Vec<T> d[R], t[R]{}, gaps[R]{};
  bool far = true;
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
    Doubles wide[N];
    far &= far_distances(tile.products + (r + i) * L, tile.variances[r + i], tile.variances2, share, wide);
    d[i] = rounded(wide);
  }
  if (!far) return false;
  if (plan.units) {
    Vec<T> most = d[0];
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      most = maximum(most, d[i]);
      gaps[i] = Biases<T>(first(i, plan.side_unit), second(plan.side_unit)).distance;
    }
    if (any_below(-most, T(-kNearlyOpposite))) return false;
  }
  int o = 0;
  for (; o + 1 < plan.vector_count; o += 2) {
    const T w = T(plan.vector[o].weight), bias = T(plan.vector[o].bias);
    const int64_t at = plan.vector[o + 1].side_at;
    const Vec<T> y[2] = {second(at), second(at + 1)};
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const Vec<T> x[2] = {first(i, at), first(i, at + 1)}, here[2] = {opaque(y[0]), y[1]};
      d[i] = w * d[i] + bias * gaps[i];  // without biases w * d[i], to the last bit
      layer_pair(dual, w, d[i], t[i], x, here);
    }
  }
  if (o < plan.vector_count) {
    const T w = T(plan.vector[o].weight), bias = T(plan.vector[o].bias);
    const int64_t at = plan.vector[o].side_at;
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      d[i] = w * d[i] + bias * gaps[i];
      const Vec<T> product = first(i, at) + second(at) - T(0.5) * d[i];
      t[i] = product + w * t[i];
    }
  }
  Doubles halved[N];
  widened<double>(second(plan.side_vector), halved);
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
    Doubles own[N], unit[N], wide[N], tangent[N];
    for (int n = 0; n < N; ++n) {
      own[n] = double(tile.sides[r + i][plan.side_vector]) - Doubles{};
      unit[n] = plan.units ? tile.units[r + i] * load(tile.units2 + n * D) : 1 - Doubles{};
    }
    results<T>(d[i], t[i], own, halved, unit, wide, tangent);
    const Vec<T> found[2] = {rounded(wide), rounded(tangent)};
    zeros += found[0] * T(0) + found[1] * T(0);
    std::memcpy(k + (r + i) * stride, &found[0], sizeof found[0]);
    std::memcpy(theta + (r + i) * stride, &found[1], sizeof found[1]);
  }
  return true;
}

template <class T>
bool dense(const Plan& plan, const Tile<T>& tile, T* k, T* theta, int64_t stride, bool* finite) {
  const PiecewiseLinear<T> dual(plan.vector[1]);
  Vec<T> zeros{};
  int r = 0;
  for (; r + kHeld <= tile.rows; r += kHeld)
    if (!dense_rows<T, kHeld>(plan, tile, dual, r, k, theta, stride, zeros)) return false;
  for (; r < tile.rows; ++r)
    if (!dense_rows<T, 1>(plan, tile, dual, r, k, theta, stride, zeros)) return false;
  T sum = 0;
  for (int l = 0; l < kLanes<T>; ++l) sum += zeros[l];
  *finite = sum == 0;
  return true;
}

// Row r and column l of a block, `stride` numbers a row, become column r and row l of another.
template <class T>
void mirror(const T* from, int rows, int lanes, T* to, int64_t stride) {
  constexpr int L = kLanes<T>;
  int r = 0;
  for (; lanes == L && r + L <= rows; r += L) {
    Vec<T> square[L];
    for (int i = 0; i < L; ++i) std::memcpy(&square[i], from + (r + i) * stride, sizeof square[i]);
    transpose<T>(square);
    for (int l = 0; l < L; ++l) std::memcpy(to + l * stride + r, &square[l], sizeof square[l]);
  }
  for (; r < rows; ++r)
    for (int l = 0; l < lanes; ++l) to[l * stride + r] = from[r * stride + l];
}

}  // namespace eqt::EQT_ISA
