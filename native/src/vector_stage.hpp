// The operations after the readout, on plain vectors: rows of first inputs take the place of rows of positions.
#pragma once

#include <cmath>

#include "operations.hpp"
#include "opposite.hpp"

namespace eqt::EQT_ISA {

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

template <class T, bool Own>
void vector_stage(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>, N = kVectors<T, double>;
  // What kernels of inputs in their units are multiplied by: of the lanes, and of row r.
  alignas(64) double units[L];
  for (int l = 0; plan.units && l < L; ++l) units[l] = (Own ? tile.units[l] : 1) * tile.units2[l];
  const auto of_row = [&](int r) { return Own ? 1.0 : tile.units[r]; };
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
      const int i = Own ? l : r;
      const double q1 = tile.variances[i], q2 = tile.variances2[l], most = std::sqrt(q1 * q2);
      const double terms = std::sqrt(tile.variance_sums[i] * tile.variance_sums2[l]) * 2 / double(plan.positions_out);
      const double apart = std::sqrt(q1) - std::copysign(std::sqrt(q2), k[l]);
      d[l] = T(std::abs(most - std::abs(k[l])) <= rounding * terms ? apart * apart : q1 + q2 - 2 * k[l]);
    }
  }
  int32_t here[kTileRows] = {};
  const auto sides = [&](int64_t at) {
    // The first inputs' sides are `side_size` apart.
    const T* first = Own ? tile.sides1 + at * L : tile.sides[0] + at;
    return Sides<T, Own>{first, plan.side_size, tile.sides2 + at * L, 0, here};
  };
  alignas(64) T gaps[kTileRows * L];
  bool biased = false;
  for (int o = 0; plan.units && !plan.changes_units && o < plan.vector_count; ++o)
    biased |= plan.vector[o].kind == OpKind::affine && plan.vector[o].bias != 0;
  if (biased)
    for (int r = 0; r < tile.rows; ++r) {
      Vec<T> first[1], second[1];
      sides(plan.side_unit).get(r, first, second);
      store(gaps + r * L, Biases<T>(first[0], second[0]).distance);
    }
  const auto with_units = [&](const Op& op, auto&& f) {
    if (!plan.units || (op.bias == 0 && op.constant == 0)) f(NoUnits<T>{});
    else if (op.constant == 0 && !plan.changes_units) f(ListedUnits<T>{gaps});
    else f(EachUnits<T, Sides<T, Own>>{sides(op.unit_at)});
  };
  const auto operate = [&](int from, int to) __attribute__((noinline)) {
    operations(plan.vector + from, to - from, work, cells, tile.rows, sides, with_units);
  };
  int begun = 0;
  if (plan.distance_only && plan.units && !plan.changes_units && !tile.distances && begins_with_kink(plan)) {
    const int count = kink(plan) + 1;
    Opposite opposites[kOpposites];
    int found = 0;
    Vec<T> most = load(cells);
    for (int r = 1; r < tile.rows; ++r) most = maximum(most, load(cells + 2 * r * L));
    if (any_below(-most, T(-kNearlyOpposite)))
      for (int i = 0; i < tile.rows * L && found < kOpposites; ++i) {
        const int r = i / L, l = i % L;
        if (cells[2 * r * L + l] > T(kNearlyOpposite)) opposites[found++] = opposite<T, Own>(plan, tile, r, l, count);
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
    if constexpr (Own) widened<double>(load(tile.sides1 + at * L), first);
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

}  // namespace eqt::EQT_ISA
