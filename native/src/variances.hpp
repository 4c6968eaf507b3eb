// Variances of as many inputs as a vector has lanes, through windows, pools and all other operations.
#pragma once

#include <cmath>

#include "pair_offset.hpp"
#include "box.hpp"
#include "pooling.hpp"
#include "prepared_sides.hpp"

namespace eqt::EQT_ISA {

// Means of variances over windows, on grids and by tables; for as many inputs as a vector of T has lanes.
template <class T>
struct WindowedVariances {
  static constexpr int L = kLanes<T>;
  static constexpr int D = kLanes<double>;

  static void table(const Op& op, const double* in, double* out, int64_t positions) {
    for (int64_t p = 0; p < positions; ++p) {
      double* to = out + p * L;
      if (op.total && p > 0) {
        std::memcpy(to, out, L * sizeof(double));
        continue;
      }
      for (int lane = 0; lane < L; lane += D) {
        Doubles sum{};
        for (int s = 0; s < op.weight_count; ++s)
          sum += op.weights[s] * load(in + int64_t(op.index[p * op.weight_count + s]) * L + lane);
        store(to + lane, sum);
      }
    }
  }

  // Mean over the window along one axis; reads outside the grid wrap, or count as zero.
  static void along(const Op& op, int axis, const double* in, double* out, const int* shape) {
    const int64_t outer = axis == 0 ? 1 : axis == 1 ? shape[0] : int64_t(shape[0]) * shape[1];
    const int64_t inner = (axis == 0 ? int64_t(shape[1]) * shape[2] : axis == 1 ? shape[2] : 1) * L;
    const int n = shape[axis], m = op.out[axis];
    const double scale = 1.0 / op.window[axis];
    for (int64_t o = 0; o < outer; ++o)
      for (int y = 0; y < m; ++y) {
        double* to = out + (o * m + y) * inner;
        for (int64_t i = 0; i < inner; i += D) store(to + i, Doubles{});
        for (int u = 0; u < op.window[axis]; ++u) {
          int x = op.stride[axis] * y - op.low[axis] + u;
          if (op.wrap) x = wrapped(x, n);
          if (x < 0 || x >= n) continue;
          const double* from = in + (o * n + x) * inner;
          for (int64_t i = 0; i < inner; i += D) store(to + i, load(to + i) + load(from + i));
        }
        for (int64_t i = 0; i < inner; i += D) store(to + i, scale * load(to + i));
      }
  }

  // The result of a box is in `a` again.
  static void box(const Op& op, double*& a, double*& b) {
    int shape[kAxes] = {op.in[0], op.in[1], op.in[2]};
    for (int axis = 0; axis < kAxes; ++axis) {
      if (op.window[axis] == 1 && op.stride[axis] == 1 && op.low[axis] == 0 && op.out[axis] == shape[axis]) continue;
      along(op, axis, a, b, shape);
      shape[axis] = op.out[axis];
      double* swap = a;
      a = b, b = swap;
    }
  }
};

// Variances and means of as many inputs as a vector has lanes, in `size` numbers each, as they go through the layers.
template <class T>
struct Carried {
  double *q, *other, *mean, *kept;
  int64_t size;
  void* workspace;  // for pair offsets
};

// Variances q(p) of the inputs, and means E[f] where the plan needs them, through the operations at each position: (positions,
// lanes) in double for as many inputs as a vector of T has lanes.
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
  [[gnu::noinline]] void advance(const Op& op, double* q, double* mean, int64_t positions, double* kept, int64_t size) const {
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
      if (op.changes) return change(op, q, mean, positions);
      Doubles* variances = reinterpret_cast<Doubles*>(q);
      moments(op, variances, n / D, variances, plan.means ? reinterpret_cast<Doubles*>(mean) : nullptr);
      for (int lane = 0; lane < L && op.dual == DualKind::standardised; lane += D) {
        const Doubles factor = sides().standard(op, q, positions, lane);
        for (int64_t i = lane; i < n; i += L) store(q + i, factor * factor * load(q + i));
      }
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
  [[gnu::cold]] void change(const Op& op, double* q, double* mean, int64_t positions) const {
    for (int lane = 0; lane < L; lane += D) {
      const Units both = sides().units(op, q, positions, lane);
      const Doubles share = both.before / both.after;
      const bool all = op.dual == DualKind::standardised;
      const Doubles factor = all ? sides().standard(op, q, positions, lane) * share : share;
      for (int64_t i = lane; i < positions * L; i += L) {
        const Doubles before = load(q + i);
        const Moments behind = moments(op, both.before * both.before * before);
        store(q + i, all ? factor * factor * before : behind.variance / (both.after * both.after));
        if (plan.means) store(mean + i, all ? Doubles{} : behind.mean / both.after);
      }
      store(group.units + lane, both.after);
    }
    sides().put_unit(op.unit_at);
  }

  // Fields in units of their own, one of them kept, into that of their sum.
  [[gnu::cold]] void join_units(const Op& op, const double* before, const double* kept_units, double* q, double* mean, int64_t positions, int64_t size) const {
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
};

// Variances of means over the windows of a pool between layers, for which every input is paired with itself.

// Of the window of block number p, the part of its positions that lie on the grid.
inline double part_on_grid(const Pooled& pooled, int64_t p) {
  if (!pooled.grid || pooled.wrap) return 1;
  double part = 1;
  for (int a = kAxes - 1; a >= 0; --a) {
    const int begin = pooled.stride[a] * int(p % pooled.out[a]) - pooled.low[a], end = begin + pooled.window[a];
    p /= pooled.out[a];
    const int on_grid = (end < pooled.in[a] ? end : pooled.in[a]) - (begin > 0 ? begin : 0);
    part *= double(on_grid) / pooled.window[a];
  }
  return part;
}

// Of blocks: variances of means, for which every input is paired with itself, and the means of means.
template <class T>
[[gnu::cold]] void pool_variances(const Plan& plan, const Group<T>& group, Carried<T>& at) {
  constexpr int L = kLanes<T>;
  const Pooled& pooled = *plan.pooled;
  const auto averaged = [&](double*& values, double*& spare) {
    if (pooled.grid) {
      Op box{};
      for (int a = 0; a < kAxes; ++a) {
        box.in[a] = pooled.in[a], box.out[a] = pooled.out[a], box.window[a] = pooled.window[a];
        box.stride[a] = pooled.stride[a], box.low[a] = pooled.low[a];
      }
      box.wrap = pooled.wrap;
      return WindowedVariances<T>::box(box, values, spare);
    }
    for (int64_t i = 0; i < pooled.out[2] * L; i += kLanes<double>) store(spare + i, Doubles{});
    const double share = std::sqrt(pooled.scale);
    for (int64_t p = 0; p < pooled.fine->positions_out; ++p)
      for (int l = 0; l < L && pooled.blocks[p] >= 0; ++l) spare[pooled.blocks[p] * L + l] += share * values[p * L + l];
    double* swap = values;
    values = spare, spare = swap;
  };
  averaged(at.q, at.other);
  if (plan.means) {
    double *values = at.mean, *spare = at.other;
    averaged(values, spare);
    if (values != at.mean) std::memcpy(at.mean, values, size_t(plan.levels[0].positions) * L * sizeof(double));
  }
  const Workspace<T> work(plan, at.workspace);
  Feed<T>(*pooled.own, work, group.signals, group.signals, group.lanes, group.lanes, true, nullptr).reach(*pooled.own, 0);
  const int64_t begin = pooled.own->pooled->begin;
  for (int64_t p = 0; p < plan.levels[0].positions; ++p) {
    const double part = part_on_grid(pooled, p);
    for (int l = 0; l < L; ++l) {
      const int64_t number = p * 2 * L + l;
      const double sum = pooled.narrow ? double(work.template sums<T>(begin)[number]) : work.template sums<double>(begin)[number];
      const double half = pooled.scale * sum / 2, before = at.q[p * L + l];
      const double q = part * before > half ? part * before - half : 0;
      at.q[p * L + l] = q;
      const T values[kPooledSides] = {T(half), T(half - double(T(half))), T(std::sqrt(q)), T(part), T(before)};
      for (int i = 0; i < kPooledSides; ++i) {
        const int64_t side = pooled.side_at + p * kPooledSides + i;
        if (group.rows) group.rows[l * plan.side_size + side] = values[i];
        group.lanes[side * L + l] = values[i];
      }
    }
  }
}

}  // namespace eqt::EQT_ISA
