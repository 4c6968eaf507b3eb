// Sums of the field of one pair offset over the pairs of positions that the readout joins, and of all pair offsets of a tile.
#pragma once

#include "distance.hpp"
#include "pair_offset.hpp"
#include "pooling.hpp"
#include "rotations.hpp"

namespace eqt::EQT_ISA {

// Adds D, Θ, and unless `full` the halved variances, of the pairs whose positions have one label. Rows are summed in T,
// and their sums in double.
template <class T>
void add_offset(const PairOffset<T>& pairs, T* field, bool full, double* d, double* theta, double* q) {
  constexpr int L = kLanes<T>;
  const Plan& plan = pairs.plan;
  const int last = plan.field_count;
  pairs.each_row(last, field, [&](int z, int y, int x, int n, const T* cells) {
    Vec<T> sum_d{}, sum_theta{}, sum_q{};
    if (full) {
      for (int k = 0; k < n; ++k, cells += 2 * L) {
        sum_d += load(cells);
        sum_theta += load(cells + L);
      }
    } else {
      const auto row = pairs.row_of(last, z, y, x, n);
      const auto sides = pairs.sides(plan.side_last, 1, row);
      for (int k = 0; k < n; ++k, cells += 2 * L) {
        const int32_t label = plan.labels[row.first + k];
        if (label < 0 || label != plan.labels[row.second + row.partner[k]]) continue;
        Vec<T> a[1], b[1];
        sides.get(k, a, b);
        sum_d += load(cells);
        sum_theta += load(cells + L);
        sum_q += a[0] + b[0];
      }
      accumulate<T>(q, sum_q);
    }
    accumulate<T>(d, sum_d);
    accumulate<T>(theta, sum_theta);
  });
}

// Adds pair offset number f, whose places were found, of first input number r.
template <class T>
void add_readout(const Plan& plan, const Tile<T>& tile, const Workspace<T>& work, int f, int r) {
  constexpr int L = kLanes<T>;
  const Place& last = work.places[plan.field_count];
  const bool grid = plan.levels[0].grid;
  const int32_t* q = plan.offsets + 3 * f;
  const bool diagonal = grid ? !q[0] && !q[1] && !q[2] : plan.single;
  const bool full = plan.all_kept && (diagonal || (plan.one_block && last.torus));
  const bool own = tile.listed();
  const PairOffset<T> pairs{plan, work, work.places, tile.first_sides(r), tile.sides2, own, diagonal, f};
  T* field = pairs.run(tile.first(r), tile.signals2);
  add_offset(pairs, field, full, work.d + r * L, work.theta + r * L, work.q + r * L);
  if (!full) return;
  for (int l = 0; l < L; ++l) {
    const double first = tile.variance_sums[own ? l : r];
    work.q[r * L + l] += first + tile.variance_sums2[l];
  }
}

// The pair offsets of a stage after a pool, of one first input after another: each has a field over pairs of positions.
template <class T>
void sum_pooled(const Plan& plan, const Tile<T>& tile, const Workspace<T>& work) {
  for (int r = 0; r < tile.rows; ++r) {
    const Feed<T> feed(plan, work, tile.first(r), tile.signals2, tile.first_sides(r), tile.sides2, tile.listed(), tile.cancel);
    for (int f = 0; f < plan.offset_count; ++f) {
      if (is_set(tile.cancel)) return;
      feed.reach(plan, f);
      find_places(plan, f, work.places, work.partners);
      add_readout(plan, tile, work, f, r);
    }
  }
}

template <class T>
void readout(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  if (plan.distance_only) return tile.listed() ? listed_distances(plan, tile) : distances(plan, tile);
  if (plan.rotations) return haar_mean(plan, tile);
  const Workspace<T> work(plan, tile.workspace);
  for (int i = 0; i < tile.rows * L; ++i) work.d[i] = work.theta[i] = work.q[i] = 0;
  if (plan.pooled) {
    sum_pooled(plan, tile, work);
  } else {
    for (int f = 0; f < plan.offset_count; ++f) {
      find_places(plan, f, work.places, work.partners);
      for (int r = 0; r < tile.rows; ++r) {
        if (is_set(tile.cancel)) return;
        add_readout(plan, tile, work, f, r);
      }
    }
  }
  const bool distance = plan.single && plan.vector_dual;
  for (int i = 0; i < tile.rows * L; ++i) {
    tile.k[i] = plan.block_weight * (distance ? work.d[i] : work.q[i] - work.d[i] / 2);
    tile.theta[i] = plan.block_weight * work.theta[i];
  }
}

}  // namespace eqt::EQT_ISA
