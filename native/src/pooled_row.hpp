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
// mean is of each input with itself. What rounding alone can make of equal or opposite averages counts as such.
template <class T, class S>
void pooled_row(const Pooled& pooled, const double* sums, T* cells, int64_t n, const S& sides) {
  constexpr int L = kLanes<T>;
  constexpr double kDoubt = sizeof(T) == 4 ? 8 * 1.1920929e-7 : 64 * 2.220446049250313e-16;
  for (int64_t k = 0; k < n; ++k, sums += 2 * L, cells += 2 * L) {
    Vec<T> x[kPooledSides], y[kPooledSides];
    sides.get(k, x, y);
    for (int l = 0; l < L; ++l) {
      const double own = (double(x[0][l]) + double(y[0][l])) + (double(x[1][l]) + double(y[1][l]));
      const double mean = pooled.scale * sums[l], doubt = kDoubt * (mean + own);
      const double gap = double(x[2][l]) - double(y[2][l]), sum = double(x[2][l]) + double(y[2][l]);
      const double least = gap * gap, most = sum * sum;
      double d = mean - own;
      d = d > most - doubt ? most : d;
      cells[l] = T(d < least + doubt ? least : d);
      cells[L + l] = T(pooled.scale * sums[L + l]);
    }
  }
}

}  // namespace eqt::EQT_ISA
