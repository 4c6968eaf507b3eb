// Where the pairs of one offset lie, and sums over their windows.
#pragma once

#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

// x modulo n, for x not far outside [0, n): windows read so often that a division would show.
EQT_INLINE int wrapped(int x, int n) {
  while (x < 0) x += n;
  while (x >= n) x -= n;
  return x;
}

// Where the pairs of one offset lie at one level: the first positions carried, and their partners.
struct Place {
  bool torus;                    // every position has a partner; else only those of [low, high) have
  int low[kAxes], high[kAxes];   // first positions carried
  int from[kAxes], to[kAxes];    // the same with the margin that the next window reads: the field's extent in memory
  int offset[kAxes];
  const int32_t* partner;        // along a row: the second position for each first one

  int64_t row(int z, int y) const {  // in cells, of position `from[2]`
    return (int64_t(z - from[0]) * (to[1] - from[1]) + (y - from[1])) * (to[2] - from[2]);
  }
};

// Weighted sums over windows given by an index table.
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

// Sums over box windows: over the window's rows first, into a row buffer with margins, then along the row.
// `Parts` of a cell: D and Θ, or (1) D alone, before the first layer with weights, where Θ = 0.
template <class T, int R>
void add_rows_of(const T* const* rows, int count, T* out, int64_t size) {
  constexpr int L = kLanes<T>;
  const int n = R ? R : count;
  for (int64_t i = 0; i < size; i += L) {
    Vec<T> sum = load(rows[0] + i);
    for (int r = 1; r < n; ++r) sum += load(rows[r] + i);
    store(out + i, sum);
  }
}

template <class T>
void add_rows(const T* const* rows, int count, T* out, int64_t size) {
  switch (count) {
    case 1: return add_rows_of<T, 1>(rows, count, out, size);
    case 2: return add_rows_of<T, 2>(rows, count, out, size);
    case 3: return add_rows_of<T, 3>(rows, count, out, size);
    case 5: return add_rows_of<T, 5>(rows, count, out, size);
    default: return add_rows_of<T, 0>(rows, count, out, size);
  }
}

template <class T, int Parts>
EQT_INLINE void copy_cell(T* to, const T* from) {
  store(to, load(from));
  if (Parts > 1) store(to + kLanes<T>, load(from + kLanes<T>));
}

// The sums over the rows that output row (z, y) reads, from the first column that its first column reads.
template <class T, int Parts>
const T* sum_of_rows(const Op& op, const Place& in, const Place& out, const T* field, int z, int y, const T** rows,
                     T* buffer) {
  const int64_t cell = Parts * kLanes<T>;
  const int first = op.stride[2] * out.low[2] - op.low[2];
  const int last = op.stride[2] * (out.high[2] - 1) - op.low[2] + op.window[2];
  int count = 0;
  for (int dz = 0; dz < op.window[0]; ++dz)
    for (int dy = 0; dy < op.window[1]; ++dy) {
      int rz = op.stride[0] * z - op.low[0] + dz, ry = op.stride[1] * y - op.low[1] + dy;
      if (in.torus) rz = wrapped(rz, op.in[0]), ry = wrapped(ry, op.in[1]);
      rows[count++] = field + cell * in.row(rz, ry);
    }
  if (!in.torus) {
    for (int r = 0; r < count; ++r) rows[r] += cell * (first - in.from[2]);
    if (count == 1) return rows[0];
    add_rows(rows, count, buffer, cell * (last - first));
    return buffer;
  }
  const int n = op.in[2];
  if (count == 1 && first >= 0 && last <= n) return rows[0] + cell * first;
  T* zero = buffer + cell * (first < 0 ? -first : 0);
  add_rows(rows, count, zero, cell * n);
  for (int x = first; x < 0; ++x) copy_cell<T, Parts>(zero + cell * x, zero + cell * wrapped(x, n));
  for (int x = n; x < last; ++x) copy_cell<T, Parts>(zero + cell * x, zero + cell * wrapped(x, n));
  return zero + cell * first;
}

// out(k) = scale · Σ_u sums(stride·k + u)
template <class T, int Parts>
void sum_along(const T* sums, int width, int64_t stride, T scale, T* cells, int64_t n) {
  constexpr int L = kLanes<T>;
  for (int64_t k = 0; k < n; ++k, sums += Parts * L * stride, cells += 2 * L) {
    Vec<T> d{}, theta{};
    for (int u = 0; u < width; ++u) {
      d += load(sums + Parts * L * u);
      if (Parts > 1) theta += load(sums + Parts * L * u + L);
    }
    store(cells, scale * d);
    store(cells + L, scale * theta);
  }
}

// Outside the carried positions K = Θ = 0: D is the variance of whichever input still has a position there.
template <class T, int Parts>
void fill_margin(const Level& level, const Place& place, T* field, const T* first, const T* second, bool in_lanes) {
  constexpr int L = kLanes<T>;
  const int *n = level.shape, *o = place.offset;
  const auto inside = [](int p, int count) { return p >= 0 && p < count; };
  for (int z = place.from[0]; z < place.to[0]; ++z)
    for (int y = place.from[1]; y < place.to[1]; ++y) {
      const bool carried = z >= place.low[0] && z < place.high[0] && y >= place.low[1] && y < place.high[1];
      const bool own = inside(z, n[0]) && inside(y, n[1]);
      const bool partner = inside(z + o[0], n[0]) && inside(y + o[1], n[1]);
      const int64_t at = (int64_t(z) * n[1] + y) * n[2];
      const int64_t partner_at = (int64_t(z + o[0]) * n[1] + y + o[1]) * n[2] + o[2];
      T* row = field + Parts * L * (place.row(z, y) - place.from[2]);
      const auto fill = [&](int begin, int end) {
        for (int x = begin; x < end; ++x) {
          Vec<T> d{};
          if (own && inside(x, n[2])) {
            if (in_lanes) d += load(first + L * (at + x));
            else d += first[at + x];
          }
          if (partner && inside(x + o[2], n[2])) d += load(second + L * (partner_at + x));
          store(row + Parts * L * x, d);
          if (Parts > 1) store(row + Parts * L * x + L, Vec<T>{});
        }
      };
      fill(place.from[2], carried ? place.low[2] : place.to[2]);
      if (carried) fill(place.high[2], place.to[2]);
    }
}

}  // namespace eqt::EQT_ISA
