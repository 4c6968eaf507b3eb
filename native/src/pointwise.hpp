// Operations at single pairs of positions, on rows of cells. A cell is a vector of D and a vector of Θ: one pair of
// positions, one first input, and as many second inputs as the vector has lanes.
#pragma once

#include "angular.hpp"

namespace eqt::EQT_ISA {

// The sides at a row of pairs: the first input's follow each other, the second's lie where `partner` says; null: at one place.
// `own`: every input of the vector is paired with a first one of its own, whose sides are vectors too.
template <class T>
struct Sides {
  static constexpr bool kFixed = false;
  const T* first;
  int64_t first_step;
  const T* second;
  int64_t second_step;
  const int32_t* partner;
  bool own;

  template <int K>
  EQT_INLINE void get(int64_t k, Vec<T> (&x)[K], Vec<T> (&y)[K]) const {
    const T* a = first + k * first_step;
    const T* b = partner ? second + partner[k] * second_step : second;
    if (own)
      for (int i = 0; i < K; ++i) x[i] = load(a + i * kLanes<T>);
    else
      for (int i = 0; i < K; ++i) x[i] = splat(a[i]);
    for (int i = 0; i < K; ++i) y[i] = load(b + i * kLanes<T>);
  }
};

// The same for loops in which nothing is decided pair by pair; with a partner.
template <class T, bool Own>
struct KnownSides : Sides<T> {
  template <int K>
  EQT_INLINE void get(int64_t k, Vec<T> (&x)[K], Vec<T> (&y)[K]) const {
    const T* a = this->first + k * this->first_step;
    const T* b = this->second + this->partner[k] * this->second_step;
    for (int i = 0; i < K; ++i) {
      if constexpr (Own) x[i] = load(a + i * kLanes<T>);
      else x[i] = splat(a[i]);
      y[i] = load(b + i * kLanes<T>);
    }
  }
};

// The same for all pairs of a row.
template <class T>
struct FixedSides : Sides<T> {
  static constexpr bool kFixed = true;
};

// Calls f with sides of which it is known whether they are `own`, or the same for all pairs.
template <class T, class F>
EQT_INLINE void with_known(const Sides<T>& sides, F&& f) {
  if (sides.own) f(KnownSides<T, true>{sides});
  else f(KnownSides<T, false>{sides});
}

template <class T, class F>
EQT_INLINE void with_known(const FixedSides<T>& sides, F&& f) { f(sides); }

// What inputs in units t, t' make of a bias: it adds (1/t - 1/t')² of its variance to D, and 1/(tt') of it to K.
template <class T>
struct Biases {
  Vec<T> distance, product;

  EQT_INLINE Biases(Vec<T> first, Vec<T> second) : distance((first - second) * (first - second)), product(first * second) {}
};

// The same for all pairs of a row.
template <class T>
struct SameUnits {
  static constexpr bool kAny = true;
  Biases<T> biases;

  EQT_INLINE const Biases<T>& at(int64_t) const { return biases; }
};

// Of other inputs at every pair; `sides` are 1/t.
template <class T, class S>
struct EachUnits {
  static constexpr bool kAny = true;
  S sides;

  EQT_INLINE Biases<T> at(int64_t k) const {
    Vec<T> x[1], y[1];
    sides.get(k, x, y);
    return {x[0], y[0]};
  }
};

// Inputs as they are.
template <class T>
struct NoUnits {
  static constexpr bool kAny = false;

  EQT_INLINE Biases<T> at(int64_t) const { return {T(1) - Vec<T>{}, T(1) - Vec<T>{}}; }
};

// K = q1/2 + q2/2 - D/2; the sides are the halved variances. `Rated`: those of W²K, of which Θ grows by a multiple.
template <class T, bool Rated, class S, class U>
void affine_row_of(const Op& op, T* cells, int64_t n, const S& sides, const U& given) {
  const U units = given;  // which no store can change
  const T w = T(op.weight), bias = T(op.bias), rate = T(op.rate), constant = T(op.constant);
  Vec<T> x[1], y[1];
  if constexpr (S::kFixed) sides.get(0, x, y);
  for (int64_t i = 0; i < n; ++i, cells += 2 * kLanes<T>) {
    if constexpr (!S::kFixed) sides.get(i, x, y);
    const auto biases = units.at(i);
    const Vec<T> grown = w * load(cells), d = U::kAny ? grown + bias * biases.distance : grown;
    store(cells, d);
    const Vec<T> k = x[0] + y[0] - T(0.5) * (Rated ? grown : d);
    store(cells + kLanes<T>, (Rated ? rate * k + constant * biases.product : k) + w * load(cells + kLanes<T>));
  }
}

template <class T, class S, class U>
void affine_row(const Op& op, T* cells, int64_t n, const S& sides, const U& units) {
  if (op.rated) affine_row_of<T, true>(op, cells, n, sides, units);
  else affine_row_of<T, false>(op, cells, n, sides, units);
}

// Away from the diagonal K = Θ = 0.
template <class T, class S>
void decouple_row(T* cells, int64_t n, const S& sides) {
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<T>) {
    Vec<T> x[1], y[1];
    sides.get(k, x, y);
    store(cells, x[0] + y[0]);
    store(cells + kLanes<T>, Vec<T>{});
  }
}

// The activation kernel that `op` names, and its constant: compiled once for all fields, in activations.cpp.
void dual_row(const Op& op, float* cells, int64_t n, const Sides<float>& sides);
void dual_row(const Op& op, double* cells, int64_t n, const Sides<double>& sides);

// D and Θ of a field whose unit an input changes by c: D' = cc'D + (c - c')(cq - c'q'); x and y are c and cq.
template <class T>
EQT_INLINE void convert(Vec<T>& d, Vec<T>& theta, const Vec<T>* x, const Vec<T>* y) {
  const Vec<T> both = x[0] * y[0];
  d = both * d + (x[0] - y[0]) * (x[1] - y[1]);
  theta = both * theta;
}

// A layer with weights of variance w, behind which the distance is D, and the nonlinearity that follows.
template <class T>
EQT_INLINE void layer_pair(const PiecewiseLinear<T>& dual, T w, Vec<T>& d, Vec<T>& theta, const Vec<T> (&x)[2], const Vec<T> (&y)[2]) {
  theta = w * theta + T(0.5) * (x[0] * x[0] + (y[0] * y[0] - d));
  dual.pair(d, theta, x, y);
}

// A dense or convolutional layer and a piecewise linear nonlinearity in one pass, with the windowed sum along the row
// before it: `sums` holds the sums over the window's rows, `W` (0: `width`) neighbours of which are added.
// `Parts`: of the cells of `sums`; with 1, Θ is 0.
template <class T, int W, int Parts, class S, class U>
__attribute__((noinline)) void fused_row(const Op& affine, const PiecewiseLinear<T>& dual, T scale, const T* sums, int width,
                                         int64_t stride, T* cells, int64_t n, const S& sides, const U& given) {
  constexpr int L = kLanes<T>;
  const U units = given;  // which no store can change
  const T w = T(affine.weight * scale), bias = T(affine.bias);
  const int taps = W ? W : width;
  Vec<T> x[2], y[2];
  if constexpr (S::kFixed) sides.get(0, x, y);
  for (int64_t k = 0; k < n; ++k, sums += Parts * L * stride, cells += 2 * L) {
    const auto biases = units.at(k);
    Vec<T> d = load(sums), theta{};
    if (Parts > 1) theta = load(sums + L);
    for (int u = 1; u < taps; ++u) {
      d += load(sums + Parts * L * u);
      if (Parts > 1) theta += load(sums + Parts * L * u + L);
    }
    if constexpr (!S::kFixed) sides.get(k, x, y);
    d = U::kAny ? w * d + bias * biases.distance : w * d;
    layer_pair(dual, w, d, theta, x, y);
    store(cells, d);
    store(cells + L, theta);
  }
}

// The same with windows of 3 × 3 on three rows, `step` apart: the sums over columns stay in registers.
template <class T, int Parts, class S>
__attribute__((noinline)) void fused_square(const Op& affine, const PiecewiseLinear<T>& dual, T scale, const T* above,
                                            int64_t step, T* cells, int64_t n, const S& sides, const SameUnits<T>& units) {
  constexpr int L = kLanes<T>;
  if (n <= 0) return;
  const T w = T(affine.weight * scale);
  const Vec<T> bias = T(affine.bias) * units.biases.distance;
  const auto column = [&](const T* at) { return (load(at) + load(at + step)) + load(at + 2 * step); };
  Vec<T> d0 = column(above), d1 = column(above + Parts * L), theta0{}, theta1{};
  if (Parts > 1) theta0 = column(above + L), theta1 = column(above + 3 * L);
  above += 2 * Parts * L;
  for (int64_t k = 0; k < n; ++k, above += Parts * L, cells += 2 * L) {
    Vec<T> x[2], y[2], theta2{};
    const Vec<T> d2 = column(above);
    if (Parts > 1) theta2 = column(above + L);
    sides.get(k, x, y);
    Vec<T> d = (d0 + d1) + d2, theta = (theta0 + theta1) + theta2;
    d0 = d1, d1 = d2, theta0 = theta1, theta1 = theta2;
    d = w * d + bias;
    layer_pair(dual, w, d, theta, x, y);
    store(cells, d);
    store(cells + L, theta);
  }
}

template <class T, int Parts, class U>
EQT_INLINE void fused(const Op& affine, const PiecewiseLinear<T>& dual, T scale, const T* sums, int width, int64_t stride, T* cells, int64_t n,
           const Sides<T>& sides, const U& units) {
  with_known(sides, [&](const auto& known) EQT_INLINE_LAMBDA {
    switch (width) {
      case 1: return fused_row<T, 1, Parts>(affine, dual, scale, sums, width, stride, cells, n, known, units);
      case 3: return fused_row<T, 3, Parts>(affine, dual, scale, sums, width, stride, cells, n, known, units);
      default: return fused_row<T, 0, Parts>(affine, dual, scale, sums, width, stride, cells, n, known, units);
    }
  });
}

}  // namespace eqt::EQT_ISA
