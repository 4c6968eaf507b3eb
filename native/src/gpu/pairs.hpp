// What the threads of the GPU engine work on: pairs of positions of pairs of inputs.
#pragma once

#include "block.hpp"
#include "geometry.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct Arguments {
  const T *x1, *x2;          // (n1 or n2, positions, channels)
  const T *sides1, *sides2;  // (n1 or n2, sides): what operations need of one input alone
  const T* reals;            // weights of windows
  const int32_t* tables;     // fibres, labels, partners, windows
  T *k, *theta;              // (splits, n1, n2), or (splits, n1) of inputs with themselves
  int64_t n1, n2, pairs, splits;
  int64_t kind;  // of pairs: a PairKind
};

EQT_INLINE Op linear_pieces(double slope) {
  Op op{};
  op.parameters[0] = slope;
  return op;
}

// A pair of positions of a pair of inputs, and what is known of each input there.
template <class T>
struct Pair {
  const T *sides1, *sides2;
  int first, second;
  T gap;  // of one over the units of the inputs

  EQT_INLINE T unit_gap() const { return gap * gap; }

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

// What a thread keeps: the fibre that it works on together with its crew, and the sums over its own pairs of positions.
template <class T>
struct Member {
  bool active, diagonal;
  int number;                 // within the crew
  int field;                  // where the crew's fields begin, in cells
  int label[3];               // of the fibre
  int i, j;                   // the inputs
  const T *sides1, *sides2;   // what is known of each alone
  T gap;                      // of one over their units
  Sums sums{0, 0};

  template <class L>
  EQT_INLINE Pair<T> pair(const L& level, int z, int y, int x) const {
    return {sides1, sides2, level.first(z, y, x), level.second(z, y, x), gap};
  }
};

}  // namespace eqt::EQT_ISA
