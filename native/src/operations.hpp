// Operations on cells that have no neighbours: they follow each other in memory, `n` of them.
#pragma once

#include "branch.hpp"
#include "fibre.hpp"

namespace eqt::EQT_ISA {

// `sides(at)` are those that begin at number `at` of each input's; `units(op)` calls what it is given with the inputs' units.
template <class T, class F, class U>
EQT_INLINE void operations(const Op* ops, int count, const Workspace<T>& work, T* cells, int64_t n, F&& sides, U&& with_units) {
  for (int o = 0; o < count; ++o) {
    const Op& op = ops[o];
    if (op.kind == OpKind::affine && op.sides == 0) {
      const Op& dual = ops[++o];
      with_units(op, [&](const auto& units) {
        fused_row<T, 1, 2>(op, PiecewiseLinear<T>(dual), T(1), cells, 1, 1, cells, n, sides(dual.side_at), units);
      });
    } else if (op.kind == OpKind::affine) {
      with_units(op, [&](const auto& units) { affine_row(op, cells, n, sides(op.side_at), units); });
    } else if (op.kind == OpKind::dual) {
      with_dual<T>(op, [&](const auto& dual) { dual_row(dual, cells, n, sides(op.side_at)); });
      if (op.changes && op.offset != 0) raise_row(cells, n, sides(op.side_at + op.sides - kRaisedSides));
    } else if (op.kind == OpKind::fork) {
      keep_row(cells, n, work.kept + op.slot * work.kept_size);
    } else if (op.kind == OpKind::back) {
      back_row(work.kept + op.slot * work.kept_size, n, cells);
    } else if (op.kind == OpKind::join) {
      join_branches(op, work.kept + op.slot * work.kept_size, cells, n, [&] { return sides(op.side_at); });
    }
  }
}

}  // namespace eqt::EQT_ISA
