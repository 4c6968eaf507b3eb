// The operations after the readout, on plain vectors: rows of first inputs take the place of rows of positions.
#pragma once

#include "fibre.hpp"

namespace eqt::EQT_ISA {

template <class T, bool Own>
void vector_stage(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  if (!plan.vector_dual) {
    for (int o = 0; o < plan.vector_count; ++o) {
      const double w = plan.vector[o].first, b = plan.vector[o].second;
      for (int i = 0; i < tile.rows * L; ++i) {
        tile.k[i] = w * tile.k[i] + b;
        tile.theta[i] = tile.k[i] + w * tile.theta[i];
      }
    }
    return;
  }
  const Workspace<T> work(plan, tile.workspace);
  const double rounding = 16 * (sizeof(T) == 4 ? 1.1920929e-7 : 2.220446049250313e-16);
  T* cells = work.row;
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      double d = tile.k[r * L + l];
      if (!plan.single) {  // differences below their rounding count as zero, which keeps equal inputs exact
        const double total = (Own ? tile.variances2[l] : tile.variances[r]) + tile.variances2[l];
        d = total - 2 * d;
        if (d <= rounding * total) d = 0;
      }
      cells[2 * r * L + l] = T(d);
      cells[(2 * r + 1) * L + l] = T(tile.theta[r * L + l]);
    }
  int32_t here[kTileRows] = {};
  for (int o = 0; o < plan.vector_count; ++o) {
    const Op& op = plan.vector[o];
    const bool fuse = op.kind == OpKind::affine && op.sides == 0;
    const int64_t at = fuse ? plan.vector[o + 1].side_at : op.side_at;
    // The first inputs' sides are `side_size` apart.
    const T* second = tile.sides2 + at * L;
    const Sides<T, Own> sides{Own ? second : tile.sides[0] + at, plan.side_size, second, 0, here};
    if (fuse) {
      fused<T, 2>(op, plan.vector[++o], T(1), cells, 1, 1, cells, tile.rows, sides);
    } else if (op.kind == OpKind::affine) {
      affine_row(op, cells, tile.rows, sides);
    } else if (op.kind == OpKind::dual) {
      with_dual<T>(op, [&](const auto& dual) { dual_row(dual, cells, tile.rows, sides); });
    } else if (op.kind == OpKind::fork) {
      keep_row(cells, tile.rows, work.kept + op.slot * work.kept_size);
    } else if (op.kind == OpKind::join) {
      const T* before = work.kept + op.slot * work.kept_size;
      if (op.sides) join_row(before, cells, tile.rows, sides);
      else join_row(before, cells, tile.rows);
    }
  }
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      const int64_t at = plan.side_vector;
      const double second = tile.sides2[at * L + l];
      const double q = (Own ? second : double(tile.sides[r][at])) + second;
      tile.k[r * L + l] = q - double(cells[2 * r * L + l]) / 2;
      tile.theta[r * L + l] = cells[(2 * r + 1) * L + l];
    }
}

}  // namespace eqt::EQT_ISA
