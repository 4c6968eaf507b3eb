// Vectors that are nearly opposite, up to the first kink: their angle lies in C = q + q' + 2K, of which D = 2 (q + q') - C keeps
// the rounding alone. Such pairs are few: they are computed one by one, in double.
#pragma once

#include <cmath>

#include "program.hpp"
#include "tile.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

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
template <class T, bool Own>
Opposite opposite(const Plan& plan, const Tile<T>& tile, int r, int l, int count) {
  constexpr int L = kLanes<T>;
  const int64_t size = plan.positions_in * plan.channels;
  double c = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double sum = double(Own ? tile.signals1[i * L + l] : tile.inputs[r][i]) + double(tile.signals2[i * L + l]);
    c += sum * sum;
  }
  c /= double(size);
  const double one = 1 / tile.units[Own ? l : r], other = 1 / tile.units2[l];
  double q1 = tile.variances[Own ? l : r], q2 = tile.variances2[l], theta = 0;
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

}  // namespace eqt::EQT_ISA
