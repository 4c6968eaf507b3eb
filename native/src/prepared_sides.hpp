// What the loops read of one input at each place of an operation: its sides, made from variances of as many inputs as a vector
// of T has lanes, which are (positions, lanes) in double.
#pragma once

#include <type_traits>

#include "pointwise.hpp"
#include "tile.hpp"

namespace eqt::EQT_ISA {

// The sides of a dual activation that knows units, and of one of which all fields have the same.
template <class Dual, int K>
EQT_INLINE auto sides_between(const Dual& dual, Doubles q, const Units& units, Doubles (&out)[K]) -> decltype(dual.sides(q, units, out)) {
  return dual.sides(q, units, out);
}
template <class Dual, int K>
EQT_INLINE auto sides_between(const Dual& dual, Doubles q, const Units&, Doubles (&out)[K]) -> decltype(dual.sides(q, out)) {
  return dual.sides(q, out);
}

// E[(φ + c)²] = E[φ²] + c (2 E[φ] + c), and E[φ] + c, of fields as they are.
struct Moments {
  Doubles variance, mean;
};
template <class Dual>
EQT_INLINE Moments raised(const Op& op, Doubles q) {
  const Doubles first = Dual::mean(op, q);
  return {Dual::variance(op, q) + op.offset * (2 * first + op.offset), first + op.offset};
}

// Before a nonlinearity, where fields have this unit and variances q, `step` numbers apart, and behind it.
template <class Dual>
Units units_around(const Op& op, const double* q, int64_t positions, int64_t step, Doubles unit) {
  const Doubles one = 1 - Doubles{};
  if (!op.changes) return {one, one};
  if (op.dual == DualKind::step && op.offset == 0) return {unit, one};
  Doubles sum{};
  for (int64_t p = 0; p < positions; ++p) sum += raised<Dual>(op, unit * unit * load(q + p * step)).variance;
  const Doubles square = sum / double(positions) + op.unit_bias;
  return {unit, square > 0 ? square_root(square) : one};
}

// All sides of a nonlinearity at one place, those of its constant too: how many.
template <class Dual, int K>
EQT_INLINE int all_sides(const Op& op, const Dual& dual, Doubles q, const Units& units, Doubles (&out)[K]) {
  Doubles own[Dual::kSides];
  sides_between(dual, q, units, own);
  for (int i = 0; i < Dual::kSides; ++i) out[i] = own[i];
  if (op.sides == Dual::kSides) return op.sides;
  // Homogeneous functions leave fields in the unit before, and steps as they are.
  const bool homogeneous = op.dual == DualKind::piecewise_linear || op.dual == DualKind::normalised_exponential;
  const Doubles left = homogeneous ? units.before : op.dual == DualKind::step ? 1 - Doubles{} : units.after;
  const Doubles all = units.before * units.before * q;
  const Doubles more[kRaisedSides] = {left / units.after, Dual::variance(op, all) / (left * units.after),
                                      Dual::mean(op, all) / units.after, op.offset / units.after};
  for (int i = 0; i < kRaisedSides; ++i) out[Dual::kSides + i] = more[i];
  return op.sides;
}

template <class T>
struct PreparedSides {
  static constexpr int L = kLanes<T>;
  static constexpr int D = kLanes<double>;
  const Plan& plan;
  const Group<T>& group;

  // K doubles for each lane at one place of the layouts.
  template <int K>
  EQT_INLINE void put(int64_t at, int lane, const Doubles (&values)[K]) const {
    if constexpr (K > 2) put_many(at, lane, values, K);
    else
      for (int i = 0; i < K; ++i) put_one(at + i, lane, values[i]);
  }

  // Out of line: every nonlinearity would have a copy.
  __attribute__((noinline)) void put_many(int64_t at, int lane, const Doubles* values, int count) const {
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
      with_dual<T>(op, [&](const auto& dual) {
        found = units_around<std::decay_t<decltype(dual)>>(op, q + lane, positions, L, found.before);
      });
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
  void write(const Op& op, const double* q, int64_t positions) const {
    if (op.sides == 0) return;
    if (op.kind == OpKind::affine) return put_each(op.side_at, 0.5, q, positions, op.rated ? op.bias : 0);
    if (op.kind == OpKind::join) return;  // they are means: see `join`
    if (op.kind != OpKind::dual) return put_each(op.side_at, 1, q, positions);
    if (op.dual == DualKind::standardised) return put_standardised(op, q, positions);
    with_dual<T>(op, [&](const auto& dual) {
      using Dual = std::decay_t<decltype(dual)>;
      for (int lane = 0; lane < L; lane += D) {
        const Units both = units(op, q, positions, lane);
        for (int64_t p = 0; p < positions; ++p) {
          Doubles values[Dual::kSides + kRaisedSides];
          const int count = all_sides(op, dual, load(q + p * L + lane), both, values);
          put_many(op.side_at + p * count, lane, values, count);
        }
      }
    });
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
