// The beginning of a stage that follows a pool: distances of averages, from averages of distances.
#pragma once

#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

// Number of a pair of blocks, the first of which lies at (z, y, x), in a slab.
inline int64_t place_in(const Slab& slab, int z, int y, int x) {
  const int64_t row = int64_t(z - slab.low[0]) * (slab.high[1] - slab.low[1]) + (y - slab.low[1]);
  return slab.begin + row * (slab.high[2] - slab.low[2]) + (x - slab.low[2]);
}

// With f̄ the mean of f over a block, E(f̄ - f̄')² is the mean of E(f - f')² over pairs of positions, less half of what that
// mean is of each input with itself. (Where unequal parts n, n' of two windows lie on the grid, products of positions
// outside vanish, and (n - n') times the gap of the variances comes in addition.) What rounding alone can make of equal
// or opposite averages counts as such.
template <class T, class S, bool Inside, class Q>
void pooled_row(const Pooled& pooled, const S* sums, T* cells, int64_t n, const Q& sides) {
  constexpr int L = kLanes<T>, N = kVectors<T, S>, K = Inside ? 3 : kPooledSides;
  constexpr S kDoubt = sizeof(T) == 4 ? S(8 * 1.1920929e-7) : S(64 * 2.220446049250313e-16);
  const S scale = S(pooled.scale);
  for (int64_t k = 0; k < n; ++k, sums += 2 * L, cells += 2 * L) {
    Vec<T> first[K], second[K];
    sides.get(k, first, second);
    Vec<S> x[K][N], y[K][N], d[N], theta[N];
    for (int i = 0; i < K; ++i) widened<S>(first[i], x[i]), widened<S>(second[i], y[i]);
    for (int i = 0; i < N; ++i) {
      const Vec<S> mean = scale * load(sums + i * kLanes<S>);
      const Vec<S> gap = x[2][i] - y[2][i], sum = x[2][i] + y[2][i], least = gap * gap, most = sum * sum;
      Vec<S> found = (mean - (x[0][i] + y[0][i])) - (x[1][i] + y[1][i]);
      Vec<S> doubt = mean + (x[0][i] + y[0][i]);
      if constexpr (!Inside) {
        const Vec<S> edge = (x[3][i] - y[3][i]) * (x[4][i] - y[4][i]);
        found += edge;
        doubt += edge > 0 ? edge : -edge;
      }
      doubt *= kDoubt;
      found = found > most - doubt ? most : found;
      d[i] = found < least + doubt ? least : found;
      theta[i] = scale * load(sums + L + i * kLanes<S>);
    }
    store(cells, rounded(d));
    store(cells + L, rounded(theta));
  }
}

}  // namespace eqt::EQT_ISA
