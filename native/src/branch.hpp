// Branches: the field at the fork is kept while a branch runs, and added where they join. The next of several branches
// goes back to it.
#pragma once

#include "pointwise.hpp"

namespace eqt::EQT_ISA {

// Into the place where a field is kept, or back.
template <class T>
void copy_row(const T* from, int64_t n, T* to) {
  std::memcpy(to, from, size_t(n) * 2 * kLanes<T> * sizeof(T));
}

// Channels side by side: means with the shares of channels as weights.
template <class T>
void join_channels(const Op& op, const T* kept, T* cells, int64_t n) {
  const T first = T(op.kept_share), second = T(op.added_share);
  for (int64_t i = 0; i < 2 * kLanes<T> * n; i += kLanes<T>) store(cells + i, second * load(cells + i) + first * load(kept + i));
}

template <class T>
void join_row(const T* kept, T* cells, int64_t n) {
  for (int64_t i = 0; i < 2 * kLanes<T> * n; i += kLanes<T>) store(cells + i, load(cells + i) + load(kept + i));
}

// Where both summands have means m, m': E[(f+g)(f'+g')] gains m_f m_g' + m_g m_f', and D twice the product of their gaps.
template <class T>
void join_row(const T* kept, T* cells, int64_t n, const Sides<T>& means) {
  join_row(kept, cells, n);
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<T>) {
    Vec<T> x[2], y[2];
    means.get(k, x, y);
    store(cells, load(cells) + T(2) * (x[0] - y[0]) * (x[1] - y[1]));
  }
}

// s f + t g of fields in units of their own, f kept and g in the cells. The sides are what `convert` needs of f and of g, and, if
// there are `K` = 6, their means in the new unit.
template <class T, int K>
void join_units(T first, T second, const T* kept, T* cells, int64_t n, const Sides<T>& sides) {
  for (int64_t k = 0; k < n; ++k, kept += 2 * kLanes<T>, cells += 2 * kLanes<T>) {
    Vec<T> x[K], y[K];
    sides.get(k, x, y);
    Vec<T> d = load(cells), theta = load(cells + kLanes<T>), other = load(kept), tangent = load(kept + kLanes<T>);
    convert<T>(other, tangent, x, y);
    convert<T>(d, theta, x + 2, y + 2);
    d = maximum(second * d + first * other, Vec<T>{});
    if constexpr (K > kJoinedSides) d += T(2) * (x[4] - y[4]) * (x[5] - y[5]);
    store(cells, d);
    store(cells + kLanes<T>, second * theta + first * tangent);
  }
}

// What branches make of the cells where they meet, with what `sides()` gives.
template <class T, class F>
void join_branches(const Op& op, const T* kept, T* cells, int64_t n, F&& sides) {
  const T first = T(op.concatenates ? op.kept_share : 1), second = T(op.concatenates ? op.added_share : 1);
  if (op.changes && op.sides > kJoinedSides) join_units<T, kJoinedSides + 2>(first, second, kept, cells, n, sides());
  else if (op.changes) join_units<T, kJoinedSides>(first, second, kept, cells, n, sides());
  else if (op.concatenates) join_channels(op, kept, cells, n);
  else if (op.sides) join_row(kept, cells, n, sides());
  else join_row(kept, cells, n);
}

}  // namespace eqt::EQT_ISA
