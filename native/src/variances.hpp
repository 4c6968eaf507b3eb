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
      for (int l = 0; l < group.count; ++l) std::memcpy(&square[l], group.inputs[l] + c, size_t(n) * sizeof(T));
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
        if (op.changes) return change<Dual>(op, q, positions);
        if (op.offset != 0) return raise<Dual>(op, q, mean, n);
        if (plan.means)
          for (int64_t i = 0; i < n; i += D) store(mean + i, Dual::mean(op, load(q + i)));
        if (op.dual == DualKind::standardised) return standardise(op, q, positions);
        for (int64_t i = 0; i < n; i += D) store(q + i, Dual::variance(op, load(q + i)));
      });
    } else if (op.kind == OpKind::fork) {
      std::memcpy(before, q, bytes);
      if (plan.means) std::memcpy(before + size, mean, bytes);
    } else if (op.kind == OpKind::back) {
      std::memcpy(q, before, bytes);
      if (plan.means) std::memcpy(mean, before + size, bytes);
    } else if (op.kind == OpKind::join && op.concatenates) {
      for (int64_t i = 0; i < n; i += D) store(q + i, op.added_share * load(q + i) + op.kept_share * load(before + i));
      if (plan.means)
        for (int64_t i = 0; i < n; i += D) store(mean + i, op.added_share * load(mean + i) + op.kept_share * load(before + size + i));
    } else if (op.kind == OpKind::join) {
      for (int64_t i = 0; i < n; i += D) store(q + i, load(q + i) + load(before + i));
      if (plan.means) join_means(op, before + size, q, mean, positions);
    }
  }

  // Into the unit behind a nonlinearity.
  template <class Dual>
  void change(const Op& op, double* q, int64_t positions) const {
    for (int lane = 0; lane < L; lane += D) {
      const Units both = sides().units(op, q, positions, lane);
      const Doubles share = both.before / both.after;
      const bool all = op.dual == DualKind::standardised;
      const Doubles factor = all ? sides().standard(op, q, positions, lane) * share : share;
      for (int64_t i = lane; i < positions * L; i += L) {
        const Doubles before = load(q + i);
        if (all) store(q + i, factor * factor * before);
        else store(q + i, Dual::variance(op, both.before * both.before * before) / (both.after * both.after));
      }
      store(group.units + lane, both.after);
    }
    sides().put_unit(op.unit_at);
  }

  // Of φ + c: E[(φ + c)²] = E[φ²] + c (2 E[φ] + c).
  template <class Dual>
  void raise(const Op& op, double* q, double* mean, int64_t n) const {
    for (int64_t i = 0; i < n; i += D) {
      const Doubles before = load(q + i), first = Dual::mean(op, before);
      store(q + i, Dual::variance(op, before) + op.offset * (2 * first + op.offset));
      if (plan.means) store(mean + i, first + op.offset);
    }
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
