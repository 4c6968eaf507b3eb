// Where the pairs (p, p') of a fibre are kept: cells of a grid, or elements of a group.
//
// A fibre joins p with p' = p + o on every axis. On a torus cell c holds p = c. Elsewhere two fibres share the cells of
// an axis: [0, a) holds the pairs of offset o >= 0, and from a on come those of the offset that is smaller by the side of
// the readout's grid, which are just the ones that the first leaves free. So nothing is computed for pairs that do not exist.
#pragma once

#include "scalar.hpp"

namespace eqt::EQT_ISA {

// An axis of `kSide` positions and `kCells` cells; a fibre's label moves p' by `kStep` a unit, and the second fibre is
// `kPeriod` behind. `kPaired`: labels stand for two fibres; otherwise each for the one that its sign says.
template <int Side, int Cells, int Step, int Period, bool Paired>
struct Axis {
  static constexpr int kSide = Side, kCells = Cells, kStep = Step, kPeriod = Period;
  static constexpr bool kPaired = Paired;

  static EQT_INLINE bool inside(int p) { return p >= 0 && p < Side; }
};

template <int N>
EQT_INLINE int modulo(int x) {
  if constexpr ((N & (N - 1)) == 0) return x & (N - 1);
  const int rest = x % N;
  return rest < 0 ? rest + N : rest;
}

// One axis of a level along one fibre.
template <class A, bool Torus>
struct Line {
  int count, turn, forward, backward;

  EQT_INLINE explicit Line(int label) {
    const int offset = label * A::kStep;
    if (Torus) {
      count = turn = A::kSide;
      forward = modulo<A::kSide>(offset);
      backward = 0;
    } else {
      forward = offset;
      backward = A::kPaired ? A::kPeriod - offset : -offset;
      turn = A::kPaired || label >= 0 ? maximum(A::kSide - forward, 0) : 0;
      count = turn + (A::kPaired || label < 0 ? maximum(A::kSide - backward, 0) : 0);
    }
  }

  static EQT_INLINE int maximum(int a, int b) { return a > b ? a : b; }

  EQT_INLINE bool second_fibre(int cell) const { return !Torus && cell >= turn; }
  EQT_INLINE int first(int cell) const { return second_fibre(cell) ? cell - turn + backward : cell; }
  EQT_INLINE int second(int cell) const {
    if constexpr (Torus && (A::kSide & (A::kSide - 1)) == 0) return modulo<A::kSide>(cell + forward);
    if constexpr (Torus) return cell + forward < A::kSide ? cell + forward : cell + forward - A::kSide;
    return second_fibre(cell) ? cell - turn : cell + forward;
  }
  // The cell of the pair (p, p') of the same fibre as a pair whose `second_fibre` is `other`.
  EQT_INLINE int cell(int p, int q, bool other) const { return other ? q + turn : p; }
};

// Cells (z, y, x) are worked on in columns along y, in stretches of as many rows as a thread takes.
template <class Z, class Y, class X, bool Torus>
struct Grid {
  using AxisZ = Z;
  using AxisY = Y;
  using AxisX = X;
  static constexpr bool kGrid = true, kTorus = Torus;
  static constexpr int kCells = Z::kCells * Y::kCells * X::kCells;
  static constexpr int kDepth = Z::kCells, kHeight = Y::kCells, kWidth = X::kCells;

  Line<Z, Torus> z;
  Line<Y, Torus> y;
  Line<X, Torus> x;

  EQT_INLINE Grid(const int32_t*, const int (&label)[3]) : z(label[0]), y(label[1]), x(label[2]) {}

  EQT_INLINE bool holds(int cz, int cy, int cx) const { return cz < z.count && cy < y.count && cx < x.count; }
  static EQT_INLINE int flat(int pz, int py, int px) { return (pz * Y::kSide + py) * X::kSide + px; }
  static EQT_INLINE bool inside(int pz, int py, int px) {
    return Z::inside(pz) && Y::inside(py) && X::inside(px);
  }
  EQT_INLINE int first(int cz, int cy, int cx) const { return flat(z.first(cz), y.first(cy), x.first(cx)); }
  EQT_INLINE int second(int cz, int cy, int cx) const { return flat(z.second(cz), y.second(cy), x.second(cx)); }
};

// Positions that a group moves: the partners of element q stand in row q of a table. The shape serves windows.
template <int Depth, int Height, int Width, int At>
struct Orbit {
  static constexpr bool kGrid = false, kTorus = true;
  static constexpr int kCells = Depth * Height * Width;
  static constexpr int kDepth = Depth, kHeight = Height, kWidth = Width;
  const int32_t* partners;

  EQT_INLINE Orbit(const int32_t* tables, const int (&label)[3]) : partners(tables + At + int64_t(label[0]) * kCells) {}

  EQT_INLINE bool holds(int, int, int) const { return true; }
  EQT_INLINE int first(int z, int y, int x) const { return (z * kHeight + y) * kWidth + x; }
  EQT_INLINE int second(int z, int y, int x) const { return partners[first(z, y, x)]; }
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

}  // namespace eqt::EQT_ISA
