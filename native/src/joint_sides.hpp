// Memory of fields over all pairs of positions, and what is known of each input alone.
#pragma once

#include <cmath>
#include <limits>

#include "joint.hpp"
#include "prepared_sides.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

// Fields over all pairs of positions, (p, p') in rows: of each pair a cell, D (or K) and Θ.
struct JointMemory {
  static constexpr int64_t L = kLanes<double>;
  double *fields, *variances, *means, *units, *listed;  // units: one a lane; listed: entries of A that are not zero
  int32_t *columns, *identity;
  int64_t cells, positions;  // of a field

  static int64_t bytes(const JointPlan& plan) { return JointMemory(plan, nullptr).end; }

  JointMemory(const JointPlan& plan, void* memory) : cells(plan.widest * plan.widest * 2 * L), positions(plan.widest * L) {
    char* at = static_cast<char*>(memory);
    const auto take = [&](int64_t size) {
      char* found = at;
      at += (size + 63) / 64 * 64;
      return found;
    };
    const auto doubles = [&](int64_t count) { return reinterpret_cast<double*>(take(count * int64_t(sizeof(double)))); };
    fields = doubles(plan.fields * cells);
    variances = doubles(plan.fields * positions);
    means = doubles(plan.fields * positions);
    units = doubles(plan.fields * L);
    listed = doubles(plan.most_entries * L);
    columns = reinterpret_cast<int32_t*>(take(plan.most_entries * int64_t(sizeof(int32_t))));
    identity = reinterpret_cast<int32_t*>(take(plan.widest * int64_t(sizeof(int32_t))));
    if (memory)
      for (int64_t p = 0; p < plan.widest; ++p) identity[p] = int32_t(p);
    end = at - static_cast<char*>(memory);
  }

  double* field(int number) const { return fields + number * cells; }

 private:
  int64_t end;
};

// Row p of A: its entries from number `begin` on, and their columns.
struct MixedRow {
  int64_t begin, size;
  const int32_t* columns;

  MixedRow(const JointStep& step, int64_t p, const JointMemory& memory)
      : begin(step.index ? step.index[p] : p * step.before), size(step.index ? step.index[p + 1] - begin : step.before),
        columns(step.index ? step.index + step.after + 1 + begin : memory.identity) {}
};

// What is known of each input alone: variances q, means m and masks through all steps, for as many inputs as a vector has
// lanes, and the sides made of them.
struct JointSides {
  static constexpr int L = kLanes<double>;
  const JointPlan& plan;
  const JointMemory& memory;
  double* lanes;  // (side_size, lanes)

  double* q(int field) const { return memory.variances + field * memory.positions; }
  double* mean(int field) const { return memory.means + field * memory.positions; }
  double* unit(int field) const { return memory.units + field * L; }
  Doubles there(int mask, int64_t p) const {
    return mask < 0 ? splat(1.0) : load(lanes + (plan.mask_at[mask] + p) * L);
  }
  void put(int64_t at, Doubles v) const { store(lanes + at * L, v); }

  // The inputs themselves: their signals by lanes, masks and graphs.
  void begin(const JointGroup& group) const {
    const int64_t size = plan.positions * plan.channels, pairs = plan.positions * plan.positions;
    for (int l = 0; l < L; ++l) {
      const bool is_real = l < group.count;
      for (int64_t i = 0; i < size; ++i) group.signals[i * L + l] = is_real ? group.inputs[l][i] : 0;
      for (int64_t p = 0; p < plan.positions && plan.masks; ++p)
        lanes[(plan.mask_at[0] + p) * L + l] = is_real && group.masks && group.masks[l][p];
      for (int64_t e = 0; e < pairs && plan.graph_at >= 0; ++e)
        lanes[(plan.graph_at + e) * L + l] = is_real && group.graphs ? group.graphs[l][e] : 0;
    }
    for (int64_t p = 0; p < plan.positions; ++p) {
      Doubles square{}, sum{};
      for (int c = 0; c < plan.channels; ++c) {
        const Doubles x = load(group.signals + (p * plan.channels + c) * L);
        square += x * x;
        sum += x;
      }
      store(q(0) + p * L, square / double(plan.channels));
      store(mean(0) + p * L, sum / double(plan.channels));
    }
    store(unit(0), splat(1.0));
  }

  // All but `mix` and `square`, whose variances follow from their fields: see `after_mix`.
  void advance(const JointStep& step) const {
    double *v = q(step.to), *m = mean(step.to);
    const int64_t n = step.before * L;
    if (step.kind == JointKind::copy || step.kind == JointKind::window || step.kind == JointKind::flatten)
      store(unit(step.to), load(unit(step.from)));
    switch (step.kind) {
      case JointKind::copy:
        std::memcpy(v, q(step.from), n * sizeof(double));
        std::memcpy(m, mean(step.from), n * sizeof(double));
        break;
      case JointKind::window: return window(step);
      case JointKind::affine: {
        const Doubles inverse = put_unit(step), bias = step.op.bias * inverse * inverse;
        for (int64_t i = 0; i < n; i += L) store(v + i, step.op.weight * load(v + i) + bias);
        vanish(m, step.before);
        finish(step);
        return put_each(step, 0.5, step.op.rated ? bias : Doubles{});
      }
      case JointKind::dual: return dual(step);
      case JointKind::decouple:
      case JointKind::distance: return put_each(step, 1);
      case JointKind::covariance: return put_each(step, 0.5);
      case JointKind::combine: return combine(step);
      case JointKind::normalise: return normalise(step);
      case JointKind::drop:
        for (int64_t p = 0; p < step.before; ++p) {
          const Doubles grown = (step.scale - 1) * load(v + p * L);
          put(step.side_at + p, grown);
          store(v + p * L, load(v + p * L) + grown);
        }
        break;
      case JointKind::flatten: return flatten(step);
      case JointKind::clear:
        for (int64_t p = 0; p < step.before; ++p) {
          put(step.side_at + 2 * p, there(step.mask_after, p));
          put(step.side_at + 2 * p + 1, load(v + p * L));
        }
        break;
      case JointKind::centres:
        for (int64_t p = 0; p < step.after; ++p) put(plan.mask_at[step.to] + p, there(step.from, step.index[p]));
        break;
      case JointKind::present:
        for (int64_t p = 0; p < step.after; ++p) put(plan.mask_at[step.to] + p, Doubles{});
        for (int64_t p = 0; p < step.before; ++p)
          if (step.index[p] >= 0) {
            const int64_t b = plan.mask_at[step.to] + step.index[p];
            put(b, maximum(load(lanes + b * L), there(step.from, p)));
          }
        break;
      case JointKind::mix:
      case JointKind::square: break;
    }
  }

  // The entries of A that each input has of its own; `cells` is the field of K of inputs with themselves.
  void weights(const JointStep& step, const double* cells) const {
    if (step.mixing == Mixing::given || step.mixing == Mixing::graph) return;
    for (int64_t p = 0; p < step.after; ++p) {
      const MixedRow row(step, p, memory);
      if (step.mixing == Mixing::mean || step.mixing == Mixing::sum) {
        Doubles count{};
        for (int64_t e = 0; e < row.size; ++e) count += there(step.mask_before, row.columns[e]);
        const Doubles share = step.mixing == Mixing::sum ? splat(1.0) : 1 / maximum(count, splat(1.0));
        for (int64_t e = 0; e < row.size; ++e)
          put(step.side_at + row.begin + e, share * there(step.mask_before, row.columns[e]));
        continue;
      }
      attention(step, cells + p * step.before * 2 * L, row);
    }
  }

  // Into the unit of fields behind `mix` or `square`: its third power where they are of the third power of those before.
  void change(const JointStep& step) const {
    const bool cubic = step.kind == JointKind::square || step.mixing > Mixing::softmax;
    if (!plan.changes_units) return;
    const Doubles t = load(unit(step.to));
    if (cubic) store(unit(step.to), t * t * t);
    put_unit(step);
  }

  // Variances are the diagonal of the new K; means are A m, or none.
  void after_mix(const JointStep& step, const double* cells) const {
    double *v = q(step.to), *m = mean(step.to), *old = mean(step.from);
    const int64_t n = step.after * L;
    for (int64_t p = 0; p < step.after; ++p) store(v + p * L, load(cells + p * (step.after + 1) * 2 * L));
    if (step.centred) {
      vanish(m, step.after);
      return finish(step);
    }
    for (int64_t p = 0; p < step.after; ++p) {
      const MixedRow row(step, p, memory);
      Doubles sum{};
      for (int64_t e = 0; e < row.size; ++e) {
        const int64_t at = row.begin + e;
        sum += (step.weights ? splat(step.weights[at]) : load(lanes + (step.side_at + at) * L)) * load(m + row.columns[e] * int64_t(L));
      }
      store(old + p * L, sum);
    }
    std::memcpy(m, old, n * sizeof(double));
    finish(step);
  }

  void end(int field) const {
    put(plan.side_end, 0.5 * load(q(field)));
    if (plan.changes_units) put(plan.side_end + 1, load(unit(field)));
  }

 private:
  // One over the unit of the field that a step changes, of which squares are numbers.
  Doubles put_unit(const JointStep& step) const {
    const Doubles inverse = minimum(1 / load(unit(step.to)), splat(1e150));
    if (step.unit_at >= 0) put(step.unit_at, inverse);
    return inverse;
  }

  static void vanish(double* m, int64_t positions) { std::memset(m, 0, size_t(positions) * L * sizeof(double)); }

  // Missing positions have no variance and no mean, whatever a step made of them.
  void finish(const JointStep& step) const {
    if (step.mask_after < 0) return;
    double *v = q(step.to), *m = mean(step.to);
    for (int64_t p = 0; p < step.after; ++p) {
      const auto kept = there(step.mask_after, p) > 0;
      store(v + p * L, kept ? load(v + p * L) : Doubles{});
      store(m + p * L, kept ? load(m + p * L) : Doubles{});
    }
  }

  void put_each(const JointStep& step, double factor, Doubles less = Doubles{}) const {
    for (int64_t p = 0; p < step.before; ++p) put(step.side_at + p, factor * (load(q(step.to) + p * L) - less));
  }

  void window(const JointStep& step) const {
    const double* in = q(step.from);
    for (int64_t p = 0; p < step.before; ++p) put(step.side_at + p, load(in + p * L));
    for (int64_t p = 0; p < step.after; ++p) {
      Doubles sum{};
      for (int s = 0; s < step.size; ++s) {
        const int32_t r = step.index[p * step.size + s];
        if (r >= 0) sum += step.weights[s] * load(in + int64_t(r) * L);
      }
      store(q(step.to) + p * L, sum);
    }
    vanish(mean(step.to), step.after);
    finish(step);
  }

  void dual(const JointStep& step) const {
    double *v = q(step.to), *m = mean(step.to);
    const Units both = units_around(step.op, v, step.before, L, load(unit(step.to)));
    for (int64_t p = 0; p < step.before; ++p) {
      const Doubles before = load(v + p * L), all = step.op.changes ? both.before * both.before * before : before;
      Doubles values[kMostSides];
      all_sides(step.op, v + p * L, 1, L, both, false, values);
      for (int i = 0; i < step.op.sides; ++i) put(step.side_at + p * step.op.sides + i, values[i]);
      const Moments behind = moments(step.op, all);
      store(v + p * L, step.op.changes ? behind.variance / (both.after * both.after) : behind.variance);
      store(m + p * L, step.op.changes ? behind.mean / both.after : behind.mean);
    }
    if (step.op.changes) store(unit(step.to), both.after);
    finish(step);
  }

  void combine(const JointStep& step) const {
    double *v = q(step.to), *m = mean(step.to);
    const double *w = q(step.from), *other = mean(step.from);
    if (step.joins_units) return join_units(step);
    for (int64_t p = 0; p < step.before; ++p) {
      const Doubles a = load(m + p * L), b = load(other + p * L);
      put(step.side_at + 2 * p, a);
      put(step.side_at + 2 * p + 1, b);
      Doubles sum = step.own * load(v + p * L), mean = step.own_mean * a;
      if (step.other != 0) sum += step.other * load(w + p * L), mean += step.other_mean * b;
      if (step.multiplies_means) sum += 2 * a * b;
      store(v + p * L, sum);
      store(m + p * L, mean);
    }
  }

  // Both fields into the unit of their sum: for each what `convert` needs, and both means.
  void join_units(const JointStep& step) const {
    double *v = q(step.to), *m = mean(step.to);
    const double *w = q(step.from), *other = mean(step.from);
    const Doubles one = load(unit(step.to)), two = load(unit(step.from)), most = maximum(one, two);
    const auto at = [&](int64_t p, Doubles c, Doubles d, Doubles (&out)[kJoinedSides + 2]) {
      out[0] = d, out[1] = d * load(w + p * L), out[2] = c, out[3] = c * load(v + p * L);
      out[4] = c * load(m + p * L), out[5] = d * load(other + p * L);
      return step.own * c * out[3] + step.other * d * out[1] + (step.multiplies_means ? 2 * out[4] * out[5] : Doubles{});
    };
    Doubles values[kJoinedSides + 2], sum{};
    for (int64_t p = 0; p < step.before; ++p) sum += at(p, one / most, two / most, values);
    const Doubles root = square_root(sum / double(step.before)), after = root > 0 ? most * root : splat(1.0);
    for (int64_t p = 0; p < step.before; ++p) {
      const Doubles total = at(p, one / after, two / after, values);
      for (int i = 0; i < kJoinedSides + 2; ++i) put(step.side_at + (kJoinedSides + 2) * p + i, values[i]);
      store(v + p * L, total);
      store(m + p * L, step.own_mean * values[4] + step.other_mean * values[5]);
    }
    store(unit(step.to), after);
  }

  void normalise(const JointStep& step) const {
    double *v = q(step.to), *m = mean(step.to);
    Doubles count{}, mean_of_all{}, square{};
    for (int64_t p = 0; p < step.before; ++p) {
      const Doubles here = there(step.mask_after, p);
      count += here;
      mean_of_all += here * load(m + p * L);
      square += here * load(v + p * L);
    }
    count = maximum(count, splat(1.0));
    mean_of_all /= count;
    const Doubles unit_before = minimum(1 / load(unit(step.to)), splat(1e150)), epsilon = step.epsilon * unit_before * unit_before;
    store(unit(step.to), splat(1.0));
    for (int64_t p = 0; p < step.before; ++p) {
      const Doubles before = load(v + p * L), own = load(m + p * L), mu = step.over_all ? mean_of_all : own;
      const Doubles variance = step.over_all ? square / count - mu * mu : before - own * own;
      const Doubles inverse = 1 / square_root(maximum(variance, Doubles{}) + epsilon);
      const Doubles after = (before - 2 * mu * own + mu * mu) * inverse * inverse;
      store(v + p * L, after);
      store(m + p * L, (own - mu) * inverse);
      const Doubles values[4] = {before, own, mu, inverse};
      for (int i = 0; i < 4; ++i) put(step.side_at + 5 * p + i, values[i]);
    }
    finish(step);
    for (int64_t p = 0; p < step.before; ++p) put(step.side_at + 5 * p + 4, load(v + p * L));
  }

  void flatten(const JointStep& step) const {
    const auto averaged = [&](const double* from, double* to) {
      Doubles sum{};
      for (int64_t p = 0; p < step.before; ++p) sum += load(from + p * L);
      store(to, sum / double(step.before));
    };
    averaged(q(step.from), q(step.to));
    averaged(mean(step.from), mean(step.to));
  }

  // One row of A from K: of softmax, or of a function of each logit.
  void attention(const JointStep& step, const double* cells, const MixedRow& row) const {
    double* entries = lanes + (step.side_at + row.begin) * L;
    for (int l = 0; l < L; ++l) {
      // Softmax reads K itself; the others are linear in it, so that fields behind them have the third power of the unit.
      const double own = step.mixing == Mixing::softmax ? unit(step.to)[l] : 1, sharpness = step.sharpness * own * own;
      const auto logit = [&](int64_t e) { return sharpness * cells[row.columns[e] * int64_t(2 * L) + l]; };
      const auto kept = [&](int64_t e) { return there(step.mask_before, row.columns[e])[l] > 0; };
      double most = -std::numeric_limits<double>::infinity(), total = 0;
      for (int64_t e = 0; e < row.size; ++e)
        if (kept(e) && logit(e) > most) most = logit(e);
      for (int64_t e = 0; e < row.size; ++e) {
        double value = logit(e);
        if (step.mixing == Mixing::softmax) value = kept(e) ? std::exp(value - most) : 0;
        if (step.mixing == Mixing::rectified) value = value < 0 ? 0 : value;
        if (step.mixing == Mixing::magnitude) value = std::abs(value);
        total += value;
        entries[e * L + l] = value;
      }
      if (step.mixing != Mixing::softmax || total == 0) continue;
      for (int64_t e = 0; e < row.size; ++e) entries[e * L + l] /= total;
    }
  }
};

}  // namespace eqt::EQT_ISA
