// What depends on one input only: variances q(p) through all operations, in double, and the sides made of them.
#pragma once

#include <cmath>
#include <type_traits>

#include "pooling.hpp"

namespace eqt::EQT_ISA {

// Variances and means of as many inputs as a vector has lanes, in `size` numbers each, as they go through the layers.
template <class T>
struct Carried {
  double *q, *other, *mean, *kept;
  int64_t size;
  void* workspace;  // for fibres
};

// Variances of as many inputs as a vector of T has lanes, at all positions: (positions, lanes) in double.
template <class T>
struct Variances {
  static constexpr int L = kLanes<T>;
  static constexpr int D = kLanes<double>;
  const Plan& plan;
  const Group<T>& group;

  // K doubles for each lane at one place of the layouts.
  template <int K>
  EQT_INLINE void put(int64_t at, int lane, const Doubles (&values)[K]) const {
    for (int i = 0; i < K; ++i)
      for (int l = 0; l < D; ++l) {
        const T value = T(values[i][l]);
        if (group.rows) group.rows[(lane + l) * plan.side_size + at + i] = value;
        if (group.lanes) group.lanes[(at + i) * L + lane + l] = value;
      }
  }

  void put_each(int64_t at, double factor, const double* q, int64_t positions, double less = 0) const {
    for (int64_t p = 0; p < positions; ++p)
      for (int lane = 0; lane < L; lane += D) {
        const Doubles value[1] = {factor * (load(q + p * L + lane) - less)};
        put(at + p, lane, value);
      }
  }

  // The sides of `op`, whose variances before it are q, or after it for affine operations.
  void put_sides(const Op& op, const double* q, int64_t positions) const {
    if (op.sides == 0) return;
    if (op.kind == OpKind::affine) return put_each(op.side_at, 0.5, q, positions, op.total ? op.second : 0);
    if (op.kind == OpKind::join) return;  // they are means: see `join`
    if (op.kind != OpKind::dual) return put_each(op.side_at, 1, q, positions);
    if (op.dual == DualKind::standardised) return put_standardised(op, q, positions);
    with_dual<T>(op, [&](const auto& dual) {
      using Dual = std::decay_t<decltype(dual)>;
      for (int64_t p = 0; p < positions; ++p)
        for (int lane = 0; lane < L; lane += D) {
          Doubles values[Dual::kSides];
          dual.sides(load(q + p * L + lane), values);
          put(op.side_at + p * Dual::kSides, lane, values);
        }
    });
  }

  // 1/σ of the inputs in some lanes: σ² is the mean variance of all positions.
  static Doubles standard(const Op& op, const double* q, int64_t positions, int lane) {
    Doubles sum{};
    for (int64_t p = 0; p < positions; ++p) sum += load(q + p * L + lane);
    return 1 / square_root(sum / double(positions) + op.first);
  }

  void put_standardised(const Op& op, const double* q, int64_t positions) const {
    for (int lane = 0; lane < L; lane += D) {
      const Doubles factor = standard(op, q, positions, lane);
      for (int64_t p = 0; p < positions; ++p) {
        const Doubles values[2] = {factor, factor * load(q + p * L + lane)};
        put(op.side_at + 2 * p, lane, values);
      }
    }
  }

  static void standardise(const Op& op, double* q, int64_t positions) {
    for (int lane = 0; lane < L; lane += D) {
      const Doubles factor = standard(op, q, positions, lane);
      for (int64_t p = 0; p < positions; ++p) store(q + p * L + lane, factor * factor * load(q + p * L + lane));
    }
  }

  // q, and E[f] where the plan needs it, after a pointwise operation; `kept` holds both at every fork, `size` apart.
  void advance(const Op& op, double* q, double* mean, int64_t positions, double* kept, int64_t size) const {
    const int64_t n = positions * L;
    const size_t bytes = size_t(n) * sizeof(double);
    double* before = kept + 2 * op.slot * size;
    if (op.kind == OpKind::affine) {
      for (int64_t i = 0; i < n; i += D) store(q + i, op.first * load(q + i) + op.second);
      if (plan.means) std::memset(mean, 0, bytes);
    } else if (op.kind == OpKind::dual) {
      with_dual<T>(op, [&](const auto& dual) {
        using Dual = std::decay_t<decltype(dual)>;
        if (op.third != 0) return raise<Dual>(op, q, mean, n);
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
    } else if (op.kind == OpKind::join && op.total) {
      for (int64_t i = 0; i < n; i += D) store(q + i, op.second * load(q + i) + op.first * load(before + i));
      if (plan.means)
        for (int64_t i = 0; i < n; i += D) store(mean + i, op.second * load(mean + i) + op.first * load(before + size + i));
    } else if (op.kind == OpKind::join) {
      for (int64_t i = 0; i < n; i += D) store(q + i, load(q + i) + load(before + i));
      if (plan.means) join_means(op, before + size, q, mean, positions);
    }
  }

  // Of φ + c: E[(φ + c)²] = E[φ²] + c (2 E[φ] + c).
  template <class Dual>
  void raise(const Op& op, double* q, double* mean, int64_t n) const {
    for (int64_t i = 0; i < n; i += D) {
      const Doubles before = load(q + i), first = Dual::mean(op, before);
      store(q + i, Dual::variance(op, before) + op.third * (2 * first + op.third));
      if (plan.means) store(mean + i, first + op.third);
    }
  }

  // E[(f+g)²] = E[f²] + E[g²] + 2 E[f] E[g] for independent f, g.
  void join_means(const Op& op, const double* before, double* q, double* mean, int64_t positions) const {
    for (int64_t p = 0; p < positions; ++p)
      for (int lane = 0; lane < L; lane += D) {
        const int64_t i = p * L + lane;
        const Doubles both[2] = {load(before + i), load(mean + i)};
        if (op.sides) {
          put(op.side_at + 2 * p, lane, both);
          store(q + i, load(q + i) + 2 * both[0] * both[1]);
        }
        store(mean + i, both[0] + both[1]);
      }
  }

  void table(const Op& op, const double* in, double* out, int64_t positions) const {
    for (int64_t p = 0; p < positions; ++p) {
      double* to = out + p * L;
      if (op.total && p > 0) {
        std::memcpy(to, out, L * sizeof(double));
        continue;
      }
      for (int lane = 0; lane < L; lane += D) {
        Doubles sum{};
        for (int s = 0; s < op.window_size; ++s)
          sum += op.weights[s] * load(in + int64_t(op.index[p * op.window_size + s]) * L + lane);
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

  // Means over zonal windows, whose coefficients are kept for other rotations of the inputs; or over the sphere.
  void sphere_window(const Op& op, int64_t positions, const Carried<T>& at) const {
    if (op.kind == OpKind::average) {
      average(op, positions, at.q);
      if (plan.means) average(op, positions, at.mean);
      return;
    }
    const SphereMemory<T> memory = Workspace<T>(plan, at.workspace).sphere;
    const SphereTables<double> tables(*plan.sphere);
    const SphereTransform<double, kVectors<T, double>> transform(*plan.sphere, tables, static_cast<double*>(memory.scratch));
    double* coefficients = static_cast<double*>(memory.coefficients);
    transform.analyse(at.q, L, op.window_size, op.weights, coefficients);
    transform.synthesise(coefficients, op.window_size, at.q, L);
    if (!group.lanes) return;
    T* kept = group.lanes + op.side_at * L;
    for (int64_t i = 0; i < int64_t(op.window_size) * op.window_size * L; ++i) kept[i] = T(coefficients[i]);
  }

  static void average(const Op& op, int64_t positions, double* values) {
    for (int l = 0; l < L; ++l) {
      double sum = 0;
      for (int64_t p = 0; p < positions; ++p) sum += op.weights[p] * values[p * L + l];
      values[l] = sum;
    }
  }

  // Coefficients of the signals, whose points are in the group.
  void signals_on_sphere(void* workspace) const {
    if (!group.lanes) return;
    const Sphere& sphere = *plan.sphere;
    const SphereMemory<T> memory = Workspace<T>(plan, workspace).sphere;
    const SphereTables<T> tables(sphere, memory.tables, false);
    const SphereTransform<T, 1> transform(sphere, tables, static_cast<T*>(memory.scratch));
    const int64_t size = int64_t(sphere.bandlimit) * sphere.bandlimit;
    for (int64_t c = 0; c < plan.channels; ++c)
      transform.analyse(group.signals + c * L, plan.channels * L, sphere.bandlimit, nullptr,
                        group.lanes + (sphere.side_at + c * size) * L);
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

  void signals(double* q, double* mean) const {
    const int64_t size = plan.positions_in * plan.channels;
    for (int64_t i = 0; i < plan.positions_in * L; i += D) {
      store(q + i, Doubles{});
      if (plan.means) store(mean + i, Doubles{});
    }
    for (int l = 0; l < L; ++l) {
      const T* x = l < group.count ? group.inputs[l] : nullptr;
      for (int64_t i = 0; i < size; ++i) {
        const T value = x ? x[i] : T(0);
        if (group.signals) group.signals[i * L + l] = value;
        q[i / plan.channels * L + l] += double(value) * double(value) / plan.channels;
        if (plan.means) mean[i / plan.channels * L + l] += double(value) / plan.channels;
      }
    }
  }
};

inline int64_t largest_level(const Plan& plan) {
  int64_t largest = plan.pooled ? largest_level(*plan.pooled->fine) : plan.cells;
  for (int i = 0; i <= plan.field_count; ++i)
    if (plan.levels[i].positions > largest) largest = plan.levels[i].positions;
  return largest;
}

// Doubles that prepare_field needs: two fields of variances, one of means, and those kept for residual sums. Boxes along
// one axis after another never exceed `cells`. Where layers pool, and on the
// sphere, the workspace for fibres comes after them.
template <class T>
int64_t prepare_bytes(const Plan& plan) {
  const int64_t fields = (2 + plan.means + 2 * plan.slots) * largest_level(plan) * kLanes<T> * int64_t(sizeof(double));
  return Workspace<T>::align(fields) + (plan.pooled || plan.sphere ? Workspace<T>::bytes(plan) : 0);
}

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
void pool_variances(const Plan& plan, const Group<T>& group, Carried<T>& at) {
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
      return Variances<T>::box(box, values, spare);
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
  Feed<T, true>(*pooled.own, work, group.signals, group.signals, group.lanes, group.lanes, nullptr).reach(*pooled.own, 0);
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

// Through all stages up to the end of `plan`.
template <class T>
void carry_variances(const Plan& plan, const Group<T>& group, Carried<T>& at) {
  constexpr int L = kLanes<T>;
  const Variances<T> of{plan, group};
  if (plan.pooled) {
    carry_variances(*plan.pooled->fine, group, at);
    pool_variances(plan, group, at);
  } else {
    of.signals(at.q, at.mean);
    if (plan.sphere) of.signals_on_sphere(at.workspace);
  }
  for (int i = 0; i < plan.field_count; ++i) {
    const Op& op = plan.field[i];
    const int64_t positions = plan.levels[i].positions;
    if (op.kind != OpKind::affine) of.put_sides(op, at.q, positions);
    if (op.kind == OpKind::box) {
      Variances<T>::box(op, at.q, at.other);
    } else if (on_sphere(op)) {
      of.sphere_window(op, positions, at);
    } else if (op.kind == OpKind::table) {
      of.table(op, at.q, at.other, plan.levels[i + 1].positions);
      double* swap = at.q;
      at.q = at.other, at.other = swap;
    } else {
      of.advance(op, at.q, at.mean, spatial(op) ? plan.levels[i + 1].positions : positions, at.kept, at.size);
    }
    if (plan.means && windowed(op) && op.kind != OpKind::average) std::memset(at.mean, 0, size_t(plan.levels[i + 1].positions) * L * sizeof(double));
    if (op.kind == OpKind::affine) of.put_sides(op, at.q, positions);
  }
}

template <class T>
void prepare_field(const Plan& plan, const Group<T>& group, void* workspace) {
  constexpr int L = kLanes<T>;
  const Variances<T> of{plan, group};
  const int64_t size = largest_level(plan) * L;
  double* fields = static_cast<double*>(workspace);
  double* mean = fields + 2 * size;
  double* kept = mean + (plan.means ? size : 0);
  const bool fibres = plan.pooled || plan.sphere;
  void* rest = static_cast<char*>(workspace) + prepare_bytes<T>(plan) - (fibres ? Workspace<T>::bytes(plan) : 0);
  Carried<T> at{fields, fields + size, mean, kept, size, rest};
  carry_variances(plan, group, at);
  const double* q = at.q;
  if (plan.side_last >= 0) of.put_each(plan.side_last, 0.5, q, plan.positions_out);
  for (int l = 0; l < L; ++l) {
    double sum = 0, diagonal = 0, total_mean = 0;
    int64_t count = 0;
    for (int64_t p = 0; p < plan.positions_out; ++p) {
      sum += q[p * L + l];
      if (plan.labels[p] < 0) continue;
      diagonal += q[p * L + l];
      if (plan.means) total_mean += mean[p * L + l];
      ++count;
    }
    group.variance_sum[l] = sum / 2;
    group.variance[l] = diagonal / double(count);
    group.mean[l] = total_mean / double(count);
  }
}

// From the variances after the readout, which are in the group, the sides of the operations on vectors.
template <class T>
void prepare_vector(const Plan& plan, const Group<T>& group) {
  constexpr int L = kLanes<T>;
  const Variances<T> of{plan, group};
  alignas(64) double q[L], mean[L], kept[2 * kDepth * L];
  std::memcpy(q, group.variance, sizeof q);
  std::memcpy(mean, group.mean, sizeof mean);
  for (int o = 0; o < plan.vector_count; ++o) {
    const Op& op = plan.vector[o];
    if (op.kind != OpKind::affine) of.put_sides(op, q, 1);
    of.advance(op, q, mean, 1, kept, L);
    if (op.kind == OpKind::affine) of.put_sides(op, q, 1);
  }
  of.put_each(plan.side_vector, 0.5, q, 1);
}

}  // namespace eqt::EQT_ISA
