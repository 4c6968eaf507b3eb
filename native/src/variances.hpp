// Variances q(p) of the inputs, and means E[f] where the plan needs them, through the operations at each position: (positions,
// lanes) in double for as many inputs as a vector of T has lanes.
#pragma once

#include "prepared_sides.hpp"
#include "transposed.hpp"

namespace eqt::EQT_ISA {

// Variances and means of as many inputs as a vector has lanes, in `size` numbers each, as they go through the layers.
template <class T>
struct Carried {
  double *q, *other, *mean, *kept;
  int64_t size;
  void* workspace;  // for fibres
};

template <class T>
struct Variances {
  static constexpr int L = kLanes<T>;
  static constexpr int D = kLanes<double>;
  const Plan& plan;
  const Group<T>& group;

  PreparedSides<T> sides() const { return {plan, group}; }

  // Of the signals, which are written into the group too.
  void signals(double* q, double* mean) const {
    constexpr int N = kVectors<T, double>;
    if (plan.distance_only && plan.positions_in == 1 && !plan.means) return vectors(q);
    const double channels = plan.channels;
    for (int64_t p = 0, i = 0; p < plan.positions_in; ++p) {
      Doubles squares[N]{}, sums[N]{};
      for (int c = 0; c < plan.channels; ++c, ++i) {
        alignas(64) T here[L] = {};
        for (int l = 0; l < group.count; ++l) here[l] = group.inputs[l][i];
        const Vec<T> values = load(here);
        if (group.signals) store(group.signals + i * L, values);
        Doubles wide[N];
        widened<double>(values, wide);
        for (int k = 0; k < N; ++k) {
          squares[k] += wide[k] * wide[k] / channels;
          if (plan.means) sums[k] += wide[k] / channels;
        }
      }
      for (int k = 0; k < N; ++k) {
        store(q + p * L + k * D, squares[k]);
        if (plan.means) store(mean + p * L + k * D, sums[k]);
      }
    }
  }

  // `signals` of plain vectors, as many numbers of each at a time as a vector has lanes.
  void vectors(double* q) const {
    constexpr int N = kVectors<T, double>;
    const int64_t size = plan.channels;
    Doubles squares[N]{};
    for (int64_t c = 0; c < size; c += L) {
      const int n = size - c < L ? int(size - c) : L;
      Vec<T> square[L]{};
      for (int l = 0; l < group.count; ++l) {
        if (n == L) std::memcpy(&square[l], group.inputs[l] + c, sizeof square[l]);  // of a size that compilers know
        else std::memcpy(&square[l], group.inputs[l] + c, size_t(n) * sizeof(T));
      }
      transpose<T>(square);
      for (int i = 0; i < n; ++i) {
        if (group.signals) store(group.signals + (c + i) * L, square[i]);
        Doubles wide[N];
        widened<double>(square[i], wide);
        for (int k = 0; k < N; ++k) squares[k] += wide[k] * wide[k];
      }
    }
    for (int k = 0; k < N; ++k) store(q + k * D, squares[k] / double(size));
  }

  // q, and E[f] where the plan needs it, after a pointwise operation; `kept` holds both at every fork, `size` apart.
  void advance(const Op& op, double* q, double* mean, int64_t positions, double* kept, int64_t size) const {
    const int64_t n = positions * L;
    const size_t bytes = size_t(n) * sizeof(double);
    double* before = kept + 2 * op.slot * size;
    if (op.kind == OpKind::affine) {
      for (int lane = 0; lane < L; lane += D) {
        const Doubles bias = op.bias * sides().bias(lane);
        for (int64_t i = lane; i < n; i += L) store(q + i, op.weight * load(q + i) + bias);
      }
      if (plan.means) std::memset(mean, 0, bytes);
    } else if (op.kind == OpKind::dual) {
      with_dual<T>(op, [&](const auto& dual) {
        using Dual = std::decay_t<decltype(dual)>;
        if (op.changes) return change<Dual>(op, q, mean, positions);
        if (op.offset != 0) return raise<Dual>(op, q, mean, n);
        if (plan.means)
          for (int64_t i = 0; i < n; i += D) store(mean + i, Dual::mean(op, load(q + i)));
        if (op.dual == DualKind::standardised) return standardise(op, q, positions);
        for (int64_t i = 0; i < n; i += D) store(q + i, Dual::variance(op, load(q + i)));
      });
    } else if (op.kind == OpKind::fork) {
      std::memcpy(before, q, bytes);
      if (plan.means) std::memcpy(before + size, mean, bytes);
      if (plan.changes_units) std::memcpy(unit_of(op.slot, kept, size), group.units, L * sizeof(double));
    } else if (op.kind == OpKind::back) {
      std::memcpy(q, before, bytes);
      if (plan.means) std::memcpy(mean, before + size, bytes);
      if (plan.changes_units) std::memcpy(group.units, unit_of(op.slot, kept, size), L * sizeof(double));
    } else if (op.kind == OpKind::join && op.changes) {
      join_units(op, before, unit_of(op.slot, kept, size), q, mean, positions, size);
    } else if (op.kind == OpKind::join && op.concatenates) {
      for (int64_t i = 0; i < n; i += D) store(q + i, op.added_share * load(q + i) + op.kept_share * load(before + i));
      if (plan.means)
        for (int64_t i = 0; i < n; i += D) store(mean + i, op.added_share * load(mean + i) + op.kept_share * load(before + size + i));
    } else if (op.kind == OpKind::join) {
      for (int64_t i = 0; i < n; i += D) store(q + i, load(q + i) + load(before + i));
      if (plan.means) join_means(op, before + size, q, mean, positions);
    }
  }

  // The units of a field that is kept, which stand behind all of these.
  double* unit_of(int slot, double* kept, int64_t size) const { return kept + 2 * plan.slots * size + slot * L; }

  // Into the unit behind a nonlinearity.
  template <class Dual>
  void change(const Op& op, double* q, double* mean, int64_t positions) const {
    for (int lane = 0; lane < L; lane += D) {
      const Units both = sides().units(op, q, positions, lane);
      const Doubles share = both.before / both.after;
      const bool all = op.dual == DualKind::standardised;
      const Doubles factor = all ? sides().standard(op, q, positions, lane) * share : share;
      for (int64_t i = lane; i < positions * L; i += L) {
        const Doubles before = load(q + i);
        const Moments behind = raised<Dual>(op, both.before * both.before * before);
        store(q + i, all ? factor * factor * before : behind.variance / (both.after * both.after));
        if (plan.means) store(mean + i, all ? Doubles{} : behind.mean / both.after);
      }
      store(group.units + lane, both.after);
    }
    sides().put_unit(op.unit_at);
  }

  template <class Dual>
  void raise(const Op& op, double* q, double* mean, int64_t n) const {
    for (int64_t i = 0; i < n; i += D) {
      const Moments behind = raised<Dual>(op, load(q + i));
      store(q + i, behind.variance);
      if (plan.means) store(mean + i, behind.mean);
    }
  }

  // Fields in units of their own, one of them kept, into that of their sum.
  void join_units(const Op& op, const double* before, const double* kept_units, double* q, double* mean, int64_t positions, int64_t size) const {
    const bool sums = !op.concatenates, products = op.sides > kJoinedSides;
    const double first = sums ? 1 : op.kept_share, second = sums ? 1 : op.added_share;
    for (int lane = 0; lane < L; lane += D) {
      const Doubles one = load(kept_units + lane), other = load(group.units + lane), most = maximum(one, other);
      const auto at = [&](int64_t p, Doubles c, Doubles d, Doubles (&out)[kJoinedSides + 2]) {
        const int64_t i = p * L + lane;
        out[0] = c, out[1] = c * load(before + i), out[2] = d, out[3] = d * load(q + i);
        out[4] = plan.means ? c * load(before + size + i) : Doubles{}, out[5] = plan.means ? d * load(mean + i) : Doubles{};
        return first * c * out[1] + second * d * out[3] + (products ? 2 * out[4] * out[5] : Doubles{});
      };
      Doubles values[kJoinedSides + 2], sum{};
      for (int64_t p = 0; p < positions; ++p) sum += at(p, one / most, other / most, values);
      const Doubles square = most * most * (sum / double(positions)) + op.unit_bias;
      const Doubles unit = square > 0 ? square_root(square) : 1 - Doubles{};
      for (int64_t p = 0; p < positions; ++p) {
        const Doubles sum_of_both = at(p, one / unit, other / unit, values);
        sides().put_many(op.side_at + p * op.sides, lane, values, op.sides);
        store(q + p * L + lane, sum_of_both);
        if (plan.means) store(mean + p * L + lane, first * values[4] + second * values[5]);
      }
      store(group.units + lane, unit);
    }
    sides().put_unit(op.unit_at);
  }

  // E[(f+g)²] = E[f²] + E[g²] + 2 E[f] E[g] for independent f, g.
  void join_means(const Op& op, const double* before, double* q, double* mean, int64_t positions) const {
    for (int64_t p = 0; p < positions; ++p)
      for (int lane = 0; lane < L; lane += D) {
        const int64_t i = p * L + lane;
        const Doubles both[2] = {load(before + i), load(mean + i)};
        if (op.sides) {
          sides().put(op.side_at + 2 * p, lane, both);
          store(q + i, load(q + i) + 2 * both[0] * both[1]);
        }
        store(mean + i, both[0] + both[1]);
      }
  }

 private:
  void standardise(const Op& op, double* q, int64_t positions) const {
    for (int lane = 0; lane < L; lane += D) {
      const Doubles factor = sides().standard(op, q, positions, lane);
      for (int64_t p = 0; p < positions; ++p) store(q + p * L + lane, factor * factor * load(q + p * L + lane));
    }
  }
};

}  // namespace eqt::EQT_ISA
