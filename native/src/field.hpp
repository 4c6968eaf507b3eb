// Kernel fields: a fibre is written to the result where a readout would sum it.
//
// Vectors run over second inputs, results over positions, so that squares of numbers are transposed on the way. Where
// second positions follow each other in the result, the fibres that differ in the offset along the last axis alone are
// gathered before they are written.
#pragma once

#include "fibre.hpp"
#include "pooling.hpp"
#include "transposed.hpp"

namespace eqt::EQT_ISA {

// Writes rows of cells (K and Θ, `Parts` apart) of neighbouring places in the result: out[l * lane + k] = lane l of cell k.
template <class T, class S>
void write_row(const Vec<T>* cells, int64_t n, S* out, int64_t lane, int lanes) {
  constexpr int L = kLanes<T>;
  int64_t k = 0;
  for (; k + L <= n; k += L) {
    Vec<T> square[L];
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) square[i] = cells[2 * (k + i)];
    transpose<T>(square);
    for (int l = 0; l < lanes; ++l) {
      S* to = out + l * lane + k;
      if constexpr (std::is_same_v<S, T>) {
        std::memcpy(to, &square[l], sizeof(Vec<T>));
      } else {
        for (int i = 0; i < L; ++i) to[i] = S(square[l][i]);
      }
    }
  }
  for (; k < n; ++k)
    for (int l = 0; l < lanes; ++l) out[l * lane + k] = S(cells[2 * k][l]);
}

// One fibre of a pair of a first input and a vector of second ones, after all operations.
template <class T, bool Own, class S>
struct FieldWriter {
  static constexpr int L = kLanes<T>;
  const Plan& plan;
  const FieldOutput& to;
  Vec<T>* gathered;  // (first positions, second positions along the last axis, 2)
  S *k, *theta;      // of this first input and the first of the second ones

  // D becomes K, in place.
  void covariances(const Fibre<T, Own>& fibre, int64_t n, const typename Fibre<T, Own>::Row& row, T* cells) const {
    const auto sides = fibre.sides(plan.side_last, 1, row);
    for (int64_t i = 0; i < n; ++i, cells += 2 * L) {
      Vec<T> a[1], b[1];
      sides.get(i, a, b);
      store(cells, a[0] + b[0] - T(0.5) * load(cells));
    }
  }

  // The same position on both sides: rows of the result are rows of the field.
  void same(const Fibre<T, Own>& fibre, T* field) const {
    fibre.each_row(plan.field_count, field, [&](int z, int y, int x, int n, T* cells) {
      const auto row = fibre.row_of(plan.field_count, z, y, x, n);
      covariances(fibre, n, row, cells);
      const Vec<T>* found = reinterpret_cast<const Vec<T>*>(cells);
      write_row<T, S>(found, n, k + row.first, to.second, to.lanes);
      write_row<T, S>(found + 1, n, theta + row.first, to.second, to.lanes);
    });
  }

  // Listed pairs, or any pairs that a group joins: number by number.
  void scattered(const Fibre<T, Own>& fibre, T* field) const {
    fibre.each_row(plan.field_count, field, [&](int z, int y, int x, int n, T* cells) {
      const auto row = fibre.row_of(plan.field_count, z, y, x, n);
      covariances(fibre, n, row, cells);
      for (int i = 0; i < n; ++i, cells += 2 * L) {
        const int64_t p = row.first + i;
        const int64_t target = to.targets ? to.targets[fibre.number * plan.positions_out + p]
                                          : p * to.position + row.second + row.partner[i];
        if (target < 0) continue;
        for (int l = 0; l < to.lanes; ++l) {
          k[l * to.second + target] = S(cells[l]);
          theta[l * to.second + target] = S(cells[L + l]);
        }
      }
    });
  }

  // Into the block of fibres that differ in the offset along the last axis.
  void gather(const Fibre<T, Own>& fibre, T* field) const {
    const int side = plan.levels[plan.field_count].shape[2];
    fibre.each_row(plan.field_count, field, [&](int z, int y, int x, int n, T* cells) {
      const auto row = fibre.row_of(plan.field_count, z, y, x, n);
      covariances(fibre, n, row, cells);
      for (int i = 0; i < n; ++i, cells += 2 * L)
        std::memcpy(gathered + 2 * ((row.first + i) * side + row.partner[i]), cells, 2 * sizeof(Vec<T>));
    });
  }

  // Writes the block; `fibre` is any of its fibres.
  void flush(const Fibre<T, Own>& fibre) const {
    const Place& place = fibre.places[plan.field_count];
    const int side = plan.levels[plan.field_count].shape[2];
    for (int z = place.low[0]; z < place.high[0]; ++z)
      for (int y = place.low[1]; y < place.high[1]; ++y)
        for (int x = 0; x < side; ++x) {
          const auto row = fibre.row_of(plan.field_count, z, y, x, 1);
          const Vec<T>* found = gathered + 2 * row.first * side;
          const int64_t target = row.first * to.position + row.second;
          write_row<T, S>(found, side, k + target, to.second, to.lanes);
          write_row<T, S>(found + 1, side, theta + target, to.second, to.lanes);
        }
  }
};

template <class T, bool Own, class S>
void write_fields(const Plan& plan, const Tile<T>& tile) {
  const FieldOutput& to = *tile.field;
  const Workspace<T> work(plan, tile.workspace);
  const bool grid = plan.levels[0].grid;
  const bool gathers = to.kind == FieldKind::all && plan.levels[plan.field_count].grid;
  for (int r = 0; r < tile.rows; ++r) {
    const T *x1 = Own ? tile.signals1 : tile.inputs[r], *sides1 = Own ? tile.sides1 : tile.sides[r];
    if (plan.pooled) fill_pooled<T, Own>(plan, work, x1, tile.signals2, sides1, tile.sides2, tile.cancel);
    const FieldWriter<T, Own, S> writer{plan, to, reinterpret_cast<Vec<T>*>(to.scratch), static_cast<S*>(to.k) + r * to.first,
                                        static_cast<S*>(to.theta) + r * to.first};
    for (int f = 0; f < plan.fibre_count; ++f) {
      if (tile.cancel && *tile.cancel) return;
      find_places(plan, f, work.places, work.partners);
      const int32_t *q = plan.fibres + 3 * f, *next = q + 3;
      const bool diagonal = grid ? !q[0] && !q[1] && !q[2] : plan.single;
      const Fibre<T, Own> fibre{plan, work, work.places, sides1, tile.sides2, diagonal, f};
      T* field = fibre.run(x1, tile.signals2);
      if (to.kind == FieldKind::same) {
        writer.same(fibre, field);
      } else if (gathers) {
        writer.gather(fibre, field);
        if (f + 1 == plan.fibre_count || next[0] != q[0] || next[1] != q[1]) writer.flush(fibre);
      } else {
        writer.scattered(fibre, field);
      }
    }
  }
}

template <class T, bool Own>
void fields(const Plan& plan, const Tile<T>& tile) {
  if (tile.field->as_float) write_fields<T, Own, float>(plan, tile);
  else write_fields<T, Own, double>(plan, tile);
}

}  // namespace eqt::EQT_ISA
