// Fibres of pairs of inputs, carried through all layers in shared memory. A crew of threads carries one fibre; the crews
// of a block carry several at once, of one pair of inputs or of several, in step.
#pragma once

#include "pairs.hpp"

namespace eqt::EQT_ISA {

// P: the settings and stages of one network, generated for it.
template <class T, class P>
class Fibres {
 public:
  using Threads = Block<P::kThreads, Member<T>>;

  EQT_INLINE Fibres(const Arguments<T>& arguments, Threads& threads) : a(arguments), block(threads) {}

  // All fibres that are this block's share; then each pair's sums.
  EQT_INLINE void run() {
    const int share = int((P::kFibreCount + a.splits - 1) / a.splits);
    const int begin = int(split()) * share;
    const int end = begin + share < P::kFibreCount ? begin + share : P::kFibreCount;
    block.each([&](int thread, Member<T>& member) { join(thread, member); });
    for (int first = begin; first < end; first += P::kFibres) {
      block.each([&](int thread, Member<T>& member) { follow(first + thread / P::kCrew % P::kFibres, end, member); });
      P::template stages<T>(*this);
    }
    finish();
  }

  // D(p, p') = mean over channels of (f1(p) - f2(p'))², Θ = 0.
  template <class L, class Point, class Sink>
  EQT_INLINE void start() {
    step<L, Sink>([&](const Member<T>& member, const L& level, Sink& sink, int z, int y, int x) {
      if (!level.holds(z, y, x)) return;
      const Pair<T> at = member.pair(level, z, y, x);
      const T* f = a.x1 + member.i * P::kInputs + at.first * P::kChannels;
      const T* g = a.x2 + member.j * P::kInputs + at.second * P::kChannels;
      T d = 0, theta = 0;
      for (int i = 0; i < P::kChannels; ++i) d += (f[i] - g[i]) * (f[i] - g[i]);
      d *= T(1.0 / P::kChannels);
      Point::apply(at, member.diagonal, kept<L>(member, z, y, x), d, theta);
      sink.template take<L>(*this, member, z, y, x, at, d, theta);
    });
  }

  // Sums over windows of a torus: a column's rows share their sums along x.
  template <class W, class From, class To, class Point, class Sink>
  EQT_INLINE void wrapped_box() {
    using Y = typename W::ReachY;
    using X = typename W::ReachX;
    using Z = typename W::ReachZ;
    constexpr int R = P::kRows, span = (R - 1) * Y::kStride + Y::kWindow;
    constexpr bool small = span * X::kWindow * Z::kWindow <= 160;
    constexpr bool aligned = Y::kStride == 1 && From::kHeight % R == 0 && From::kHeight == To::kHeight;
    block.each([&](int, Member<T>& member) {
      if (!member.active) return;
      const To level(a.tables, member.label);
      const Cell<T>* in = field(member, 1 - Sink::kField);
      Sink sink;
      for (int task = member.number; task < tasks<To>(); task += P::kCrew) {
        const int x = task % To::kWidth, z = task / To::kWidth % To::kDepth, top = task / (To::kWidth * To::kDepth) * R;
        Cell<T> total[R];
        for (int dz = 0; dz < Z::kWindow; ++dz) {
          const int plane = modulo<From::kDepth>(z * Z::kStride - Z::kLow + dz) * From::kHeight * From::kWidth;
#pragma unroll(small ? span : 1)
          for (int i = 0; i < span; ++i) {
            int y = top * Y::kStride - Y::kLow + i;
            if (!aligned || i < Y::kLow || i >= Y::kLow + R) y = modulo<From::kHeight>(y);
            Cell<T> sum;
#pragma unroll(small ? X::kWindow : 1)
            for (int dx = 0; dx < X::kWindow; ++dx) {
              const Cell<T>* column = in + plane + modulo<From::kWidth>(x * X::kStride - X::kLow + dx);
              add(sum, column[y * From::kWidth], dx == 0);
            }
#pragma unroll
            for (int r = 0; r < R; ++r)
              if (i >= r * Y::kStride && i < r * Y::kStride + Y::kWindow) add(total[r], sum, dz == 0 && i == r * Y::kStride);
          }
        }
        const int first = level.first(z, top, x);
#pragma unroll
        for (int r = 0; r < R; ++r)
          if (To::kHeight % R == 0 || top + r < To::kHeight) {
            const Pair<T> at{member.sides1, member.sides2, first + r * To::kWidth, level.second(z, top + r, x), member.gap};
            Point::apply(at, member.diagonal, kept<To>(member, z, top + r, x), total[r].d, total[r].theta);
            sink.template take<To>(*this, member, z, top + r, x, at, total[r].d, total[r].theta);
          }
      }
      sink.close(member.sums);
    });
  }

  // Sums over windows that may leave the grid, which is as large afterwards. Outside K = Θ = 0, so that D is the variance of
  // whichever input still has a position. A row's sum along x is the same for all outputs of one of the two fibres.
  template <class W, class L, class Point, class Sink>
  EQT_INLINE void padded_box() {
    using Y = typename W::ReachY;
    using X = typename W::ReachX;
    using Z = typename W::ReachZ;
    constexpr int R = P::kRows, span = R - 1 + Y::kWindow;
    constexpr bool small = span * X::kWindow * Z::kWindow <= 160;
    block.each([&](int, Member<T>& member) {
      if (!member.active) return;
      const L level(a.tables, member.label);
      const Cell<T>* in = field(member, 1 - Sink::kField);
      const T *outside1 = member.sides1 + W::kSideAt, *outside2 = member.sides2 + W::kSideAt;
      Sink sink;
      for (int task = member.number; task < tasks<L>(); task += P::kCrew) {
        const int x = task % L::kWidth, z = task / L::kWidth % L::kDepth, top = task / (L::kWidth * L::kDepth) * R;
        if (x >= level.x.count || z >= level.z.count || top >= level.y.count) continue;
        const int px = level.x.first(x) - X::kLow, qx = level.x.second(x) - X::kLow;
        const int pz = level.z.first(z) - Z::kLow, qz = level.z.second(z) - Z::kLow;
        // Along x both inputs have the positions [left, right) of the window.
        const int left = largest(0, largest(-px, -qx));
        const int right = smallest(X::kWindow, L::AxisX::kSide - largest(px, qx));
        Cell<T> total[R] = {};
        for (int other = 0; other < 2; ++other) {
          if (other ? top + R <= level.y.turn || level.y.turn >= level.y.count : top >= level.y.turn) continue;
          const int py = (other ? top - level.y.turn + level.y.backward : top) - Y::kLow;
          const int qy = (other ? top - level.y.turn : top + level.y.forward) - Y::kLow;
          for (int dz = 0; dz < Z::kWindow; ++dz) {
            const bool one_z = L::AxisZ::inside(pz + dz), two_z = L::AxisZ::inside(qz + dz);
            const Cell<T>* corner = in + ((z - Z::kLow + dz) * L::kHeight + top - Y::kLow) * L::kWidth + x - X::kLow;
#pragma unroll(small ? span : 1)
            for (int i = 0; i < span; ++i) {
              const bool one = one_z && L::AxisY::inside(py + i), two = two_z && L::AxisY::inside(qy + i);
              Cell<T> sum{0, 0};
              if (one && two) {
#pragma unroll(small ? X::kWindow : 1)
                for (int dx = 0; dx < X::kWindow; ++dx)
                  if (dx >= left && dx < right) add(sum, corner[i * L::kWidth + dx], false);
              }
              const int outside = one && two ? X::kWindow - right + left : X::kWindow;
#pragma unroll 1
              for (int n = 0; n < outside; ++n) {
                const int dx = one && two && n >= left ? n - left + right : n;
                if (one && L::AxisX::inside(px + dx)) sum.d += outside1[L::flat(pz + dz, py + i, px + dx)];
                if (two && L::AxisX::inside(qx + dx)) sum.d += outside2[L::flat(qz + dz, qy + i, qx + dx)];
              }
#pragma unroll
              for (int r = 0; r < R; ++r)
                if (i >= r && i < r + Y::kWindow && (top + r >= level.y.turn) == bool(other)) add(total[r], sum, false);
            }
          }
        }
#pragma unroll
        for (int r = 0; r < R; ++r)
          if (top + r < level.y.count) {
            const Pair<T> at = member.pair(level, z, top + r, x);
            Point::apply(at, member.diagonal, kept<L>(member, z, top + r, x), total[r].d, total[r].theta);
            sink.template take<L>(*this, member, z, top + r, x, at, total[r].d, total[r].theta);
          }
      }
      sink.close(member.sums);
    });
  }

  // Sums over any windows, one by one.
  template <class W, class From, class To, class Point, class Sink>
  EQT_INLINE void plain_box() {
    step<To, Sink>([&](const Member<T>& member, const To& level, Sink& sink, int z, int y, int x) {
      if (!level.holds(z, y, x)) return;
      using Z = typename W::ReachZ;
      using Y = typename W::ReachY;
      using X = typename W::ReachX;
      const From from(a.tables, member.label);
      const Cell<T>* in = field(member, 1 - Sink::kField);
      const bool oz = level.z.second_fibre(z), oy = level.y.second_fibre(y), ox = level.x.second_fibre(x);
      const int pz = level.z.first(z) * Z::kStride - Z::kLow, qz = level.z.second(z) * Z::kStride - Z::kLow;
      const int py = level.y.first(y) * Y::kStride - Y::kLow, qy = level.y.second(y) * Y::kStride - Y::kLow;
      const int px = level.x.first(x) * X::kStride - X::kLow, qx = level.x.second(x) * X::kStride - X::kLow;
      T d = 0, theta = 0;
      for (int dz = 0; dz < Z::kWindow; ++dz)
        for (int dy = 0; dy < Y::kWindow; ++dy)
          for (int dx = 0; dx < X::kWindow; ++dx) {
            int cz, cy, cx;
            if constexpr (W::kWrap) {
              cz = modulo<From::kDepth>(pz + dz), cy = modulo<From::kHeight>(py + dy), cx = modulo<From::kWidth>(px + dx);
            } else {
              constexpr bool leaves = W::kSideAt >= 0;
              const bool one = !leaves || From::inside(pz + dz, py + dy, px + dx), two = !leaves || From::inside(qz + dz, qy + dy, qx + dx);
              if (!one || !two) {
                if constexpr (W::kSideAt >= 0) {
                  if (one) d += member.sides1[W::kSideAt + From::flat(pz + dz, py + dy, px + dx)];
                  if (two) d += member.sides2[W::kSideAt + From::flat(qz + dz, qy + dy, qx + dx)];
                }
                continue;
              }
              cz = from.z.cell(pz + dz, qz + dz, oz);
              cy = from.y.cell(py + dy, qy + dy, oy);
              cx = from.x.cell(px + dx, qx + dx, ox);
            }
            const Cell<T> cell = in[(cz * From::kHeight + cy) * From::kWidth + cx];
            d += cell.d;
            theta += cell.theta;
          }
      const Pair<T> at = member.pair(level, z, y, x);
      Point::apply(at, member.diagonal, kept<To>(member, z, y, x), d, theta);
      sink.template take<To>(*this, member, z, y, x, at, d, theta);
    });
  }

  // out(g) = Σ_s weights[s] in(index[g, s])
  template <int Index, int Weights, int Size, class To, class Point, class Sink>
  EQT_INLINE void table() {
    step<To, Sink>([&](const Member<T>& member, const To& level, Sink& sink, int z, int y, int x) {
      const Cell<T>* in = field(member, 1 - Sink::kField);
      const Pair<T> at = member.pair(level, z, y, x);
      const int32_t* index = a.tables + Index + int64_t(at.first) * Size;
      T d = 0, theta = 0;
      for (int s = 0; s < Size; ++s) {
        const Cell<T> cell = in[index[s]];
        d += a.reals[Weights + s] * cell.d;
        theta += a.reals[Weights + s] * cell.theta;
      }
      Point::apply(at, member.diagonal, kept<To>(member, z, y, x), d, theta);
      sink.template take<To>(*this, member, z, y, x, at, d, theta);
    });
  }

  // The same where every window holds all positions alike, so that there is one sum.
  template <class From, class To, class Point, class Sink>
  EQT_INLINE void total() {
    Cell<T>* partial = reinterpret_cast<Cell<T>*>(static_cast<char*>(block.memory) + P::kPartials);
    block.each([&](int thread, Member<T>& member) {
      if (!member.active) return;
      const Cell<T>* in = field(member, 1 - Sink::kField);
      T d = 0, theta = 0;
      for (int i = member.number; i < From::kCells; i += P::kCrew) d += in[i].d, theta += in[i].theta;
      partial[thread] = {d, theta};
    });
    step<To, Sink>([&](const Member<T>& member, const To& level, Sink& sink, int z, int y, int x) {
      const Pair<T> at = member.pair(level, z, y, x);
      const Cell<T>* parts = partial + member.field / kCrewCells * P::kCrew;
      T d = 0, theta = 0;
      for (int i = 0; i < P::kCrew; ++i) d += parts[i].d, theta += parts[i].theta;
      d *= T(1.0 / From::kCells), theta *= T(1.0 / From::kCells);
      Point::apply(at, member.diagonal, kept<To>(member, z, y, x), d, theta);
      sink.template take<To>(*this, member, z, y, x, at, d, theta);
    });
  }

  // Where a stage's results go: into one of the two fields, ...
  template <int Field>
  struct Store {
    static constexpr int kField = Field;
    template <class L>
    EQT_INLINE void take(Fibres& run, const Member<T>& member, int z, int y, int x, const Pair<T>&, T d, T theta) {
      run.field(member, Field)[(z * L::kHeight + y) * L::kWidth + x] = {d, theta};
    }
    EQT_INLINE void close(Sums&) {}
  };

  // ... or into the sums over the pairs of positions that the readout joins.
  template <int Field>
  struct Readout {
    static constexpr int kField = Field;
    T k = 0, theta = 0;
    template <class L>
    EQT_INLINE void take(Fibres& run, const Member<T>&, int, int, int, const Pair<T>& at, T d, T t) {
      if constexpr (!P::kAllJoined) {
        const int32_t label = run.a.tables[P::kLabels + at.first];
        if (label < 0 || label != run.a.tables[P::kLabels + at.second]) return;
      }
      if constexpr (P::kDistance) {
        k += d;
      } else {
        T x[1], y[1];
        at.template get<P::kLastSide, 1>(x, y);
        k += (x[0] + y[0]) - T(0.5) * d;
      }
      theta += t;
    }
    EQT_INLINE void close(Sums& sums) {
      sums.k += double(k);
      sums.theta += double(theta);
    }
  };

 private:
  static constexpr int kCrewCells = (2 + P::kSlots) * P::kCells;
  const Arguments<T>& a;
  Threads& block;

  static EQT_INLINE int largest(int m, int n) { return m > n ? m : n; }
  static EQT_INLINE int smallest(int m, int n) { return m < n ? m : n; }

  EQT_INLINE int64_t split() const { return block.index % a.splits; }
  EQT_INLINE int64_t pair_number(int thread) const {
    return block.index / a.splits * P::kPairs + thread / (P::kCrew * P::kFibres);
  }
  EQT_INLINE Cell<T>* field(const Member<T>& member, int number) const {
    return static_cast<Cell<T>*>(block.memory) + member.field + number * P::kCells;
  }

  // What residual branches keep of a cell, `kCells` apart.
  template <class L>
  EQT_INLINE Cell<T>* kept(const Member<T>& member, int z, int y, int x) const {
    return field(member, 2) + (z * L::kHeight + y) * L::kWidth + x;
  }

  // Gives a thread its crew and its pair of inputs; in the upper triangle row i begins at i n - i (i-1) / 2.
  EQT_INLINE void join(int thread, Member<T>& member) {
    member.number = thread % P::kCrew;
    member.field = thread / P::kCrew * kCrewCells;
    const int64_t number = pair_number(thread);
    if (a.kind == int64_t(PairKind::all)) {
      member.i = int(number / a.n2), member.j = int(number % a.n2);
    } else if (a.kind == int64_t(PairKind::diagonal)) {
      member.i = member.j = int(number);
    } else {
      const int64_t n = a.n1;
      const double b = double(2 * n + 1), under = b * b - 8.0 * double(number);
      int64_t i = under > 0 ? int64_t((b - square_root(under)) / 2) : 0;
      while (i > 0 && i * n - i * (i - 1) / 2 > number) --i;
      while ((i + 1) * n - (i + 1) * i / 2 <= number && i + 1 < n) ++i;
      member.i = int(i), member.j = int(i + number - (i * n - i * (i - 1) / 2));
    }
    member.active = number < a.pairs;
    if (!member.active) member.i = member.j = 0;
    member.sides1 = a.sides1 + member.i * P::kSides, member.sides2 = a.sides2 + member.j * P::kSides;
    if constexpr (P::kUnitSide >= 0) member.gap = member.sides1[P::kUnitSide] - member.sides2[P::kUnitSide];
  }

  // Turns to a fibre, if it is below `end`.
  EQT_INLINE void follow(int fibre, int end, Member<T>& member) {
    member.active = fibre < end && pair_in_range(member);
    member.diagonal = true;
    for (int axis = 0; axis < 3; ++axis) {
      const bool known = member.active && axis < P::kLabelSize;
      member.label[axis] = known ? a.tables[fibre * P::kLabelSize + axis] : 0;
      member.diagonal = member.diagonal && member.label[axis] == 0;
    }
  }

  EQT_INLINE bool pair_in_range(const Member<T>& member) const {
    return block.index / a.splits * P::kPairs + member.field / (kCrewCells * P::kFibres) < a.pairs;
  }

  template <class L>
  static constexpr EQT_INLINE int tasks() {
    return L::kDepth * L::kWidth * ((L::kHeight + P::kRows - 1) / P::kRows);
  }

  // Calls cell(member, level, sink, z, y, x) for all cells of a level.
  template <class L, class Sink, class F>
  EQT_INLINE void step(F&& cell) {
    block.each([&](int, Member<T>& member) {
      if (!member.active) return;
      const L level(a.tables, member.label);
      Sink sink;
      for (int task = member.number; task < tasks<L>(); task += P::kCrew) {
        const int x = task % L::kWidth, z = task / L::kWidth % L::kDepth, top = task / (L::kWidth * L::kDepth) * P::kRows;
        for (int y = top; y < top + P::kRows && y < L::kHeight; ++y) cell(member, level, sink, z, y, x);
      }
      sink.close(member.sums);
    });
  }

  // Sums over the threads of each pair, halving their number until one is left.
  EQT_INLINE void finish() {
    constexpr int members = P::kCrew * P::kFibres;
    Sums* all = static_cast<Sums*>(block.memory);
    block.each([&](int thread, Member<T>& member) { all[thread] = member.sums; });
#pragma unroll 1
    for (int n = members; n > 1; n = (n + 1) / 2)
      block.each([&](int thread, Member<T>&) {
        const int other = thread + (n + 1) / 2;
        if (thread % members >= n / 2) return;
        all[thread].k += all[other].k;
        all[thread].theta += all[other].theta;
      });
    block.each([&](int thread, Member<T>& member) {
      if (thread % members || pair_number(thread) >= a.pairs) return;
      const T k = T(P::kWeight * all[thread].k), theta = T(P::kWeight * all[thread].theta);
      const int64_t columns = a.kind == int64_t(PairKind::diagonal) ? 1 : a.n2, base = split() * a.n1 * columns;
      const int64_t at = base + (a.kind == int64_t(PairKind::diagonal) ? member.i : member.i * columns + member.j);
      a.k[at] = k, a.theta[at] = theta;
      if (a.kind != int64_t(PairKind::triangle)) return;
      const int64_t mirrored = base + member.j * columns + member.i;
      a.k[mirrored] = k, a.theta[mirrored] = theta;
    });
  }
};

}  // namespace eqt::EQT_ISA
