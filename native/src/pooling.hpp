// Pools between layers: every fine fibre is run once, and added into the coarse fibres that its pairs of positions fall into.
#pragma once

#include "fibre.hpp"

namespace eqt::EQT_ISA {

// Along one axis: for pairs of windows whose numbers differ by `blocks`, the pairs of positions that a fibre joins begin
// at stride · (first window) + [from, to), between `low` and `high`.
struct Overlap {
  int blocks, from, to, low, high;
};

// Calls f(overlap) for all pairs of windows along axis `a` that positions with offset `offset` fall into; on a torus the
// offset is meant modulo its length.
template <class F>
void each_overlap(const Pooled& pooled, int a, int offset, bool torus, F&& f) {
  const int n = pooled.in[a], m = pooled.out[a], w = pooled.window[a], s = pooled.stride[a];
  const int turns = torus ? 1 : 0;
  for (int turn = -turns; turn <= turns; ++turn) {
    const int t = offset + turn * n;
    if (t <= -n || t >= n) continue;
    for (int blocks = 1 - m; blocks < m; ++blocks) {
      const int apart = s * blocks - t;  // from the second position of a first window's begin to the second window's
      if (apart <= -w || apart >= w) continue;
      f(Overlap{blocks, (apart > 0 ? apart : 0) - pooled.low[a], (apart < 0 ? w + apart : w) - pooled.low[a], t < 0 ? -t : 0,
                t > 0 ? n - t : n});
    }
  }
}

// Adds a fibre of `fine`, whose field after all operations is `field`, to the coarse ones.
template <class T>
struct Pooling {
  static constexpr int L = kLanes<T>;
  const Pooled& pooled;
  const Place& place;  // of the fine fibre's last level
  const T* field;
  double* sums;

  void add_grid() const {
    each_overlap(pooled, 0, place.offset[0], place.torus, [&](const Overlap& z) {
      each_overlap(pooled, 1, place.offset[1], place.torus, [&](const Overlap& y) {
        each_overlap(pooled, 2, place.offset[2], place.torus, [&](const Overlap& x) { add_windows(z, y, x); });
      });
    });
  }

  // Blocks: of each pair of positions, the pair of blocks.
  void add_blocks(int64_t positions) const {
    const int m = pooled.out[2];
    for (int64_t p = 0; p < positions; ++p) {
      const int first = pooled.blocks[p], second = pooled.blocks[place.partner[p]];
      if (first < 0 || second < 0) continue;
      const int slab = pooled.slab_of_difference[second - first + m - 1];
      if (slab < 0) continue;
      double* to = sums + 2 * L * place_in(pooled.slabs[slab], 0, 0, first);
      accumulate<T>(to, load(field + 2 * L * p));
      accumulate<T>(to + L, load(field + 2 * L * p + L));
    }
  }

 private:
  void add_windows(const Overlap& z, const Overlap& y, const Overlap& x) const {
    const int *m = pooled.out, *s = pooled.stride;
    const int64_t difference =
        (int64_t(z.blocks + m[0] - 1) * (2 * m[1] - 1) + (y.blocks + m[1] - 1)) * (2 * m[2] - 1) + (x.blocks + m[2] - 1);
    const int number = pooled.slab_of_difference[difference];
    if (number < 0) return;
    const Slab& slab = pooled.slabs[number];
    const auto first = [](const Overlap& o) { return o.blocks < 0 ? -o.blocks : 0; };
    const auto end = [](const Overlap& o, int count) { return o.blocks > 0 ? count - o.blocks : count; };
    for (int bz = first(z); bz < end(z, m[0]); ++bz)
      for (int by = first(y); by < end(y, m[1]); ++by) {
        double* to = sums + 2 * L * place_in(slab, bz, by, first(x));
        for (int bx = first(x); bx < end(x, m[2]); ++bx, to += 2 * L)
          add_window(z, s[0] * bz, y, s[1] * by, x, s[2] * bx, to);
      }
  }

  void add_window(const Overlap& z, int at_z, const Overlap& y, int at_y, const Overlap& x, int at_x, double* to) const {
    const auto begin = [](const Overlap& o, int at) { return at + o.from > o.low ? at + o.from : o.low; };
    const auto end = [](const Overlap& o, int at) { return at + o.to < o.high ? at + o.to : o.high; };
    const int from = begin(x, at_x), to_x = end(x, at_x);
    Vec<T> d{}, theta{};
    for (int pz = begin(z, at_z); pz < end(z, at_z); ++pz)
      for (int py = begin(y, at_y); py < end(y, at_y); ++py) {
        const T* cell = field + 2 * L * (place.row(pz, py) + from - place.from[2]);
        for (int px = from; px < to_x; ++px, cell += 2 * L) {
          d += load(cell);
          theta += load(cell + L);
        }
      }
    accumulate<T>(to, d);
    accumulate<T>(to + L, theta);
  }
};

// Fills the field over pairs of positions with which the stage `plan` begins, of one first input with a vector of others.
template <class T, bool Own>
void fill_pooled(const Plan& plan, const Workspace<T>& work, const T* x1, const T* x2, const T* sides1, const T* sides2,
                 const volatile int32_t* cancel) {
  const Pooled& pooled = *plan.pooled;
  const Plan& fine = *pooled.fine;
  if (fine.pooled) fill_pooled<T, Own>(fine, work, x1, x2, sides1, sides2, cancel);
  double* sums = work.pairs + 2 * kLanes<T> * pooled.begin;
  std::memset(sums, 0, size_t(pooled.cells) * 2 * kLanes<T> * sizeof(double));
  for (int f = 0; f < fine.fibre_count; ++f) {
    if (cancel && *cancel) return;
    find_places(fine, f, work.places, work.partners);
    const int32_t* q = fine.fibres + 3 * f;
    const bool diagonal = fine.levels[0].grid && !q[0] && !q[1] && !q[2];
    const Fibre<T, Own> fibre{fine, work, work.places, sides1, sides2, diagonal, f};
    const T* field = fibre.run(x1, x2);
    const Pooling<T> pooling{pooled, work.places[fine.field_count], field, sums};
    if (pooled.grid) pooling.add_grid();
    else pooling.add_blocks(fine.positions_out);
  }
}

}  // namespace eqt::EQT_ISA
