// Pools between layers: every fine pair offset is run once, and added into the coarse ones that its pairs fall into.
#pragma once

#include "pair_offset.hpp"

namespace eqt::EQT_ISA {

// Along one axis: for pairs of windows whose numbers differ by `blocks`, the pairs of positions with one offset begin
// at stride · (first window) + [from, to), as far as these lie between `low` and `high`.
struct Overlap {
  int blocks, from, to, low, high;

  int first_block() const { return blocks < 0 ? -blocks : 0; }
  int last_block(int count) const { return blocks > 0 ? count - blocks : count; }
  int begin(int at) const { return at + from > low ? at + from : low; }
  int end(int at) const { return at + to < high ? at + to : high; }
};

// Calls f(overlap) for all pairs of windows along axis `a` that positions with offset `offset` fall into; on a torus the
// offset is meant modulo its length.
template <class F>
void each_overlap(const Pooled& pooled, int a, int offset, bool torus, F&& f) {
  const int n = pooled.in[a], m = pooled.out[a], w = pooled.window[a], s = pooled.stride[a];
  const int turns = pooled.wrap ? 2 + w / n : torus ? 1 : 0;
  for (int turn = -turns; turn <= turns; ++turn) {
    const int t = offset + turn * n;
    if (!pooled.wrap && (t <= -n || t >= n)) continue;
    const int low = pooled.wrap ? -pooled.low[a] : t < 0 ? -t : 0;
    const int high = pooled.wrap ? s * m + w : t > 0 ? n - t : n;
    // Windows whose begins differ by s·blocks overlap, moved by t, if |s·blocks - t| < w.
    const int least = t - w + 1 > 0 ? (t - w + s) / s : -((w - 1 - t) / s);
    const int most = t + w - 1 >= 0 ? (t + w - 1) / s : -((s - t - w) / s);
    for (int blocks = least > 1 - m ? least : 1 - m; blocks <= most && blocks < m; ++blocks) {
      const int apart = s * blocks - t;
      f(Overlap{blocks, (apart > 0 ? apart : 0) - pooled.low[a], (apart < 0 ? w + apart : w) - pooled.low[a], low, high});
    }
  }
}

template <class T, class S>
EQT_INLINE void add_to(S* sums, Vec<T> v) {
  Vec<S> parts[kVectors<T, S>];
  widened<S>(v, parts);
  for (int i = 0; i < kVectors<T, S>; ++i) {
    S* to = sums + i * kLanes<S>;
    store(to, load(to) + parts[i]);
  }
}

// Adds to each of `n` cells those of `count` rows, of `width` columns, `stride` columns further on for each.
template <class T, class S>
void add_window_row(const T* const* rows, int count, int width, int64_t stride, S* to, int64_t n) {
  constexpr int L = kLanes<T>;
  for (int64_t k = 0; k < n; ++k, to += 2 * L) {
    Vec<T> d{}, theta{};
    for (int r = 0; r < count; ++r) {
      const T* cell = rows[r] + 2 * L * stride * k;
      for (int u = 0; u < width; ++u, cell += 2 * L) {
        d += load(cell);
        theta += load(cell + L);
      }
    }
    add_to<T, S>(to, d);
    add_to<T, S>(to + L, theta);
  }
}

// Windows of R × W on rows `row` apart, in m rows of n windows: `down` and `across` from one to the next, whose sums are in
// rows `below` apart. Most windows are that small: nothing is decided row by row.
template <class T, class S, int R, int W>
void add_plane_of(const T* cells, int64_t row, int64_t down, int64_t across, int64_t m, int64_t n, S* sums, int64_t below) {
  constexpr int L = kLanes<T>;
  for (int64_t i = 0; i < m; ++i, cells += down, sums += below) {
    const T* at = cells;
    S* to = sums;
    for (int64_t k = 0; k < n; ++k, at += across, to += 2 * L) {
      Vec<T> d{}, theta{};
      for (int r = 0; r < R; ++r)
        for (int u = 0; u < W; ++u) {
          d += load(at + r * row + 2 * L * u);
          theta += load(at + r * row + 2 * L * u + L);
        }
      add_to<T, S>(to, d);
      add_to<T, S>(to + L, theta);
    }
  }
}

// Adds a pair offset of `fine`, whose field after all operations is `field`, to the coarse ones.
template <class T, class S>
struct Pooling {
  static constexpr int L = kLanes<T>;
  const Pooled& pooled;
  const Workspace<T>& work;
  const Place& place;  // of the fine pair offset's last level
  const T* field;

  S* sums() const { return work.template sums<S>(pooled.begin); }

  // Sums begin at zero; slabs that are not needed any more leave the cache meanwhile.
  void begin(int number) const {
    char& begun = work.begun[pooled.slab_at + number];
    if (begun) return;
    begun = 1;
    const Slab& slab = pooled.slabs[number];
    int64_t cells = 1;
    for (int a = 0; a < kAxes; ++a) cells *= slab.high[a] > slab.low[a] ? slab.high[a] - slab.low[a] : 0;
    std::memset(sums() + 2 * L * slab.begin, 0, size_t(cells) * 2 * L * sizeof(S));
  }

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
      begin(slab);
      S* to = sums() + 2 * L * place_in(pooled.slabs[slab], 0, 0, first);
      add_to<T, S>(to, load(field + 2 * L * p));
      add_to<T, S>(to + L, load(field + 2 * L * p + L));
    }
  }

  // What is kept in a slot at a level of the fine pair offset, whose grid is that of the blocks.
  void keep(const Carry& carry, const Place& at) const {
    const int* n = pooled.out;
    T* kept = work.template sums<T>(carry.begin);
    const auto second = [&](int a, int p) { return at.torus ? wrapped(p + at.offset[a], n[a]) : p + at.offset[a]; };
    for (int z = at.low[0]; z < at.high[0]; ++z)
      for (int y = at.low[1]; y < at.high[1]; ++y)
        for (int x = at.low[2]; x < at.high[2]; ++x) {
          const int number = slab_of(second(0, z) - z, second(1, y) - y, second(2, x) - x);
          if (number < 0) continue;
          const T* from = work.kept + carry.slot * work.kept_size + 2 * L * ((int64_t(z) * n[1] + y) * n[2] + x);
          std::memcpy(kept + 2 * L * place_in(pooled.slabs[number], z, y, x), from, 2 * L * sizeof(T));
        }
  }

 private:
  int slab_of(int z, int y, int x) const {
    const int* m = pooled.out;
    return pooled.slab_of_difference[(int64_t(z + m[0] - 1) * (2 * m[1] - 1) + (y + m[1] - 1)) * (2 * m[2] - 1) + (x + m[2] - 1)];
  }

  void add_windows(const Overlap& z, const Overlap& y, const Overlap& x) const {
    const int *m = pooled.out, *s = pooled.stride;
    const int number = slab_of(z.blocks, y.blocks, x.blocks);
    if (number < 0) return;
    begin(number);
    const int high = y.to - y.from, wide = x.to - x.from;
    if (pooled.inside && z.to - z.from == 1 && high <= 2 && wide <= 2) {
      if (high == 1) return wide == 1 ? add_planes<1, 1>(z, y, x, number) : add_planes<1, 2>(z, y, x, number);
      return wide == 1 ? add_planes<2, 1>(z, y, x, number) : add_planes<2, 2>(z, y, x, number);
    }
    for (int bz = z.first_block(); bz < z.last_block(m[0]); ++bz)
      for (int by = y.first_block(); by < y.last_block(m[1]); ++by) {
        S* to = sums() + 2 * L * place_in(pooled.slabs[number], bz, by, x.first_block());
        if (pooled.inside) {
          add_row(z, s[0] * bz, y, s[1] * by, x, to);
          continue;
        }
        for (int bx = x.first_block(); bx < x.last_block(m[2]); ++bx, to += 2 * L)
          add_window(z, s[0] * bz, y, s[1] * by, x, s[2] * bx, to);
      }
  }

  template <int R, int W>
  void add_planes(const Overlap& z, const Overlap& y, const Overlap& x, int number) const {
    const int *m = pooled.out, *s = pooled.stride, by = y.first_block(), bx = x.first_block();
    const Slab& slab = pooled.slabs[number];
    const int64_t row = 2 * L * int64_t(place.to[2] - place.from[2]), below = 2 * L * int64_t(slab.high[2] - slab.low[2]);
    for (int bz = z.first_block(); bz < z.last_block(m[0]); ++bz) {
      const T* cells = field + 2 * L * (place.row(s[0] * bz + z.from, s[1] * by + y.from) + s[2] * bx + x.from - place.from[2]);
      add_plane_of<T, S, R, W>(cells, row, s[1] * row, 2 * L * s[2], y.last_block(m[1]) - by, x.last_block(m[2]) - bx,
                               sums() + 2 * L * place_in(slab, bz, by, bx), below);
    }
  }

  // The windows of a row of blocks, which lie on the grid with all their positions.
  void add_row(const Overlap& z, int at_z, const Overlap& y, int at_y, const Overlap& x, S* to) const {
    const int first = x.first_block(), last = x.last_block(pooled.out[2]), stride = pooled.stride[2];
    if (last <= first) return;
    int count = 0;
    for (int pz = at_z + z.from; pz < at_z + z.to; ++pz)
      for (int py = at_y + y.from; py < at_y + y.to; ++py)
        work.rows[count++] = field + 2 * L * (place.row(pz, py) + stride * first + x.from - place.from[2]);
    add_window_row<T, S>(work.rows, count, x.to - x.from, stride, to, last - first);
  }

  // One window, parts of which may lie outside the grid, or around the torus.
  void add_window(const Overlap& z, int at_z, const Overlap& y, int at_y, const Overlap& x, int at_x, S* to) const {
    const int* n = pooled.in;
    Vec<T> d{}, theta{};
    for (int pz = z.begin(at_z); pz < z.end(at_z); ++pz)
      for (int py = y.begin(at_y); py < y.end(at_y); ++py)
        for (int px = x.begin(at_x); px < x.end(at_x); ++px) {
          const bool wrap = pooled.wrap;
          const int64_t row = wrap ? place.row(wrapped(pz, n[0]), wrapped(py, n[1])) : place.row(pz, py);
          const T* cell = field + 2 * L * (row + (wrap ? wrapped(px, n[2]) : px) - place.from[2]);
          d += load(cell);
          theta += load(cell + L);
        }
    add_to<T, S>(to, d);
    add_to<T, S>(to + L, theta);
  }
};

// The fields over pairs of positions with which the stages of `plan` begin, of one first input with a vector of others.
// Fine pair offsets are added until the slab that is asked for is complete, so that it is read while it is in the cache.
template <class T>
struct Feed {
  const Workspace<T>& work;
  const T *x1, *x2, *sides1, *sides2;
  bool own;
  const Flag* cancel;

  Feed(const Plan& plan, const Workspace<T>& memory, const T* first, const T* second, const T* first_sides,
       const T* second_sides, bool are_own, const Flag* stop)
      : work(memory), x1(first), x2(second), sides1(first_sides), sides2(second_sides), own(are_own), cancel(stop) {
    for (const Pooled* pooled = plan.pooled; pooled; pooled = pooled->fine->pooled) {
      work.added[pooled->number] = 0;
      std::memset(work.begun + pooled->slab_at, 0, size_t(pooled->slab_count));
    }
  }

  // Completes what pair offset number f of `plan`, which follows a pool, begins with.
  void reach(const Plan& plan, int f) const {
    const Pooled& pooled = *plan.pooled;
    const Plan& fine = *pooled.fine;
    const int slab = pooled.slab_of_offset[f], last = pooled.last_of_slab[slab];
    int32_t& next = work.added[pooled.number];
    for (; next <= last; ++next) {
      if (is_set(cancel)) return;
      if (fine.pooled) reach(fine, next);
      find_places(fine, next, work.places, work.partners);
      const int32_t* q = fine.offsets + 3 * next;
      const bool diagonal = fine.levels[0].grid && !q[0] && !q[1] && !q[2];
      const PairOffset<T> pairs{fine, work, work.places, sides1, sides2, own, diagonal, next};
      add(pooled, pairs.run(x1, x2));
    }
    begin(pooled, slab);
  }

 private:
  template <class F>
  EQT_INLINE void with_pooling(const Pooled& pooled, const T* field, F&& f) const {
    const Place& last = work.places[pooled.fine->field_count];
    if (pooled.narrow) f(Pooling<T, T>{pooled, work, last, field});
    else f(Pooling<T, double>{pooled, work, last, field});
  }

  void add(const Pooled& pooled, const T* field) const {
    with_pooling(pooled, field, [&](const auto& pooling) {
      if (pooled.grid) pooling.add_grid();
      else pooling.add_blocks(pooled.fine->positions_out);
      for (int c = 0; c < pooled.carried; ++c) pooling.keep(pooled.carry[c], work.places[pooled.carry[c].level]);
    });
  }

  void begin(const Pooled& pooled, int slab) const {
    with_pooling(pooled, nullptr, [&](const auto& pooling) { pooling.begin(slab); });
  }
};

}  // namespace eqt::EQT_ISA
