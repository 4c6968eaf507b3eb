// The operations after the readout, on plain vectors: rows of first inputs take the place of rows of positions.
#pragma once

#include <cmath>

#include "operations.hpp"
#include "opposite.hpp"

namespace eqt::EQT_ISA {

template <class T, bool Own>
void vector_stage(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  double units[L], units2[L];  // here, so that nothing that is written can change them
  for (int l = 0; l < L; ++l) units[l] = plan.units && Own ? tile.units[l] : 1, units2[l] = plan.units ? tile.units2[l] : 1;
  const auto of_row = [&](int r) { return plan.units && !Own ? tile.units[r] : 1.0; };
  const auto in_units = [&](int r, int l) { return of_row(r) * units[l] * units2[l]; };
  if (!plan.vector_dual) {
    for (int o = 0; o < plan.vector_count; ++o) {
      const Op& op = plan.vector[o];
      for (int i = 0; i < tile.rows * L; ++i) {
        const double unit = plan.units ? in_units(i / L, i % L) : 1;
        const double w = op.first, b = op.second / unit, k = w * tile.k[i];
        tile.k[i] = k + b;
        tile.theta[i] = (op.total ? op.third * k + op.fourth / unit : k + b) + w * tile.theta[i];
      }
    }
    for (int r = 0; plan.units && r < tile.rows; ++r)
      for (int l = 0; l < L; ++l) tile.k[r * L + l] *= in_units(r, l), tile.theta[r * L + l] *= in_units(r, l);
    return;
  }
  const Workspace<T> work(plan, tile.workspace);
  // Of sums over pairs of positions: of products in T, added up in double.
  const double rounding = sizeof(T) == 4 ? 4 * 1.1920929e-7 : 64 * 2.220446049250313e-16;
  T* cells = work.row;
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      double d = tile.k[r * L + l];
      if (!plan.single) {
        // What rounding of the pool's terms alone can make of equal or opposite outputs counts as such. Terms may be much
        // larger than their mean: their size is that of the variances before pooling.
        const int i = Own ? l : r;
        const double q1 = tile.variances[i], q2 = tile.variances2[l], most = std::sqrt(q1 * q2);
        const double terms = std::sqrt(tile.variance_sums[i] * tile.variance_sums2[l]) * 2 / double(plan.positions_out);
        if (std::abs(most - std::abs(d)) <= rounding * terms) {
          const double apart = std::sqrt(q1) - std::copysign(std::sqrt(q2), d);
          d = apart * apart;
        } else {
          d = q1 + q2 - 2 * d;
        }
      }
      cells[2 * r * L + l] = T(d);
      cells[(2 * r + 1) * L + l] = T(tile.theta[r * L + l]);
    }
  int32_t here[kTileRows] = {};
  const auto sides = [&](int64_t at) {
    // The first inputs' sides are `side_size` apart.
    const T* first = Own ? tile.sides1 + at * L : tile.sides[0] + at;
    return Sides<T, Own>{first, plan.side_size, tile.sides2 + at * L, 0, here};
  };
  alignas(64) T gaps[kTileRows * L];
  if (plan.units)
    for (int r = 0; r < tile.rows; ++r) {
      Vec<T> first[1], second[1];
      sides(plan.side_unit).get(r, first, second);
      store(gaps + r * L, Biases<T>(first[0], second[0]).distance);
    }
  const auto with_units = [&](const Op& op, auto&& f) {
    if (!plan.units || (op.second == 0 && op.fourth == 0)) f(NoUnits<T>{});
    else if (op.fourth == 0) f(ListedUnits<T>{gaps});
    else f(EachUnits<T, Sides<T, Own>>{sides(plan.side_unit)});
  };
  int begun = 0;
  if (plan.distance_only && plan.units && !tile.distances && begins_with_kink(plan)) {
    const int count = kink(plan) + 1;
    Opposite opposites[kOpposites];
    int found = 0;
    for (int r = 0; r < tile.rows; ++r) {
      if (!any_below(-load(cells + 2 * r * L), T(-kNearlyOpposite))) continue;
      for (int l = 0; l < L && found < kOpposites; ++l)
        if (cells[2 * r * L + l] > T(kNearlyOpposite)) opposites[found++] = opposite<T, Own>(plan, tile, r, l, count);
    }
    if (found) {
      operations(plan.vector, count, work, cells, tile.rows, sides, with_units);
      for (int i = 0; i < found; ++i) {
        cells[2 * opposites[i].row * L + opposites[i].lane] = T(opposites[i].d);
        cells[(2 * opposites[i].row + 1) * L + opposites[i].lane] = T(opposites[i].theta);
      }
      begun = count;
    }
  }
  operations(plan.vector + begun, plan.vector_count - begun, work, cells, tile.rows, sides, with_units);
  for (int r = 0; r < tile.rows; ++r) {
    const double row = of_row(r);
    for (int l = 0; l < L; ++l) {
      const int64_t at = plan.side_vector;
      const double unit = row * units[l] * units2[l];
      const double q = double(Own ? tile.sides1[at * L + l] : tile.sides[r][at]) + double(tile.sides2[at * L + l]);
      tile.k[r * L + l] = unit * (q - double(cells[2 * r * L + l]) / 2);
      tile.theta[r * L + l] = unit * double(cells[(2 * r + 1) * L + l]);
    }
  }
}

}  // namespace eqt::EQT_ISA
