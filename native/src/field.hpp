// Kernel fields: the pairs of one offset are written to the result where a readout would sum them.
//
// Vectors run over second inputs, results over positions, so that squares of numbers are transposed on the way. Where
// second positions follow each other in the result, the offsets that differ along the last axis alone are
// gathered before they are written.
#pragma once

#include "pair_offset.hpp"
#include "pooling.hpp"

namespace eqt::EQT_ISA {

// Results are written once and read much later: where a vector is a cache line, past the cache.
template <class T>
EQT_INLINE void write_past(T* to, Vec<T> v) {
#if EQT_BYTES == 64
  if ((reinterpret_cast<uintptr_t>(to) & 63) == 0)
    return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(v));
#endif
  std::memcpy(to, &v, sizeof v);
}

// Before other threads read what was written past the cache.
inline void finish_writing() {
#if EQT_BYTES == 64
  _mm_sfence();
#endif
}

// Where K or Θ goes: numbers of T, or `narrow` ones, floats in place of doubles.
template <class T>
struct Output {
  void* numbers;
  bool narrow;

  EQT_INLINE void put(int64_t at, T value) const {
    if (narrow) static_cast<float*>(numbers)[at] = float(value);
    else static_cast<T*>(numbers)[at] = value;
  }
};

// A vector's lanes, `lane` apart, as neighbours of those written before.
template <class T>
EQT_INLINE void write_square(Vec<T> (&square)[kLanes<T>], const Output<T>& out, int64_t at, int64_t lane, int lanes) {
  transpose<T>(square);
#pragma GCC unroll 16
  for (int l = 0; l < kLanes<T>; ++l) {
    if (l >= lanes) break;
    if (sizeof(T) == 4 || !out.narrow) write_past(static_cast<T*>(out.numbers) + at + l * lane, square[l]);
    else for (int i = 0; i < kLanes<T>; ++i) out.put(at + l * lane + i, square[l][i]);
  }
}

// Writes n neighbouring numbers of every lane, K and Θ; `cell(i, k, theta)` gives vector number i of both.
template <class T, class F>
EQT_INLINE void write_row(int64_t n, const Output<T>& k, const Output<T>& theta, int64_t begin, int64_t lane, int lanes, F&& cell) {
  constexpr int L = kLanes<T>;
  int64_t at = 0;
  for (; at + L <= n; at += L) {
    Vec<T> ks[L], thetas[L];
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) cell(at + i, ks[i], thetas[i]);
    write_square<T>(ks, k, begin + at, lane, lanes);
    write_square<T>(thetas, theta, begin + at, lane, lanes);
  }
  for (; at < n; ++at) {
    Vec<T> one, other;
    cell(at, one, other);
    for (int l = 0; l < lanes; ++l) {
      k.put(begin + l * lane + at, one[l]);
      theta.put(begin + l * lane + at, other[l]);
    }
  }
}

// The fields of all pair offsets, of a first input and a vector of second ones, after all operations.
template <class T>
struct FieldWriter {
  static constexpr int L = kLanes<T>;
  const Plan& plan;
  const FieldOutput& to;
  T* gathered;   // rows of cells: (rows of first positions, offsets that differ along the last axis, positions of a row)
  int most;      // such offsets
  Output<T> k, theta;
  int64_t begin;  // of this first input and the first of the second ones
  Vec<T> unit;   // the product of both inputs' units
  Vec<T> odd{};  // 0 in every lane until a number that is not finite is seen

  // (K, Θ) from cell number i of a row of (D, Θ).
  template <class Sides>
  EQT_INLINE void cell(const Sides& sides, const T* cells, int64_t i, Vec<T>& found, Vec<T>& tangent) {
    Vec<T> a[1], b[1];
    sides.get(i, a, b);
    found = unit * (a[0] + b[0] - T(0.5) * load(cells + 2 * L * i));
    tangent = unit * load(cells + 2 * L * i + L);
    odd += (found + tangent) * T(0);
  }

  // The same position on both sides: rows of the result are rows of the field.
  void same(const PairOffset<T>& pairs, T* field) {
    pairs.each_row(plan.field_count, field, [&](int z, int y, int x, int n, const T* cells) {
      const auto row = pairs.row_of(plan.field_count, z, y, x, n);
      const auto sides = pairs.sides(plan.side_last, 1, row);
      write_row<T>(n, k, theta, begin + row.first, to.second, to.lanes,
                   [&](int64_t i, Vec<T>& one, Vec<T>& other) EQT_INLINE_LAMBDA { cell(sides, cells, i, one, other); });
    });
  }

  // Listed pairs, or any pairs that a group joins: number by number.
  void scattered(const PairOffset<T>& pairs, T* field) {
    pairs.each_row(plan.field_count, field, [&](int z, int y, int x, int n, const T* cells) {
      const auto row = pairs.row_of(plan.field_count, z, y, x, n);
      const auto sides = pairs.sides(plan.side_last, 1, row);
      for (int i = 0; i < n; ++i) {
        const int64_t p = row.first + i;
        const int64_t target = to.targets ? to.targets[pairs.number * plan.positions_out + p]
                                          : p * to.position + row.second + row.partner[i];
        if (target < 0) continue;
        Vec<T> one, other;
        cell(sides, cells, i, one, other);
        for (int l = 0; l < to.lanes; ++l) {
          k.put(begin + l * to.second + target, one[l]);
          theta.put(begin + l * to.second + target, other[l]);
        }
      }
    });
  }

  // Into the block of offsets that differ along the last axis, as number `member` of them.
  void gather(const PairOffset<T>& pairs, T* field, int member) {
    const int side = plan.levels[plan.field_count].shape[2];
    pairs.each_row(plan.field_count, field, [&](int z, int y, int x, int n, const T* cells) {
      const auto row = pairs.row_of(plan.field_count, z, y, x, n);
      const auto sides = pairs.sides(plan.side_last, 1, row);
      T* kept = gathered + 2 * L * (((row.first - x) / side * most + member) * side + x);
      with_known(sides, [&](const auto& known) EQT_INLINE_LAMBDA {
        for (int i = 0; i < n; ++i, kept += 2 * L) {
          Vec<T> one, other;
          cell(known, cells, i, one, other);
          store(kept, one);
          store(kept + L, other);
        }
      });
    });
  }

  // Writes the block, whose last pair offset, number `last` of them, is that of `pairs`.
  void flush(const PairOffset<T>& pairs, int last) {
    const Place& place = pairs.places[plan.field_count];
    const int side = plan.levels[plan.field_count].shape[2];
    for (int z = place.low[0]; z < place.high[0]; ++z)
      for (int y = place.low[1]; y < place.high[1]; ++y)
        for (int x = 0; x < side; ++x) {
          const auto row = pairs.row_of(plan.field_count, z, y, x, 1);
          const T* cells = gathered + 2 * L * ((row.first - x) / side * most * side + x);
          const int64_t target = row.first * to.position + row.second;
          // The pair offset that joins x to x2: offsets rise from 0 on a torus, and to side - 1 on other grids.
          const auto member = [&](int64_t x2) {
            const int64_t gap = x2 - x;
            return place.torus ? (gap < 0 ? gap + side : gap) : gap - (side - 1) + last;
          };
          write_row<T>(side, k, theta, begin + target, to.second, to.lanes,
                       [&](int64_t x2, Vec<T>& one, Vec<T>& other) EQT_INLINE_LAMBDA {
                         const T* at = cells + 2 * L * side * member(x2);
                         one = load(at);
                         other = load(at + L);
                       });
        }
  }
};

template <class T>
void fields(const Plan& plan, const Tile<T>& tile) {
  const FieldOutput& to = *tile.field;
  const Workspace<T> work(plan, tile.workspace);
  const bool grid = plan.levels[0].grid;
  const bool gathers = to.kind == FieldKind::all && plan.levels[plan.field_count].grid;
  for (int r = 0; r < tile.rows; ++r) {
    const T *x1 = tile.first(r), *sides1 = tile.first_sides(r);
    const Feed<T> feed(plan, work, x1, tile.signals2, sides1, tile.sides2, tile.listed(), tile.cancel);
    const bool narrow = sizeof(T) == sizeof(double) && to.as_float;
    FieldWriter<T> writer{plan, to, static_cast<T*>(to.scratch), to.gathered, {to.k, narrow}, {to.theta, narrow}, r * to.first,
                          T(1) - Vec<T>{}};
    for (int l = 0; tile.units && l < kLanes<T>; ++l) writer.unit[l] = T(tile.units[tile.listed() ? l : r] * tile.units2[l]);
    int member = 0;
    for (int f = 0; f < plan.offset_count; ++f) {
      if (is_set(tile.cancel)) return;
      if (plan.pooled) feed.reach(plan, f);
      find_places(plan, f, work.places, work.partners);
      const int32_t *q = plan.offsets + 3 * f, *next = q + 3;
      const bool diagonal = grid ? !q[0] && !q[1] && !q[2] : plan.single;
      const PairOffset<T> pairs{plan, work, work.places, sides1, tile.sides2, tile.listed(), diagonal, f};
      T* field = pairs.run(x1, tile.signals2);
      if (to.kind == FieldKind::same) {
        writer.same(pairs, field);
      } else if (gathers) {
        writer.gather(pairs, field, member);
        if (f + 1 == plan.offset_count || next[0] != q[0] || next[1] != q[1]) {
          writer.flush(pairs, member);
          member = -1;
        }
        ++member;
      } else {
        writer.scattered(pairs, field);
      }
    }
    for (int l = 0; l < to.lanes; ++l)
      if (!(writer.odd[l] == 0)) set(to.odd);
  }
  finish_writing();
}

}  // namespace eqt::EQT_ISA
