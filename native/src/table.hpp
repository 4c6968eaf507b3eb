// Weighted sums over windows given by an index table.
#pragma once

#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

template <class T, int Parts>
EQT_INLINE void table_cell(const Op& op, const T* in, int64_t p, T* out) {
  constexpr int L = kLanes<T>;
  const int32_t* index = op.index + p * op.weight_count;
  Vec<T> d{}, theta{};
  for (int s = 0; s < op.weight_count; ++s) {
    const T w = T(op.weights[s]);
    const T* cell = in + Parts * L * int64_t(index[s]);
    d += w * load(cell);
    if (Parts > 1) theta += w * load(cell + L);
  }
  store(out, d);
  store(out + L, theta);
}

// Cells [begin, begin + n) of the sums. Where all windows hold all positions alike, the first cell serves for all; it is
// kept in `spare`.
template <class T, int Parts>
void table_cells(const Op& op, const T* in, int64_t begin, int64_t n, T* out, T* spare) {
  constexpr int L = kLanes<T>;
  if (op.total && begin == 0) table_cell<T, Parts>(op, in, 0, spare);
  for (int64_t k = 0; k < n; ++k) {
    T* cell = out + 2 * L * k;
    if (op.total) {
      store(cell, load(spare));
      store(cell + L, load(spare + L));
    } else {
      table_cell<T, Parts>(op, in, begin + k, cell);
    }
  }
}

}  // namespace eqt::EQT_ISA
