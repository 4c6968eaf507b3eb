// Fibres of pairs of inputs, carried through all layers in shared memory. A crew of threads carries one fibre; the crews
// of a block carry several at once, of one pair of inputs or of several, in step.
#pragma once

#include "block.hpp"
#include "geometry.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct Arguments {
  const T *x1, *x2;          // (n1 or n2, positions, channels)
  const T *sides1, *sides2;  // (n1 or n2, sides): what operations need of one input alone
  const T* reals;            // weights of windows
  const int32_t* tables;     // fibres, labels, partners, windows
  T *k, *theta;              // (splits, n1, n2), or (splits, n1) of inputs with themselves
  int64_t n1, n2, pairs, splits;
  int64_t kind;  // of pairs: 0 all, 1 the upper triangle, 2 the diagonal
};

EQT_INLINE Op linear_pieces(double slope) {
  Op op{};
  op.first = slope;
  return op;
}

// A pair of positions of a pair of inputs, and what is known of each input there.
template <class T>
struct Pair {
  const T *sides1, *sides2;
  int first, second;

  template <int At, int K>
  EQT_INLINE void get(T (&x)[K], T (&y)[K]) const {
    if constexpr (K == 2 && At % 2 == 0) {
      const Cell<T> a = reinterpret_cast<const Cell<T>*>(sides1 + At)[first];
      const Cell<T> b = reinterpret_cast<const Cell<T>*>(sides2 + At)[second];
      x[0] = a.d, x[1] = a.theta, y[0] = b.d, y[1] = b.theta;
    } else {
      for (int i = 0; i < K; ++i) {
        x[i] = sides1[At + first * K + i];
        y[i] = sides2[At + second * K + i];
      }
    }
  }
};

// The window along one axis.
template <int Window, int Stride, int Low>
struct Reach {
  static constexpr int kWindow = Window, kStride = Stride, kLow = Low;
};

template <class Z, class Y, class X, bool Wrap, int SideAt>
struct Window {
  using ReachZ = Z;
  using ReachY = Y;
  using ReachX = X;
  static constexpr bool kWrap = Wrap;
  static constexpr int kSideAt = SideAt;  // of variances, for reads outside the grid
};

// P: the settings and stages of one network, generated for it.
template <class T, class P>
class Fibres {
 public:
  EQT_INLINE Fibres(const Arguments<T>& arguments, Block<P::kThreads>& block) : a(arguments), block(block) {}

  // All fibres that are this block's share; then each pair's sums.
  EQT_INLINE void run() {
    const int64_t share = (P::kFibreCount + a.splits - 1) / a.splits;
    const int64_t begin = split() * share;
    const int64_t end = begin + share < P::kFibreCount ? begin + share : P::kFibreCount;
    for (int64_t f = begin; f < end; f += P::kFibres) {
      next = f, last = end;
      P::template stages<T>(*this);
    }
    finish();
  }

  // D(p, p') = mean over channels of (f1(p) - f2(p'))², Θ = 0.
  template <class L, class Point, class Sink>
  EQT_INLINE void start() {
    step<L, Sink>([&](const Crew& crew, const L& level, auto&& emit, int z, int y, int x) {
      if (!level.holds(z, y, x)) return;
      const Pair<T> at = crew.pair(level, z, y, x);
      const T* f = crew.x1 + int64_t(at.first) * P::kChannels;
      const T* g = crew.x2 + int64_t(at.second) * P::kChannels;
      T d = 0, theta = 0;
      for (int i = 0; i < P::kChannels; ++i) d += (f[i] - g[i]) * (f[i] - g[i]);
      d *= T(1.0 / P::kChannels);
      Point::apply(at, crew.diagonal, d, theta);
      emit(z, y, x, at, d, theta);
    });
  }

  // Sums over windows of a torus: a column's rows share their sums along x.
  template <class W, class From, class To, class Point, class Sink>
  EQT_INLINE void wrapped_box() {
    using Y = typename W::ReachY;
    using X = typename W::ReachX;
    using Z = typename W::ReachZ;
    constexpr int R = P::kRows, span = (R - 1) * Y::kStride + Y::kWindow;
    constexpr int unrolled = span * X::kWindow * Z::kWindow <= 160 ? span : 1;
    each_crew([&](const Crew& crew, int thread) {
      const To level(a.tables, crew.label);
      const Cell<T>* in = crew.field[P::kFields - 1 - Sink::kField];
      Sink sink;
      for (int task = crew.member; task < tasks<To>(); task += P::kCrew) {
        const int x = task % To::kWidth, z = task / To::kWidth % To::kDepth, top = task / (To::kWidth * To::kDepth) * R;
        T d[R] = {}, theta[R] = {};
        for (int dz = 0; dz < Z::kWindow; ++dz) {
          const Cell<T>* plane = in + modulo(z * Z::kStride - Z::kLow + dz, From::kDepth) * From::kHeight * From::kWidth;
#pragma unroll(unrolled)
          for (int i = 0; i < span; ++i) {
            const Cell<T>* row = plane + modulo(top * Y::kStride - Y::kLow + i, From::kHeight) * From::kWidth;
            T sum_d = 0, sum_theta = 0;
#pragma unroll(unrolled > 1 ? X::kWindow : 1)
            for (int dx = 0; dx < X::kWindow; ++dx) {
              const Cell<T> cell = row[modulo(x * X::kStride - X::kLow + dx, From::kWidth)];
              sum_d += cell.d;
              sum_theta += cell.theta;
            }
#pragma unroll
            for (int r = 0; r < R; ++r)
              if (i >= r * Y::kStride && i < r * Y::kStride + Y::kWindow) d[r] += sum_d, theta[r] += sum_theta;
          }
        }
#pragma unroll
        for (int r = 0; r < R; ++r)
          if (top + r < To::kHeight) {
            const Pair<T> at = crew.pair(level, z, top + r, x);
            Point::apply(at, crew.diagonal, d[r], theta[r]);
            sink.template take<To>(crew, a.tables, z, top + r, x, at, d[r], theta[r]);
          }
      }
      sink.close(block.sums(thread));
    });
  }

  // The same where windows may leave the grid: there K = Θ = 0, so that D is the variance of whichever input still has a
  // position.
  template <class W, class From, class To, class Point, class Sink>
  EQT_INLINE void plain_box() {
    step<To, Sink>([&](const Crew& crew, const To& level, auto&& emit, int z, int y, int x) {
      if (!level.holds(z, y, x)) return;
      using Z = typename W::ReachZ;
      using Y = typename W::ReachY;
      using X = typename W::ReachX;
      const From from(a.tables, crew.label);
      const Cell<T>* in = crew.field[P::kFields - 1 - Sink::kField];
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
              cz = modulo(pz + dz, From::kDepth), cy = modulo(py + dy, From::kHeight), cx = modulo(px + dx, From::kWidth);
            } else {
              const bool one = From::inside(pz + dz, py + dy, px + dx), two = From::inside(qz + dz, qy + dy, qx + dx);
              if (!one || !two) {
                if constexpr (W::kSideAt >= 0) {
                  if (one) d += crew.sides1[W::kSideAt + From::flat(pz + dz, py + dy, px + dx)];
                  if (two) d += crew.sides2[W::kSideAt + From::flat(qz + dz, qy + dy, qx + dx)];
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
      const Pair<T> at = crew.pair(level, z, y, x);
      Point::apply(at, crew.diagonal, d, theta);
      emit(z, y, x, at, d, theta);
    });
  }

  // out(g) = Σ_s weights[s] in(index[g, s])
  template <int Index, int Weights, int Size, class To, class Point, class Sink>
  EQT_INLINE void table() {
    step<To, Sink>([&](const Crew& crew, const To& level, auto&& emit, int z, int y, int x) {
      const Cell<T>* in = crew.field[P::kFields - 1 - Sink::kField];
      const Pair<T> at = crew.pair(level, z, y, x);
      const int32_t* index = a.tables + Index + int64_t(at.first) * Size;
      T d = 0, theta = 0;
      for (int s = 0; s < Size; ++s) {
        const Cell<T> cell = in[index[s]];
        d += a.reals[Weights + s] * cell.d;
        theta += a.reals[Weights + s] * cell.theta;
      }
      Point::apply(at, crew.diagonal, d, theta);
      emit(z, y, x, at, d, theta);
    });
  }

  // The same where every window holds all positions alike, so that there is one sum.
  template <class From, class To, class Point, class Sink>
  EQT_INLINE void total() {
    Cell<T>* partial = reinterpret_cast<Cell<T>*>(static_cast<char*>(block.memory) + P::kPartials);
    each_crew([&](const Crew& crew, int thread) {
      const Cell<T>* in = crew.field[P::kFields - 1 - Sink::kField];
      T d = 0, theta = 0;
      for (int i = crew.member; i < From::kCells; i += P::kCrew) d += in[i].d, theta += in[i].theta;
      partial[thread] = {d, theta};
    });
    step<To, Sink>([&](const Crew& crew, const To& level, auto&& emit, int z, int y, int x) {
      const Pair<T> at = crew.pair(level, z, y, x);
      T d = 0, theta = 0;
      for (int i = 0; i < P::kCrew; ++i) d += partial[crew.first_thread + i].d, theta += partial[crew.first_thread + i].theta;
      d *= T(1.0 / From::kCells), theta *= T(1.0 / From::kCells);
      Point::apply(at, crew.diagonal, d, theta);
      emit(z, y, x, at, d, theta);
    });
  }

  // One fibre of one pair of inputs, and which of its threads this is.
  struct Crew {
    const T *x1, *x2, *sides1, *sides2;
    const int32_t* label;
    Cell<T>* field[P::kFields];
    int member, first_thread;
    bool diagonal;

    template <class L>
    EQT_INLINE Pair<T> pair(const L& level, int z, int y, int x) const {
      return {sides1, sides2, level.first(z, y, x), level.second(z, y, x)};
    }
  };

  // Where a stage's results go: into one of the two fields, ...
  template <int Field>
  struct Store {
    static constexpr int kField = Field;
    template <class L>
    EQT_INLINE void take(const Crew& crew, const int32_t*, int z, int y, int x, const Pair<T>&, T d, T theta) {
      crew.field[Field][(z * L::kHeight + y) * L::kWidth + x] = {d, theta};
    }
    EQT_INLINE void close(Sums&) {}
  };

  // ... or into the sums over the pairs of positions that the readout joins.
  template <int Field>
  struct Readout {
    static constexpr int kField = Field;
    T k = 0, theta = 0;
    template <class L>
    EQT_INLINE void take(const Crew&, const int32_t* tables, int, int, int, const Pair<T>& at, T d, T t) {
      if constexpr (!P::kAllJoined) {
        const int32_t label = tables[P::kLabels + at.first];
        if (label < 0 || label != tables[P::kLabels + at.second]) return;
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
  const Arguments<T>& a;
  Block<P::kThreads>& block;
  int64_t next = 0, last = 0;

  EQT_INLINE int64_t split() const { return block.index % a.splits; }
  EQT_INLINE int64_t pair_number(int thread) const {
    return block.index / a.splits * P::kPairs + thread / (P::kCrew * P::kFibres);
  }

  // The inputs of pair `number`; in the upper triangle row i begins at i n - i (i-1) / 2.
  EQT_INLINE void inputs(int64_t number, int64_t& i, int64_t& j) const {
    if (a.kind == 0) {
      i = number / a.n2, j = number % a.n2;
    } else if (a.kind == 2) {
      i = j = number;
    } else {
      const int64_t n = a.n1;
      const double b = double(2 * n + 1);
      i = int64_t((b - square_root(b * b - 8.0 * double(number))) / 2);
      while (i > 0 && i * n - i * (i - 1) / 2 > number) --i;
      while ((i + 1) * n - (i + 1) * i / 2 <= number) ++i;
      j = i + number - (i * n - i * (i - 1) / 2);
    }
  }

  template <class L>
  static constexpr EQT_INLINE int tasks() {
    return L::kDepth * L::kWidth * ((L::kHeight + P::kRows - 1) / P::kRows);
  }

  // Calls f(crew, thread) in every thread that has a fibre to work on.
  template <class F>
  EQT_INLINE void each_crew(F&& f) {
    block.each([&](int thread) {
      const int number = thread / P::kCrew;
      const int64_t fibre = next + number % P::kFibres, pair = pair_number(thread);
      if (fibre >= last || pair >= a.pairs) return;
      int64_t i, j;
      inputs(pair, i, j);
      Crew crew;
      crew.x1 = a.x1 + i * P::kInputs, crew.x2 = a.x2 + j * P::kInputs;
      crew.sides1 = a.sides1 + i * P::kSides, crew.sides2 = a.sides2 + j * P::kSides;
      crew.label = a.tables + fibre * P::kLabelSize;
      for (int n = 0; n < P::kFields; ++n)
        crew.field[n] = static_cast<Cell<T>*>(block.memory) + (int64_t(number) * P::kFields + n) * P::kCells;
      crew.member = thread % P::kCrew;
      crew.first_thread = number * P::kCrew;
      crew.diagonal = true;
      for (int n = 0; n < P::kLabelSize; ++n) crew.diagonal = crew.diagonal && crew.label[n] == 0;
      f(crew, thread);
    });
  }

  // Calls cell(crew, level, emit, z, y, x) for all cells of a level.
  template <class L, class Sink, class F>
  EQT_INLINE void step(F&& cell) {
    each_crew([&](const Crew& crew, int thread) {
      const L level(a.tables, crew.label);
      Sink sink;
      auto emit = [&](int z, int y, int x, const Pair<T>& at, T d, T theta) {
        sink.template take<L>(crew, a.tables, z, y, x, at, d, theta);
      };
      for (int task = crew.member; task < tasks<L>(); task += P::kCrew) {
        const int x = task % L::kWidth, z = task / L::kWidth % L::kDepth, top = task / (L::kWidth * L::kDepth) * P::kRows;
        for (int y = top; y < top + P::kRows && y < L::kHeight; ++y) cell(crew, level, emit, z, y, x);
      }
      sink.close(block.sums(thread));
    });
  }

  // Sums over the threads of each pair, halving their number until one is left.
  EQT_INLINE void finish() {
    constexpr int members = P::kCrew * P::kFibres;
    Sums* all = static_cast<Sums*>(block.memory);
    block.each([&](int thread) { all[thread] = block.sums(thread); });
    for (int n = members; n > 1; n = (n + 1) / 2)
      block.each([&](int thread) {
        const int other = thread + (n + 1) / 2;
        if (thread % members >= n / 2) return;
        all[thread].k += all[other].k;
        all[thread].theta += all[other].theta;
      });
    block.each([&](int thread) {
      const int64_t pair = pair_number(thread);
      if (thread % members || pair >= a.pairs) return;
      int64_t i, j;
      inputs(pair, i, j);
      const T k = T(P::kWeight * all[thread].k), theta = T(P::kWeight * all[thread].theta);
      const int64_t columns = a.kind == 2 ? 1 : a.n2, base = split() * a.n1 * columns;
      const int64_t at = base + (a.kind == 2 ? i : i * columns + j);
      a.k[at] = k, a.theta[at] = theta;
      if (a.kind == 1) a.k[base + j * columns + i] = k, a.theta[base + j * columns + i] = theta;
    });
  }
};

}  // namespace eqt::EQT_ISA
