// The operations after the readout, on plain vectors: rows of first inputs take the place of rows of positions.
#pragma once

#include <cmath>

#include "operations.hpp"

namespace eqt::EQT_ISA {

template <class T, bool Own>
void vector_stage(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  if (!plan.vector_dual) {
    for (int o = 0; o < plan.vector_count; ++o) {
      const Op& op = plan.vector[o];
      const double w = op.first, b = op.second;
      for (int i = 0; i < tile.rows * L; ++i) {
        const double k = w * tile.k[i];
        tile.k[i] = k + b;
        tile.theta[i] = (op.total ? op.third * k + op.fourth : k + b) + w * tile.theta[i];
      }
    }
    return;
  }
  const Workspace<T> work(plan, tile.workspace);
  // Of sums over pairs of positions: of products in T, added up in double.
  const double rounding = sizeof(T) == 4 ? 4 * 1.1920929e-7 : 64 * 2.220446049250313e-16;
  T* cells = work.row;
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      double d = tile.k[r * L + l];
      if (!plan.single) {
        // What rounding of the pool's terms alone can make of equal or opposite outputs counts as such. Terms may be much
        // larger than their mean: their size is that of the variances before pooling.
        const int i = Own ? l : r;
        const double q1 = tile.variances[i], q2 = tile.variances2[l], most = std::sqrt(q1 * q2);
        const double terms = std::sqrt(tile.variance_sums[i] * tile.variance_sums2[l]) * 2 / double(plan.positions_out);
        if (std::abs(most - std::abs(d)) <= rounding * terms) {
          const double apart = std::sqrt(q1) - std::copysign(std::sqrt(q2), d);
          d = apart * apart;
        } else {
          d = q1 + q2 - 2 * d;
        }
      }
      cells[2 * r * L + l] = T(d);
      cells[(2 * r + 1) * L + l] = T(tile.theta[r * L + l]);
    }
  int32_t here[kTileRows] = {};
  operations(plan.vector, plan.vector_count, work, cells, tile.rows, [&](int64_t at) {
    // The first inputs' sides are `side_size` apart.
    const T* first = Own ? tile.sides1 + at * L : tile.sides[0] + at;
    return Sides<T, Own>{first, plan.side_size, tile.sides2 + at * L, 0, here};
  });
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      const int64_t at = plan.side_vector;
      const double q = double(Own ? tile.sides1[at * L + l] : tile.sides[r][at]) + double(tile.sides2[at * L + l]);
      tile.k[r * L + l] = q - double(cells[2 * r * L + l]) / 2;
      tile.theta[r * L + l] = cells[(2 * r + 1) * L + l];
    }
}

}  // namespace eqt::EQT_ISA
