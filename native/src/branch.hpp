// Branches: the field at the fork is kept while a branch runs, and added where they join. The next of several branches
// goes back to it.
#pragma once

#include "pointwise.hpp"

namespace eqt::EQT_ISA {

template <class T>
void keep_row(const T* cells, int64_t n, T* kept) {
  std::memcpy(kept, cells, size_t(n) * 2 * kLanes<T> * sizeof(T));
}

template <class T>
void back_row(const T* kept, int64_t n, T* cells) {
  std::memcpy(cells, kept, size_t(n) * 2 * kLanes<T> * sizeof(T));
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
template <class T, class S>
void join_row(const T* kept, T* cells, int64_t n, const S& means) {
  join_row(kept, cells, n);
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<T>) {
    Vec<T> x[2], y[2];
    means.get(k, x, y);
    store(cells, load(cells) + T(2) * (x[0] - y[0]) * (x[1] - y[1]));
  }
}

}  // namespace eqt::EQT_ISA
