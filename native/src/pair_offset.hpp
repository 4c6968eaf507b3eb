// All pairs of positions with one offset, of one first input with a vector of second inputs, from signals to the readout;
// or (`own`) of a vector of pairs of inputs.
#pragma once

#include <initializer_list>

#include "box.hpp"
#include "branch.hpp"
#include "pointwise.hpp"
#include "program.hpp"
#include "tile.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

// Number of a pair of blocks, the first of which lies at (z, y, x), in a slab.
inline int64_t place_in(const Slab& slab, int z, int y, int x) {
  const int64_t row = int64_t(z - slab.low[0]) * (slab.high[1] - slab.low[1]) + (y - slab.low[1]);
  return slab.begin + row * (slab.high[2] - slab.low[2]) + (x - slab.low[2]);
}

// The beginning of a stage that follows a pool: with f̄ the mean of f over a block, E(f̄ - f̄')² is the mean of
// E(f - f')² over pairs of positions, less half of that mean of each input with itself. (Where unequal parts n, n' of two
// windows lie on the grid, products of positions outside vanish, and (n - n') times the gap of the variances comes in
// addition.) What rounding alone can make of equal or opposite averages counts as such.
template <class T, class S>
void pooled_row(const Pooled& pooled, const S* sums, T* cells, int64_t n, const Sides<T>& sides) {
  constexpr int L = kLanes<T>, N = kVectors<T, S>, K = kPooledSides;
  constexpr S kDoubt = sizeof(T) == 4 ? S(8 * 1.1920929e-7) : S(64 * 2.220446049250313e-16);
  const S scale = S(pooled.scale);
  for (int64_t k = 0; k < n; ++k, sums += 2 * L, cells += 2 * L) {
    Vec<T> first[K], second[K];
    sides.get(k, first, second);
    Vec<S> x[K][N], y[K][N], d[N], theta[N];
    for (int i = 0; i < K; ++i) widened<S>(first[i], x[i]), widened<S>(second[i], y[i]);
    for (int i = 0; i < N; ++i) {
      const Vec<S> mean = scale * load(sums + i * kLanes<S>);
      const Vec<S> gap = x[2][i] - y[2][i], sum = x[2][i] + y[2][i], least = gap * gap, most = sum * sum;
      const Vec<S> edge = (x[3][i] - y[3][i]) * (x[4][i] - y[4][i]);  // 0 where all windows lie on the grid
      Vec<S> found = (mean - (x[0][i] + y[0][i])) - (x[1][i] + y[1][i]) + edge;
      const Vec<S> doubt = kDoubt * (mean + (x[0][i] + y[0][i]) + magnitude(edge));
      found = found > most - doubt ? most : found;
      d[i] = found < least + doubt ? least : found;
      theta[i] = scale * load(sums + L + i * kLanes<S>);
    }
    store(cells, rounded(d));
    store(cells + L, rounded(theta));
  }
}

template <class T>
struct Workspace {
  T *field, *other, *row;
  T *products, *spectrum, *waves;  // of rotations
  T* kept;
  int64_t kept_size;     // of one slot
  char* pairs;           // fields over pairs of positions: of each pair D, then Θ
  int32_t* added;        // of each pool, how many fine pair offsets were added
  char* begun;           // of each slab, whether its sums hold numbers of this pair of inputs
  double *d, *theta, *q;  // sums over pair offsets, (kTileRows, lanes)
  const T** rows;
  Place* places;
  int32_t* partners;

  static int64_t align(int64_t n) { return (n + 63) / 64 * 64; }

  static int64_t bytes(const Plan& plan) { return Workspace(plan, nullptr).end; }

  Workspace(const Plan& plan, void* memory) {
    char* at = static_cast<char*>(memory);
    const int64_t cell = 2 * EQT_BYTES;
    auto take = [&](int64_t size) {
      char* found = at;
      at += align(size);
      return found;
    };
    field = reinterpret_cast<T*>(take(plan.cells * cell));
    other = reinterpret_cast<T*>(take(plan.cells * cell));
    row = reinterpret_cast<T*>(take((plan.widest + kTileRows) * cell));
    const int64_t kept_cells = plan.cells > kTileRows ? plan.cells : kTileRows;
    kept_size = kept_cells * 2 * kLanes<T>;
    kept = reinterpret_cast<T*>(take(plan.slots * kept_cells * cell));
    if (plan.rotations) {
      const int64_t side = 2 * plan.rotations->bandlimit - 1, half = plan.rotations->azimuths / 2 + 1;
      products = reinterpret_cast<T*>(take(entries_of_degrees(plan.rotations->bandlimit) * EQT_BYTES));
      spectrum = reinterpret_cast<T*>(take((side + 2) * side * EQT_BYTES));
      waves = reinterpret_cast<T*>(take(half * side * int64_t(sizeof(T))));
    }
    for (double** sum : {&d, &theta, &q})
      *sum = reinterpret_cast<double*>(take(kTileRows * kLanes<T> * int64_t(sizeof(double))));
    rows = reinterpret_cast<const T**>(take(plan.rows * int64_t(sizeof(T*))));
    places = reinterpret_cast<Place*>(take((plan.most_ops + 1) * int64_t(sizeof(Place))));
    partners = reinterpret_cast<int32_t*>(take(plan.columns * int64_t(sizeof(int32_t))));
    pairs = take(plan.pair_cells * 2 * kLanes<T> * int64_t(sizeof(double)));
    added = reinterpret_cast<int32_t*>(take(plan.pools * int64_t(sizeof(int32_t))));
    begun = take(plan.slabs);
    end = at - static_cast<char*>(memory);
  }

  // The field over pairs that begins at number `begin` of them.
  template <class S>
  S* sums(int64_t begin) const {
    return reinterpret_cast<S*>(pairs + begin * 2 * kLanes<T> * int64_t(sizeof(double)));
  }

 private:
  int64_t end;
};

inline bool windowed(const Op& op) { return op.kind == OpKind::box || op.kind == OpKind::table; }
// Whether other positions follow than those before.
inline bool spatial(const Op& op) { return windowed(op) || (op.kind == OpKind::back && op.moves); }

// The places of all levels along pair offset number f.
inline void find_places(const Plan& plan, int f, Place* places, int32_t* partners) {
  for (int i = plan.field_count; i >= 0; --i) {
    const Level& level = plan.levels[i];
    Place& place = places[i];
    if (!level.grid) {
      place.torus = true;
      for (int a = 0; a < kAxes; ++a) {
        place.low[a] = place.from[a] = place.offset[a] = 0;
        place.high[a] = place.to[a] = level.shape[a];
      }
      place.partner = level.partners + plan.offsets[f] * level.positions;
      continue;
    }
    const Op* next = nullptr;  // the next operation that moves positions
    int after = i;
    for (; after < plan.field_count && !next; ++after)
      if (spatial(plan.field[after])) next = &plan.field[after];
    if (next && !windowed(*next)) next = nullptr;  // of a branch that has ended no window reads more
    place.torus = level.wrap && (!next || next->wrap);
    const Place& out = places[after];
    for (int a = 0; a < kAxes; ++a) {
      const int n = level.shape[a], o = plan.offsets[3 * f + a] * level.step[a];
      const bool none = !place.torus && (o >= n || o <= -n);
      place.offset[a] = place.torus ? wrapped(o, n) : o;
      place.low[a] = place.from[a] = place.torus || none || o > 0 ? 0 : -o;
      place.high[a] = place.to[a] = none ? 0 : place.torus || o < 0 ? n : n - o;
      if (next && !place.torus && out.high[a] > out.low[a]) {
        const int first = next->stride[a] * out.low[a] - next->low[a];
        const int last = next->stride[a] * (out.high[a] - 1) - next->low[a] + next->window[a];
        if (first < place.from[a]) place.from[a] = first;
        if (last > place.to[a]) place.to[a] = last;
      }
    }
    place.partner = partners;
    const int n = level.shape[2], offset = wrapped(place.offset[2], n);
    for (int x = 0; x < n; ++x) partners[x] = x + offset < n ? x + offset : x + offset - n;
    partners += n;
  }
}

// The units of a pair of inputs, with the sides of each, one over which is number `at`.
template <class T>
EQT_INLINE SameUnits<T> units_of(const Plan& plan, const T* sides1, const T* sides2, int64_t at, bool own) {
  if (!plan.units) return {{Vec<T>{} + T(1), Vec<T>{} + T(1)}};
  return {{own ? load(sides1 + at * kLanes<T>) : splat(sides1[at]), load(sides2 + at * kLanes<T>)}};
}

template <class T>
struct PairOffset {
  static constexpr int L = kLanes<T>;
  const Plan& plan;
  const Workspace<T>& work;
  const Place* places;
  const T *sides1, *sides2;
  bool own;  // a vector of pairs of inputs
  bool diagonal;
  int number;
  const SameUnits<T> begun = units_of(plan, sides1, sides2, plan.side_unit, own);  // those of the inputs

  // The units at a layer.
  EQT_INLINE SameUnits<T> units(const Op& op) const {
    return plan.changes_units ? units_of(plan, sides1, sides2, op.unit_at, own) : begun;
  }

  // Neighbouring positions of a level, and where their partners' row begins.
  struct Row {
    int64_t first, second;
    const int32_t* partner;
    int64_t n;
  };

  Row row_of(int level, int z, int y, int x, int64_t n) const {
    const Place& place = places[level];
    const int* shape = plan.levels[level].shape;
    const int64_t first = (int64_t(z) * shape[1] + y) * shape[2] + x;
    if (!plan.levels[level].grid) return {first, 0, place.partner + first, n};
    int z2 = z + place.offset[0], y2 = y + place.offset[1];
    if (place.torus) z2 = z2 < shape[0] ? z2 : z2 - shape[0], y2 = y2 < shape[1] ? y2 : y2 - shape[1];
    return {first, (int64_t(z2) * shape[1] + y2) * shape[2], place.partner + x, n};
  }

  Sides<T> sides(int64_t at, int count, const Row& row) const {
    const int64_t lanes = own ? L : 1;
    return {sides1 + (at + row.first * count) * lanes, count * lanes, sides2 + (at + row.second * count) * L, int64_t(count) * L,
            row.partner, own};
  }

  // Calls f(z, y, x, n, cells) for every stretch of a row that is carried at a level; short enough for the cache.
  template <int Parts = 2, class F>
  EQT_INLINE void each_row(int level, T* field, F&& f) const {
    const Place& place = places[level];
    for (int z = place.low[0]; z < place.high[0]; ++z)
      for (int y = place.low[1]; y < place.high[1]; ++y)
        for (int x = place.low[2]; x < place.high[2]; x += kTileRows) {
          const int n = place.high[2] - x < kTileRows ? place.high[2] - x : kTileRows;
          f(z, y, x, n, field + Parts * L * (place.row(z, y) + x - place.from[2]));
        }
  }

  // Where a fork keeps a row: by position, without the margin of any window. The next block forks
  // row by row while this one joins, in the same slot, so both must have a row in the same place.
  T* kept(int slot, const Row& row) const { return work.kept + slot * work.kept_size + 2 * L * row.first; }

  void join(int i, const Row& row, T* cells) const {
    const Op& op = plan.field[i];
    join_branches(op, kept(op.slot, row), cells, row.n, [&] { return sides(op.side_at, op.sides, row); });
  }

  // D(p) = mean over channels of (f1(p) - f2(p'))², Θ = 0.
  template <int Parts>
  void start(const T* x1, const T* x2, const Row& row, T* cells) const {
    if (own) start_of<Parts, 0, true>(x1, x2, row, cells);
    else if (plan.channels == 3) start_of<Parts, 3, false>(x1, x2, row, cells);
    else start_of<Parts, 0, false>(x1, x2, row, cells);
  }

  template <int Parts, int C, bool Own>
  void start_of(const T* x1, const T* x2, const Row& row, T* cells) const {
    const int c = C ? C : plan.channels;
    const T scale = T(1.0 / c);
    for (int64_t k = 0; k < row.n; ++k, cells += Parts * L) {
      const T* a = x1 + (row.first + k) * c * (Own ? L : 1);
      const T* b = x2 + (row.second + row.partner[k]) * c * L;
      Vec<T> sum{};
      for (int i = 0; i < c; ++i) {
        const Vec<T> gap = (Own ? load(a + i * L) : splat(a[i])) - load(b + i * L);
        sum += gap * gap;
      }
      store(cells, scale * sum);
      if (Parts > 1) store(cells + L, Vec<T>{});
    }
  }

  // The field over pairs of positions that an earlier stage was pooled into, and what branches around the pool keep.
  void start_pooled(int z, int y, int x, const Row& row, T* cells) const {
    const Pooled& pooled = *plan.pooled;
    if (pooled.narrow) start_pooled_of<T>(pooled, z, y, x, row, cells);
    else start_pooled_of<double>(pooled, z, y, x, row, cells);
  }

  template <class S>
  void start_pooled_of(const Pooled& pooled, int z, int y, int x, const Row& row, T* cells) const {
    const int64_t at = place_in(pooled.slabs[pooled.slab_of_offset[number]], z, y, x);
    const S* sums = work.template sums<S>(pooled.begin) + 2 * L * at;
    const auto alone = sides(pooled.side_at, kPooledSides, row);
    pooled_row<T, S>(pooled, sums, cells, row.n, alone);
    for (int c = 0; c < pooled.carried; ++c)
      std::memcpy(kept(pooled.carry[c].slot, row), work.template sums<T>(pooled.carry[c].begin) + 2 * L * at,
                  size_t(row.n) * 2 * L * sizeof(T));
  }

  // The pointwise operations from number i on, at a row of level i.
  void pointwise(int i, const Row& row, T* cells) const {
    for (; i < plan.field_count && !spatial(plan.field[i]); ++i) {
      const Op& op = plan.field[i];
      if (op.kind == OpKind::affine && op.sides == 0) {
        const Op& next = plan.field[i + 1];
        fused<T, 2>(op, PiecewiseLinear<T>(next), T(1), cells, 1, 1, cells, row.n, sides(next.side_at, next.sides, row), units(op));
        ++i;
      } else if (op.kind == OpKind::affine) {
        affine_row(op, cells, row.n, sides(op.side_at, op.sides, row), units(op));
      } else if (op.kind == OpKind::dual) {
        dual_row(op, cells, row.n, sides(op.side_at, op.sides, row));
      } else if (op.kind == OpKind::decouple && !diagonal) {
        decouple_row(cells, row.n, sides(op.side_at, op.sides, row));
      } else if (op.kind == OpKind::fork) {
        copy_row(cells, row.n, kept(op.slot, row));
      } else if (op.kind == OpKind::back) {
        copy_row(kept(op.slot, row), row.n, cells);
      } else if (op.kind == OpKind::join) {
        join(i, row, cells);
      }
    }
  }

  template <int Parts>
  void box(int i, T* in, T* out) const {
    const Op& op = plan.field[i];
    const Place& place = places[i];
    if (op.sides)
      fill_margin<T, Parts>(plan.levels[i], place, in, sides1 + op.side_at * (own ? L : 1), sides2 + op.side_at * L, own);
    const T scale = T(1.0 / (double(op.window[0]) * op.window[1] * op.window[2]));
    const Place& to = places[i + 1];
    const auto each_sum = [&](auto&& f) {
      for (int z = to.low[0]; z < to.high[0]; ++z)
        for (int y = to.low[1]; y < to.high[1]; ++y) {
          const T* sums = sum_of_rows<T, Parts>(op, place, to, in, z, y, work.rows, work.row);
          f(row_of(i + 1, z, y, to.low[2], to.high[2] - to.low[2]), sums, out + 2 * L * (to.row(z, y) + to.low[2] - to.from[2]));
        }
    };
    if (i + 1 < plan.field_count && plan.field[i + 1].kind == OpKind::affine && !plan.field[i + 1].sides) {
      const Op &affine = plan.field[i + 1], &next = plan.field[i + 2];
      const PiecewiseLinear<T> dual(next);
      if (!place.torus && op.window[0] == 1 && op.window[1] == 3 && op.window[2] == 3 && op.stride[1] == 1 && op.stride[2] == 1) {
        for (int z = to.low[0]; z < to.high[0]; ++z)
          for (int y = to.low[1]; y < to.high[1]; ++y) {
            const Row row = row_of(i + 1, z, y, to.low[2], to.high[2] - to.low[2]);
            const T* above = in + Parts * L * (place.row(op.stride[0] * z - op.low[0], y - op.low[1]) + to.low[2] - op.low[2] - place.from[2]);
            T* cells = out + 2 * L * (to.row(z, y) + to.low[2] - to.from[2]);
            with_known(sides(next.side_at, next.sides, row), [&](const auto& known) EQT_INLINE_LAMBDA {
              fused_square<T, Parts>(affine, dual, scale, above, Parts * L * int64_t(place.to[2] - place.from[2]), cells, row.n, known,
                                     units(affine));
            });
            pointwise(i + 3, row, cells);
          }
        return;
      }
      each_sum([&](const Row& row, const T* sums, T* cells) {
        fused<T, Parts>(affine, dual, scale, sums, op.window[2], op.stride[2], cells, row.n,
                        sides(next.side_at, next.sides, row), units(affine));
        pointwise(i + 3, row, cells);
      });
    } else {
      each_sum([&](const Row& row, const T* sums, T* cells) {
        sum_along<T, Parts>(sums, op.window[2], op.stride[2], scale, cells, row.n);
        pointwise(i + 1, row, cells);
      });
    }
  }

  // The field after all operations: `work.field` or `work.other`.
  T* run(const T* x1, const T* x2) const {
    T *in = work.field, *out = work.other;
    int i = 0;
    if (plan.pooled) {
      each_row(0, in, [&](int z, int y, int x, int n, T* cells) {
        const Row row = row_of(0, z, y, x, n);
        start_pooled(z, y, x, row, cells);
        pointwise(0, row, cells);
      });
    } else if (plan.field_count > 0 && spatial(plan.field[0])) {
      each_row<1>(0, in, [&](int z, int y, int x, int n, T* cells) { start<1>(x1, x2, row_of(0, z, y, x, n), cells); });
      window<1>(i++, in, out);
    } else {
      each_row(0, in, [&](int z, int y, int x, int n, T* cells) {
        const Row row = row_of(0, z, y, x, n);
        start<2>(x1, x2, row, cells);
        pointwise(0, row, cells);
      });
    }
    for (; i < plan.field_count; ++i)
      if (spatial(plan.field[i])) window<2>(i, in, out);
    return in;
  }

  // Operation number i, a window, and the pointwise ones after it; then the fields change places.
  template <int Parts>
  void window(int i, T*& in, T*& out) const {
    if (plan.field[i].kind == OpKind::box) {
      box<Parts>(i, in, out);
    } else if (plan.field[i].kind == OpKind::back) {
      each_row(i + 1, out, [&](int z, int y, int x, int n, T* cells) {
        const Row row = row_of(i + 1, z, y, x, n);
        copy_row(kept(plan.field[i].slot, row), n, cells);
        pointwise(i + 1, row, cells);
      });
    } else {
      each_row(i + 1, out, [&](int z, int y, int x, int n, T* cells) {
        const Row row = row_of(i + 1, z, y, x, n);
        table_cells<T, Parts>(plan.field[i], in, row.first, n, cells, work.row);
        pointwise(i + 1, row, cells);
      });
    }
    T* swap = in;
    in = out, out = swap;
  }
};

// Operations on cells that have no neighbours: they follow each other in memory, `n` of them.

// `sides(at)` are those that begin at number `at` of each input's; `units(op)` calls what it is given with the inputs' units.
template <class T, class F, class U>
EQT_INLINE void operations(const Op* ops, int count, const Workspace<T>& work, T* cells, int64_t n, F&& sides, U&& with_units) {
  for (int o = 0; o < count; ++o) {
    const Op& op = ops[o];
    if (op.kind == OpKind::affine && op.sides == 0) {
      const Op& dual = ops[++o];
      with_units(op, [&](const auto& units) {
        with_known(sides(dual.side_at), [&](const auto& known) EQT_INLINE_LAMBDA {
          fused_row<T, 1, 2>(op, PiecewiseLinear<T>(dual), T(1), cells, 1, 1, cells, n, known, units);
        });
      });
    } else if (op.kind == OpKind::affine) {
      with_units(op, [&](const auto& units) { affine_row(op, cells, n, sides(op.side_at), units); });
    } else if (op.kind == OpKind::dual) {
      dual_row(op, cells, n, sides(op.side_at));
    } else if (op.kind == OpKind::fork) {
      copy_row(cells, n, work.kept + op.slot * work.kept_size);
    } else if (op.kind == OpKind::back) {
      copy_row(work.kept + op.slot * work.kept_size, n, cells);
    } else if (op.kind == OpKind::join) {
      join_branches(op, work.kept + op.slot * work.kept_size, cells, n, [&] { return sides(op.side_at); });
    }
  }
}

}  // namespace eqt::EQT_ISA
