// Operations on vectors after the readout, to K and Θ; plain vectors through dense layers in one pass.
#pragma once

#include <cmath>

#include "distance.hpp"
#include "pair_offset.hpp"
#include "program.hpp"
#include "tile.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

// Vectors that are nearly opposite, up to the first kink: their angle lies in C = q + q' + 2K, of which D = 2 (q + q') - C keeps
// the rounding alone. Such pairs are few: they are computed one by one, in double.

constexpr double kNearlyOpposite = 3.9;  // the D of vectors of mean square up to 1, of which 4 is the largest
constexpr int kOpposites = kTileRows * 16;

struct Opposite {
  int row, lane;
  double d, theta;  // after the first kink
};

// Which of the operations on vectors is the first nonlinearity.
inline int kink(const Plan& plan) {
  int o = 0;
  while (o < plan.vector_count && plan.vector[o].kind == OpKind::affine) ++o;
  return o;
}

inline bool begins_with_kink(const Plan& plan) {
  const int o = kink(plan);
  if (o == 0 || o == plan.vector_count || plan.vector[o].kind != OpKind::dual) return false;
  return plan.vector[o].dual == DualKind::piecewise_linear;
}

// A pair of vectors, through layers with weights and a kink, `count` operations in all.
template <class T>
[[gnu::cold]] Opposite opposite(const Plan& plan, const Tile<T>& tile, int r, int l, int count) {
  constexpr int L = kLanes<T>;
  const int64_t size = plan.positions_in * plan.channels;
  double c = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double sum = double(tile.listed() ? tile.signals1[i * L + l] : tile.inputs[r][i]) + double(tile.signals2[i * L + l]);
    c += sum * sum;
  }
  c /= double(size);
  const int first = tile.listed() ? l : r;
  const double one = 1 / tile.units[first], other = 1 / tile.units2[l];
  double q1 = tile.variances[first], q2 = tile.variances2[l], theta = 0;
  for (int o = 0; o + 1 < count; ++o) {
    const Op& op = plan.vector[o];
    const double before = op.weight * (c - q1 - q2) / 2;
    c = op.weight * c + op.bias * (one + other) * (one + other);
    q1 = op.weight * q1 + op.bias * one * one;
    q2 = op.weight * q2 + op.bias * other * other;
    theta = (op.rated ? op.rate * before + op.constant * one * other : (c - q1 - q2) / 2) + op.weight * theta;
  }
  const Op& op = plan.vector[count - 1];
  const double pi = 3.14159265358979323846, r1 = std::sqrt(q1), r2 = std::sqrt(q2), product = r1 * r2;
  const double slope = op.parameters[0], odd = (1 + slope) * (1 + slope) / 4, even = (1 - slope) * (1 - slope) / 4, square = (r1 - r2) * (r1 - r2);
  const double rest = product > 0 ? (c - square) / (4 * product) : 0.5, m = rest < 0 ? 0 : rest < 1 ? rest : 1;
  const double angle = 2 * std::asin(std::sqrt(m));  // beside the opposite direction
  const double lens = (angle * std::cos(angle) - std::sin(angle)) / pi;
  const double d = odd * (square + 4 * product * (1 - m)) + even * (square + 4 * product * (m + lens));
  return {r, l, d, theta * (odd - even * (1 - 2 * angle / pi))};
}

// K and Θ of inputs as they are from D and Θ in their units; `first` and `second` are halved variances.
template <class T, int N = kVectors<T, double>>
EQT_INLINE void results(Vec<T> distance, Vec<T> tangent, const Doubles (&first)[N], const Doubles (&second)[N], const Doubles (&unit)[N],
                        Doubles (&k)[N], Doubles (&theta)[N]) {
  Doubles d[N], t[N];
  widened<double>(distance, d);
  widened<double>(tangent, t);
  for (int i = 0; i < N; ++i) {
    k[i] = unit[i] * (first[i] + second[i] - d[i] / 2);
    theta[i] = unit[i] * t[i];
  }
}

// The operations after the readout, on plain vectors: rows of first inputs take the place of rows of positions.
template <class T>
void vector_stage(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>, N = kVectors<T, double>;
  const bool own = tile.listed();
  // What kernels of inputs in their units are multiplied by: of the lanes, and of row r.
  alignas(64) double units[L];
  for (int l = 0; plan.units && l < L; ++l) units[l] = (own ? tile.units[l] : 1) * tile.units2[l];
  const auto of_row = [&](int r) { return own ? 1.0 : tile.units[r]; };
  if (!plan.vector_dual) {
    for (int r = 0; plan.units && r < tile.rows; ++r) {
      const double row = of_row(r);
      for (int l = 0; l < L; ++l) {
        const double unit = row * units[l];
        tile.k[r * L + l] *= unit, tile.theta[r * L + l] *= unit;
      }
    }
    for (int o = 0; o < plan.vector_count; ++o) {
      const Op& op = plan.vector[o];
      const double w = op.weight, b = op.bias;
      for (int i = 0; i < tile.rows * L; ++i) {
        const double k = w * tile.k[i];
        tile.k[i] = k + b;
        tile.theta[i] = (op.rated ? op.rate * k + op.constant : k + b) + w * tile.theta[i];
      }
    }
    return;
  }
  const Workspace<T> work(plan, tile.workspace);
  // Of sums over pairs of positions: of products in T, added up in double.
  const double rounding = sizeof(T) == 4 ? 4 * 1.1920929e-7 : 64 * 2.220446049250313e-16;
  T* cells = work.row;
  for (int r = 0; r < tile.rows; ++r) {
    const double* k = tile.k + r * L;
    T* d = cells + 2 * r * L;
    round_to(d + L, tile.theta + r * L);
    if (plan.single) {
      round_to(d, k);
      continue;
    }
    for (int l = 0; l < L; ++l) {
      // What rounding of the pool's terms alone can make of equal or opposite outputs counts as such. Terms may be much
      // larger than their mean: their size is that of the variances before pooling.
      const int i = own ? l : r;
      const double q1 = tile.variances[i], q2 = tile.variances2[l], most = std::sqrt(q1 * q2);
      const double terms = std::sqrt(tile.variance_sums[i] * tile.variance_sums2[l]) * 2 / double(plan.positions_out);
      const double apart = std::sqrt(q1) - std::copysign(std::sqrt(q2), k[l]);
      d[l] = T(std::abs(most - std::abs(k[l])) <= rounding * terms ? apart * apart : q1 + q2 - 2 * k[l]);
    }
  }
  int32_t here[kTileRows] = {};
  const auto sides = [&](int64_t at) {
    // The first inputs' sides are `side_size` apart.
    const T* first = own ? tile.sides1 + at * L : tile.sides[0] + at;
    return Sides<T>{first, plan.side_size, tile.sides2 + at * L, 0, here, own};
  };
  const auto with_units = [&](const Op& op, auto&& f) {
    if (!plan.units || (op.bias == 0 && op.constant == 0)) f(NoUnits<T>{});
    else f(EachUnits<T, Sides<T>>{sides(op.unit_at)});
  };
  const auto operate = [&](int from, int to) __attribute__((noinline)) {
    operations(plan.vector + from, to - from, work, cells, tile.rows, sides, with_units);
  };
  int begun = 0;
  if (plan.distance_only && plan.units && !plan.changes_units && begins_with_kink(plan)) {
    const int count = kink(plan) + 1;
    Opposite opposites[kOpposites];
    int found = 0;
    Vec<T> most = load(cells);
    for (int r = 1; r < tile.rows; ++r) most = maximum(most, load(cells + 2 * r * L));
    if (any_below(-most, T(-kNearlyOpposite)))
      for (int i = 0; i < tile.rows * L && found < kOpposites; ++i) {
        const int r = i / L, l = i % L;
        if (cells[2 * r * L + l] > T(kNearlyOpposite)) opposites[found++] = opposite(plan, tile, r, l, count);
      }
    if (found) {
      operate(0, count);
      for (int i = 0; i < found; ++i) {
        cells[2 * opposites[i].row * L + opposites[i].lane] = T(opposites[i].d);
        cells[(2 * opposites[i].row + 1) * L + opposites[i].lane] = T(opposites[i].theta);
      }
      begun = count;
    }
  }
  operate(begun, plan.vector_count);
  const int64_t at = plan.side_vector;
  for (int r = 0; r < tile.rows; ++r) {
    const double row = plan.units ? of_row(r) : 1;
    Doubles second[N], first[N], unit[N], k[N], theta[N];
    widened<double>(load(tile.sides2 + at * L), second);
    if (own) widened<double>(load(tile.sides1 + at * L), first);
    else for (Doubles& q : first) q = double(tile.sides[r][at]) - Doubles{};
    for (int i = 0; i < N; ++i) unit[i] = plan.units ? row * load(units + i * kLanes<double>) : 1 - Doubles{};
    results<T>(load(cells + 2 * r * L), load(cells + (2 * r + 1) * L), first, second, unit, k, theta);
    for (int i = 0; i < N; ++i) {
      store(tile.k + r * L + i * kLanes<double>, k[i]);
      store(tile.theta + r * L + i * kLanes<double>, theta[i]);
    }
  }
}

// Rounds K or Θ of a tile into rows of a result, `stride` apart; says whether all are finite.
template <class T, class S>
bool put(const double* values, int rows, int lanes, S* out, int64_t stride) {
  constexpr int L = kLanes<T>;
  Doubles zeros{};  // 0 times all numbers, which may be finite in double alone
  HalfFloats halves{};
  S rest = 0;
  for (int r = 0; r < rows; ++r, values += L, out += stride) {
    for (int l = 0; lanes < L && l < lanes; ++l) {
      out[l] = S(values[l]);
      rest += out[l] * S(0);
    }
    if (lanes < L) continue;
    for (int l = 0; l < L; l += kLanes<double>) {
      const Doubles wide = load(values + l);
      if constexpr (sizeof(S) == 4) {
        const HalfFloats half = narrowed(wide);
        std::memcpy(out + l, &half, sizeof half);
        halves += half * S(0);
      } else {
        std::memcpy(out + l, &wide, sizeof wide);
        zeros += wide * S(0);
      }
    }
  }
  double sum = double(rest);
  for (int l = 0; l < kLanes<double>; ++l) sum += zeros[l] + double(halves[l]);
  return sum == 0;
}

// Plain vectors through dense layers with a kink between them: D and Θ of a few rows stay in registers from products to
// results. It is what `distances`, `vector_stage` and `put` do one after another, by the same steps, to the same bits.

constexpr int kHeld = EQT_BYTES == 64 ? 4 : 2;  // rows that the registers hold

// R first inputs from number r of the tile on; false: a pair is near or nearly opposite, and none is written. Adds 0 times all results to `zeros`.
template <class T, int R>
EQT_INLINE bool dense_rows(const Plan& plan, const Tile<T>& tile, const PiecewiseLinear<T>& dual, int r, T* k, T* theta, int64_t stride,
                           Vec<T>& zeros) {
  constexpr int L = kLanes<T>, N = kVectors<T, double>, D = kLanes<double>;
  const double share = 2 / double(plan.positions_in * plan.channels);
  const auto first = [&](int i, int64_t at) { return splat(tile.sides[r + i][at]); };
  const auto second = [&](int64_t at) { return load(tile.sides2 + at * L); };
  Vec<T> d[R], t[R]{}, gaps[R]{};
  bool far = true;
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
    Doubles wide[N];
    far &= far_distances(tile.products + (r + i) * L, tile.variances[r + i], tile.variances2, share, wide);
    d[i] = rounded(wide);
  }
  if (!far) return false;
  if (plan.units) {
    Vec<T> most = d[0];
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      most = maximum(most, d[i]);
      gaps[i] = Biases<T>(first(i, plan.side_unit), second(plan.side_unit)).distance;
    }
    if (any_below(-most, T(-kNearlyOpposite))) return false;
  }
  int o = 0;
  for (; o + 1 < plan.vector_count; o += 2) {
    const T w = T(plan.vector[o].weight), bias = T(plan.vector[o].bias);
    const int64_t at = plan.vector[o + 1].side_at;
    const Vec<T> y[2] = {second(at), second(at + 1)};
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const Vec<T> x[2] = {first(i, at), first(i, at + 1)}, here[2] = {opaque(y[0]), y[1]};
      d[i] = w * d[i] + bias * gaps[i];  // without biases w * d[i], to the last bit
      layer_pair(dual, w, d[i], t[i], x, here);
    }
  }
  if (o < plan.vector_count) {
    const T w = T(plan.vector[o].weight), bias = T(plan.vector[o].bias);
    const int64_t at = plan.vector[o].side_at;
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      d[i] = w * d[i] + bias * gaps[i];
      const Vec<T> product = first(i, at) + second(at) - T(0.5) * d[i];
      t[i] = product + w * t[i];
    }
  }
  Doubles halved[N];
  widened<double>(second(plan.side_vector), halved);
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
    Doubles own[N], unit[N], wide[N], tangent[N];
    for (int n = 0; n < N; ++n) {
      own[n] = double(tile.sides[r + i][plan.side_vector]) - Doubles{};
      unit[n] = plan.units ? tile.units[r + i] * load(tile.units2 + n * D) : 1 - Doubles{};
    }
    results<T>(d[i], t[i], own, halved, unit, wide, tangent);
    const Vec<T> found[2] = {rounded(wide), rounded(tangent)};
    zeros += found[0] * T(0) + found[1] * T(0);
    std::memcpy(k + (r + i) * stride, &found[0], sizeof found[0]);
    std::memcpy(theta + (r + i) * stride, &found[1], sizeof found[1]);
  }
  return true;
}

template <class T>
bool dense(const Plan& plan, const Tile<T>& tile, T* k, T* theta, int64_t stride, bool* finite) {
  const PiecewiseLinear<T> dual(plan.vector[1]);
  Vec<T> zeros{};
  int r = 0;
  for (; r + kHeld <= tile.rows; r += kHeld)
    if (!dense_rows<T, kHeld>(plan, tile, dual, r, k, theta, stride, zeros)) return false;
  for (; r < tile.rows; ++r)
    if (!dense_rows<T, 1>(plan, tile, dual, r, k, theta, stride, zeros)) return false;
  T sum = 0;
  for (int l = 0; l < kLanes<T>; ++l) sum += zeros[l];
  *finite = sum == 0;
  return true;
}

// Row r and column l of a block, `stride` numbers a row, become column r and row l of another.
template <class T>
void mirror(const T* from, int rows, int lanes, T* to, int64_t stride) {
  constexpr int L = kLanes<T>;
  int r = 0;
  for (; lanes == L && r + L <= rows; r += L) {
    Vec<T> square[L];
    for (int i = 0; i < L; ++i) std::memcpy(&square[i], from + (r + i) * stride, sizeof square[i]);
    transpose<T>(square);
    for (int l = 0; l < L; ++l) std::memcpy(to + l * stride + r, &square[l], sizeof square[l]);
  }
  for (; r < rows; ++r)
    for (int l = 0; l < lanes; ++l) to[l * stride + r] = from[r * stride + l];
}

}  // namespace eqt::EQT_ISA
