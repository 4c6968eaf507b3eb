// Variances of means over the windows of a pool between layers, for which every input is paired with itself.
#pragma once

#include <cmath>

#include "pooling.hpp"
#include "variances.hpp"
#include "windowed_variances.hpp"

namespace eqt::EQT_ISA {

// Of the window of block number p, the part of its positions that lie on the grid.
inline double part_on_grid(const Pooled& pooled, int64_t p) {
  if (!pooled.grid || pooled.wrap) return 1;
  double part = 1;
  for (int a = kAxes - 1; a >= 0; --a) {
    const int begin = pooled.stride[a] * int(p % pooled.out[a]) - pooled.low[a], end = begin + pooled.window[a];
    p /= pooled.out[a];
    const int on_grid = (end < pooled.in[a] ? end : pooled.in[a]) - (begin > 0 ? begin : 0);
    part *= double(on_grid) / pooled.window[a];
  }
  return part;
}

// Of blocks: variances of means, for which every input is paired with itself, and the means of means.
template <class T>
void pool_variances(const Plan& plan, const Group<T>& group, Carried<T>& at) {
  constexpr int L = kLanes<T>;
  const Pooled& pooled = *plan.pooled;
  const auto averaged = [&](double*& values, double*& spare) {
    if (pooled.grid) {
      Op box{};
      for (int a = 0; a < kAxes; ++a) {
        box.in[a] = pooled.in[a], box.out[a] = pooled.out[a], box.window[a] = pooled.window[a];
        box.stride[a] = pooled.stride[a], box.low[a] = pooled.low[a];
      }
      box.wrap = pooled.wrap;
      return WindowedVariances<T>::box(box, values, spare);
    }
    for (int64_t i = 0; i < pooled.out[2] * L; i += kLanes<double>) store(spare + i, Doubles{});
    const double share = std::sqrt(pooled.scale);
    for (int64_t p = 0; p < pooled.fine->positions_out; ++p)
      for (int l = 0; l < L && pooled.blocks[p] >= 0; ++l) spare[pooled.blocks[p] * L + l] += share * values[p * L + l];
    double* swap = values;
    values = spare, spare = swap;
  };
  averaged(at.q, at.other);
  if (plan.means) {
    double *values = at.mean, *spare = at.other;
    averaged(values, spare);
    if (values != at.mean) std::memcpy(at.mean, values, size_t(plan.levels[0].positions) * L * sizeof(double));
  }
  const Workspace<T> work(plan, at.workspace);
  Feed<T, true>(*pooled.own, work, group.signals, group.signals, group.lanes, group.lanes, nullptr).reach(*pooled.own, 0);
  const int64_t begin = pooled.own->pooled->begin;
  for (int64_t p = 0; p < plan.levels[0].positions; ++p) {
    const double part = part_on_grid(pooled, p);
    for (int l = 0; l < L; ++l) {
      const int64_t number = p * 2 * L + l;
      const double sum = pooled.narrow ? double(work.template sums<T>(begin)[number]) : work.template sums<double>(begin)[number];
      const double half = pooled.scale * sum / 2, before = at.q[p * L + l];
      const double q = part * before > half ? part * before - half : 0;
      at.q[p * L + l] = q;
      const T values[kPooledSides] = {T(half), T(half - double(T(half))), T(std::sqrt(q)), T(part), T(before)};
      for (int i = 0; i < kPooledSides; ++i) {
        const int64_t side = pooled.side_at + p * kPooledSides + i;
        if (group.rows) group.rows[l * plan.side_size + side] = values[i];
        group.lanes[side * L + l] = values[i];
      }
    }
  }
}

}  // namespace eqt::EQT_ISA
