// What the loops read of one input at each place of an operation: its sides, made from variances of as many inputs as a vector
// of T has lanes, which are (positions, lanes) in double.
#pragma once

#include "pointwise.hpp"
#include "tile.hpp"

namespace eqt::EQT_ISA {

// E[(φ + c)²] = E[φ²] + c (2 E[φ] + c), and E[φ] + c, of fields as they are.
struct Moments {
  Doubles variance, mean;
};

// Behind the nonlinearity of `op`, from `count` variances before it, which may lie where these are written; `means` may be null.
void moments(const Op& op, const Doubles* q, int64_t count, Doubles* variances, Doubles* means);

EQT_INLINE Moments moments(const Op& op, Doubles q) {
  Moments found{};
  moments(op, &q, 1, &found.variance, &found.mean);
  return found;
}

// All `op.sides` sides, those of a constant too, at `count` places, `step` numbers apart. `narrow`: for loops in float.
constexpr int kMostSides = dual_sides(DualKind::tabulated) + kRaisedSides, kPlacesAtOnce = 8;
void all_sides(const Op& op, const double* q, int64_t count, int64_t step, const Units& units, bool narrow, Doubles* out);

// Before a nonlinearity, where fields have this unit and variances q, `step` numbers apart, and behind it.
inline Units units_around(const Op& op, const double* q, int64_t positions, int64_t step, Doubles unit) {
  const Doubles one = 1 - Doubles{};
  if (!op.changes) return {one, one};
  if (op.dual == DualKind::step && op.offset == 0) return {unit, one};
  Doubles sum{};
  for (int64_t p = 0; p < positions; ++p) sum += moments(op, unit * unit * load(q + p * step)).variance;
  const Doubles square = sum / double(positions) + op.unit_bias;
  return {unit, square > 0 ? square_root(square) : one};
}

template <class T>
struct PreparedSides {
  static constexpr int L = kLanes<T>;
  static constexpr int D = kLanes<double>;
  const Plan& plan;
  const Group<T>& group;

  // K doubles for each lane at one place of the layouts.
  template <int K>
  EQT_INLINE void put(int64_t at, int lane, const Doubles (&values)[K]) const { put_many(at, lane, values, K); }

  void put_many(int64_t at, int lane, const Doubles* values, int count) const {
    for (int i = 0; i < count; ++i) put_one(at + i, lane, values[i]);
  }

  EQT_INLINE void put_one(int64_t at, int lane, Doubles values) const {
    for (int l = 0; l < D; ++l) {
      const T value = T(values[l]);
      if (group.rows) group.rows[(lane + l) * plan.side_size + at] = value;
      if (group.lanes) group.lanes[at * L + lane + l] = value;
    }
  }

  // The variance of a bias of variance 1, of inputs in their units.
  Doubles bias(int lane) const {
    if (!group.units) return 1 - Doubles{};
    const Doubles unit = maximum(load(group.units + lane), 1e-150 - Doubles{});
    return 1 / (unit * unit);
  }

  // One over the unit at this place, of which squares are numbers: where there are biases, units are not that small.
  void put_unit(int64_t at) const {
    const double most = sizeof(T) == 4 ? 1e18 : 1e150;
    for (int lane = 0; lane < L; lane += D) {
      const Doubles value[1] = {minimum(1 / load(group.units + lane), most - Doubles{})};
      put(at, lane, value);
    }
  }

  // Before a nonlinearity, whose variances before it are q, and behind it.
  Units units(const Op& op, const double* q, int64_t positions, int lane) const {
    const Doubles one = 1 - Doubles{};
    if (!op.changes) return {one, one};
    Units found{load(group.units + lane), one};
    if (group.fixed) {
      for (int l = 0; l < D; ++l) found.after[l] = 1 / double(group.fixed[op.unit_at * L + lane + l]);
    } else if (op.dual == DualKind::standardised) {
      Doubles sum{};
      const Doubles factor = standard(op, q, positions, lane);
      for (int64_t p = 0; p < positions; ++p) sum += factor * factor * (found.before * found.before * load(q + p * L + lane));
      const Doubles square = sum / double(positions) + op.unit_bias;
      found.after = square > 0 ? square_root(square) : one;
    } else {
      found = units_around(op, q + lane, positions, L, found.before);
    }
    return found;
  }

  void put_each(int64_t at, double factor, const double* q, int64_t positions, double less = 0) const {
    for (int lane = 0; lane < L; lane += D) {
      const Doubles rest = less * bias(lane);
      for (int64_t p = 0; p < positions; ++p) {
        const Doubles value[1] = {factor * (load(q + p * L + lane) - rest)};
        put(at + p, lane, value);
      }
    }
  }

  // The sides of `op`, whose variances before it are q, or after it for affine operations.
  [[gnu::noinline]] void write(const Op& op, const double* q, int64_t positions) const {
    if (op.sides == 0) return;
    if (op.kind == OpKind::affine) return put_each(op.side_at, 0.5, q, positions, op.rated ? op.bias : 0);
    if (op.kind == OpKind::join) return;  // they are means: see `join`
    if (op.kind != OpKind::dual) return put_each(op.side_at, 1, q, positions);
    if (op.dual == DualKind::standardised) return put_standardised(op, q, positions);
    for (int lane = 0; lane < L; lane += D) {
      const Units both = units(op, q, positions, lane);
      for (int64_t p = 0; p < positions; p += kPlacesAtOnce) {
        Doubles values[kPlacesAtOnce * kMostSides];
        const int64_t count = positions - p < kPlacesAtOnce ? positions - p : kPlacesAtOnce;
        all_sides(op, q + p * L + lane, count, L, both, sizeof(T) == 4, values);
        put_many(op.side_at + p * op.sides, lane, values, int(count) * op.sides);
      }
    }
  }

  // 1/σ of the inputs in some lanes: σ² is the mean variance of all positions.
  Doubles standard(const Op& op, const double* q, int64_t positions, int lane) const {
    const Doubles unit = op.changes ? load(group.units + lane) : 1 - Doubles{};
    Doubles sum{};
    for (int64_t p = 0; p < positions; ++p) sum += load(q + p * L + lane);
    return 1 / square_root(unit * unit * (sum / double(positions)) + op.parameters[0]);
  }

  void put_standardised(const Op& op, const double* q, int64_t positions) const {
    for (int lane = 0; lane < L; lane += D) {
      const Units both = units(op, q, positions, lane);
      const Doubles factor = standard(op, q, positions, lane) * (both.before / both.after);
      for (int64_t p = 0; p < positions; ++p) {
        const Doubles values[2] = {factor, factor * load(q + p * L + lane)};
        put(op.side_at + 2 * p, lane, values);
      }
    }
  }
};

}  // namespace eqt::EQT_ISA
