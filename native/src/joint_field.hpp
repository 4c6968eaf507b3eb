// All steps on the fields of one first input with a vector of second ones, or (`own`) of a vector of inputs with themselves.
#pragma once

#include <limits>

#include "branch.hpp"
#include "joint_sides.hpp"

namespace eqt::EQT_ISA {

// Operations at single pairs of positions, on one row of a field over all pairs: one first position with all second ones.

inline void covariance_row(double* cells, int64_t n, const Sides<double>& halves) {
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<double>) {
    Doubles x[1], y[1];
    halves.get(k, x, y);
    store(cells, x[0] + y[0] - 0.5 * load(cells));
  }
}

// D of K; what rounding alone can have left of it counts as zero, which keeps equal inputs exact.
EQT_INLINE Doubles distance_of(Doubles k, Doubles q1, Doubles q2) {
  const Doubles total = q1 + q2, d = total - 2 * k;
  return d <= 16 * std::numeric_limits<double>::epsilon() * total ? Doubles{} : d;
}

inline void distance_row(double* cells, int64_t n, const Sides<double>& variances) {
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<double>) {
    Doubles x[1], y[1];
    variances.get(k, x, y);
    store(cells, distance_of(load(cells), x[0], y[0]));
  }
}

// K' = (K - μ m' - m μ' + μ μ')/(σ σ'), Θ' = Θ/(σ σ'); the sides are q, m, μ, 1/σ, and q after it.
inline void normalise_row(double* cells, int64_t n, const Sides<double>& sides) {
  constexpr int L = kLanes<double>;
  for (int64_t i = 0; i < n; ++i, cells += 2 * L) {
    Doubles x[5], y[5];
    sides.get(i, x, y);
    const Doubles k = 0.5 * (x[0] + y[0] - load(cells)), scale = x[3] * y[3];
    store(cells, distance_of((k - x[2] * y[1] - x[1] * y[2] + x[2] * y[2]) * scale, x[4], y[4]));
    store(cells + L, scale * load(cells + L));
  }
}

// K = Θ = 0 where a mask leaves no position; the sides are 1 or 0, and q.
inline void clear_row(double* cells, int64_t n, const Sides<double>& sides) {
  constexpr int L = kLanes<double>;
  for (int64_t k = 0; k < n; ++k, cells += 2 * L) {
    Doubles x[2], y[2];
    sides.get(k, x, y);
    const auto there = x[0] * y[0] > 0;
    store(cells, there ? load(cells) : x[1] + y[1]);
    store(cells + L, there ? load(cells + L) : Doubles{});
  }
}

// s f + t g of independent fields f, whose cells change, and g; the means of both add a term where they are multiplied.
inline void combine_row(const JointStep& step, const double* other, double* cells, int64_t n, const Sides<double>& means) {
  constexpr int L = kLanes<double>;
  for (int64_t k = 0; k < n; ++k, cells += 2 * L, other += 2 * L) {
    Doubles d = step.own * load(cells), theta = step.own * load(cells + L);
    if (step.other != 0) {
      d += step.other * load(other);
      theta += step.other * load(other + L);
    }
    if (step.multiplies_means) {
      Doubles x[2], y[2];
      means.get(k, x, y);
      d += 2 * (x[0] - y[0]) * (x[1] - y[1]);
    }
    store(cells, d);
    store(cells + L, theta);
  }
}

// K' = A K A'ᵀ and Θ' = A Θ A'ᵀ: one product after the other, of the entries that are not zero; or, where all entries are
// there, in blocks that keep sums in registers.

// One row of A: its entries by lanes (`Lanes`: every input of the vector has its own) or one for all.
template <bool Lanes>
struct MixingRow {
  static constexpr int L = kLanes<double>;
  const double* entries;
  const int32_t* columns;
  int64_t size;

  Doubles entry(int64_t e) const {
    if constexpr (Lanes) return load(entries + e * L);
    else return splat(entries[e]);
  }

  // Those that are not zero, or not numbers, listed in `memory`.
  int list(const JointMemory& memory) const {
    int count = 0;
    for (int64_t e = 0; e < size; ++e) {
      const Doubles v = entry(e);
      bool zero = true;
      for (int l = 0; l < (Lanes ? L : 1); ++l) zero = zero && v[l] == 0;
      if (zero) continue;
      store(memory.listed + count * L, v);
      memory.columns[count++] = columns[e];
    }
    return count;
  }
};

// `N` cells, `step` numbers apart: the sums of listed entries times cells whose column lies `jump` numbers from the next.
template <int N>
EQT_INLINE void listed_sum(const JointMemory& memory, int count, const double* cells, int64_t step, int64_t jump, Doubles (&k)[N],
                           Doubles (&theta)[N]) {
  constexpr int L = kLanes<double>;
  for (int i = 0; i < N; ++i) k[i] = theta[i] = Doubles{};
  for (int e = 0; e < count; ++e) {
    const Doubles w = load(memory.listed + e * L);
    const double* cell = cells + memory.columns[e] * jump;
    for (int i = 0; i < N; ++i, cell += step) {
      k[i] += w * load(cell);
      theta[i] += w * load(cell + L);
    }
  }
}

// Products of rows of A without zeros with cells, four rows at a time.
template <bool Lanes>
struct FullProduct {
  static constexpr int L = kLanes<double>, kRows = 4, kCells = EQT_BYTES == 64 ? 2 : 1;
  const double* entries;  // (rows, size), by lanes or one for all
  int64_t rows, size;
  const double* cells;
  int64_t step, jump;  // numbers between cells that are added, and between those that are not
  int64_t count;       // of sums for each row

  // Calls put(i, j, K, Θ) with the sums of row i and cell j.
  template <class F>
  void each(F&& put) const {
    int64_t i = 0;
    for (; i + kRows <= rows; i += kRows) along<kRows>(i, put);
    for (; i < rows; ++i) along<1>(i, put);
  }

 private:
  template <int R, class F>
  void along(int64_t i, F&& put) const {
    int64_t j = 0;
    for (; j + kCells <= count; j += kCells) block<R, kCells>(i, j, put);
    for (; j < count; ++j) block<R, 1>(i, j, put);
  }

  template <int R, int C, class F>
  EQT_INLINE void block(int64_t i, int64_t j, F&& put) const {
    Doubles k[R][C]{}, theta[R][C]{};
    const double *row = entries + i * size * (Lanes ? L : 1), *cell = cells + j * jump;
    for (int64_t e = 0; e < size; ++e, cell += step)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        Doubles w;
        if constexpr (Lanes) w = load(row + (r * size + e) * L);
        else w = splat(row[r * size + e]);
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) {
          k[r][c] += w * load(cell + c * jump);
          theta[r][c] += w * load(cell + c * jump + L);
        }
      }
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) put(i + r, j + c, k[r][c], theta[r][c]);
  }
};

// half(p, b) = Σ_a A(p, a) of cells (a, b), for one p.
inline void mix_first(const JointMemory& memory, int count, const double* cells, int64_t width, double* half) {
  constexpr int L = kLanes<double>;
  const auto put = [&](int64_t b, auto&& k, auto&& theta, int n) {
    for (int i = 0; i < n; ++i) {
      store(half + (b + i) * 2 * L, k[i]);
      store(half + (b + i) * 2 * L + L, theta[i]);
    }
  };
  int64_t b = 0;
  for (; b + 4 <= width; b += 4) {
    Doubles k[4], theta[4];
    listed_sum(memory, count, cells + b * 2 * L, 2 * L, width * 2 * L, k, theta);
    put(b, k, theta, 4);
  }
  for (; b < width; ++b) {
    Doubles k[1], theta[1];
    listed_sum(memory, count, cells + b * 2 * L, 2 * L, width * 2 * L, k, theta);
    put(b, k, theta, 1);
  }
}

// Calls put(p, K, Θ) for all p < rows, with Σ_b A'(p', b) half(p, b) for one p'.
template <class F>
void mix_second(const JointMemory& memory, int count, const double* half, int64_t rows, int64_t width, F&& put) {
  constexpr int L = kLanes<double>;
  int64_t p = 0;
  for (; p + 4 <= rows; p += 4) {
    Doubles k[4], theta[4];
    listed_sum(memory, count, half + p * width * 2 * L, width * 2 * L, 2 * L, k, theta);
    for (int i = 0; i < 4; ++i) put(p + i, k[i], theta[i]);
  }
  for (; p < rows; ++p) {
    Doubles k[1], theta[1];
    listed_sum(memory, count, half + p * width * 2 * L, width * 2 * L, 2 * L, k, theta);
    put(p, k[0], theta[0]);
  }
}

// Whether a step acts on each pair of positions alone, in place.
inline bool in_rows(const JointStep& step) {
  switch (step.kind) {
    case JointKind::affine:
    case JointKind::dual:
    case JointKind::decouple:
    case JointKind::combine:
    case JointKind::normalise:
    case JointKind::covariance:
    case JointKind::distance:
    case JointKind::drop:
    case JointKind::clear: return true;
    default: return false;
  }
}

struct JointField {
  static constexpr int L = kLanes<double>, kCell = 2 * L;
  const JointPlan& plan;
  const JointMemory& memory;
  const double *x1, *x2;
  const double *sides1, *sides2;
  int same;  // the lane whose second input is the first one; -1: none
  bool own;
  const int step_of_first = own ? L : 1;  // numbers between the sides of first inputs

  Sides<double> sides(int64_t at, int count, int64_t p) const {
    return {sides1 + (at + p * count) * step_of_first, 0, sides2 + at * L, int64_t(count) * L, memory.identity, own};
  }
  Doubles first(int64_t at) const { return own ? load(sides1 + at * L) : splat(sides1[at]); }

  // The units at a step, one over which is number `at`; -1: fields are as they are.
  SameUnits<double> units(int64_t at) const {
    return at < 0 ? SameUnits<double>{{splat(1.0), splat(1.0)}} : SameUnits<double>{{first(at), load(sides2 + at * L)}};
  }

  // D(p, p') = mean over channels of (f1(p) - f2(p'))², Θ = 0; four second positions at a time.
  void start() const {
    const int64_t n = plan.positions;
    for (int64_t p = 0; p < n; ++p) {
      double* cells = memory.field(0) + p * n * kCell;
      int64_t r = 0;
      for (; r + 4 <= n; r += 4) own ? start_of<4, true>(p, r, cells + r * kCell) : start_of<4, false>(p, r, cells + r * kCell);
      for (; r < n; ++r) own ? start_of<1, true>(p, r, cells + r * kCell) : start_of<1, false>(p, r, cells + r * kCell);
    }
  }

  template <int N, bool Own>
  void start_of(int64_t p, int64_t r, double* cells) const {
    const int c = plan.channels;
    const double *a = x1 + p * c * step_of_first, *b = x2 + r * c * L;
    Doubles sum[N]{};
    for (int i = 0; i < c; ++i) {
      const Doubles f = Own ? load(a + i * L) : splat(a[i]);
      for (int k = 0; k < N; ++k) {
        const Doubles gap = f - load(b + (int64_t(k) * c + i) * L);
        sum[k] += gap * gap;
      }
    }
    for (int k = 0; k < N; ++k) {
      store(cells + k * kCell, sum[k] * (1.0 / c));
      store(cells + k * kCell + L, Doubles{});
    }
  }

  // Steps from number s on that act in rows of one field, row by row: the number of the first that does not.
  int rows(int s) const {
    const JointStep& begin = plan.steps[s];
    int end = s + 1;
    while (end < plan.step_count && in_rows(plan.steps[end]) && plan.steps[end].to == begin.to) ++end;
    const int64_t n = begin.before;
    for (int64_t p = 0; p < n; ++p) {
      double* cells = memory.field(begin.to) + p * n * kCell;
      for (int i = is_cleared(plan.steps[end - 1], p) ? end - 1 : s; i < end; ++i) {
        const JointStep& step = plan.steps[i];
        const JointStep* next = i + 1 < end ? &plan.steps[i + 1] : nullptr;
        const bool bends = next && next->kind == JointKind::dual && next->op.dual == DualKind::piecewise_linear && !next->op.changes;
        if (step.kind == JointKind::affine && !step.op.rated && bends) {
          const PiecewiseLinear<double> dual(next->op);
          const auto of = sides(next->side_at, 2, p);
          if (plan.changes_units) fused<double, 2>(step.op, dual, 1.0, cells, 1, 1, cells, n, of, units(step.unit_at));
          else fused<double, 2>(step.op, dual, 1.0, cells, 1, 1, cells, n, of, NoUnits<double>{});
          ++i;
        } else {
          row(step, p, cells, n);
        }
      }
    }
    return end;
  }

  // Whether a step leaves nothing of a row, since its position is missing.
  bool is_cleared(const JointStep& step, int64_t p) const {
    return !own && step.kind == JointKind::clear && sides1[(step.side_at + 2 * p) * step_of_first] == 0;
  }

  void row(const JointStep& step, int64_t p, double* cells, int64_t n) const {
    switch (step.kind) {
      case JointKind::affine:
        if (plan.changes_units) return affine_row(step.op, cells, n, sides(step.side_at, 1, p), units(step.unit_at));
        return affine_row(step.op, cells, n, sides(step.side_at, 1, p), NoUnits<double>{});
      case JointKind::dual:
        return dual_row(step.op, cells, n, sides(step.side_at, step.op.sides, p));
      case JointKind::decouple: return decouple(step, p, cells, n);
      case JointKind::combine: {
        const double* other = memory.field(step.from) + p * n * kCell;
        const auto units = sides(step.side_at, kJoinedSides + 2, p);
        if (step.joins_units && step.multiplies_means) return join_units<double, kJoinedSides + 2>(step.other, step.own, other, cells, n, units);
        if (step.joins_units) return join_units<double, kJoinedSides>(step.other, step.own, other, cells, n, units);
        return combine_row(step, other, cells, n, sides(step.side_at, 2, p));
      }
      case JointKind::normalise: return normalise_row(cells, n, sides(step.side_at, 5, p));
      case JointKind::covariance: return covariance_row(cells, n, sides(step.side_at, 1, p));
      case JointKind::distance: return distance_row(cells, n, sides(step.side_at, 1, p));
      case JointKind::drop: return drop(step, p, cells, n);
      case JointKind::clear: return clear_row(cells, n, sides(step.side_at, 2, p));
      default: return;
    }
  }

  void decouple(const JointStep& step, int64_t p, double* cells, int64_t n) const {
    Sides<double> of = sides(step.side_at, 1, p);
    decouple_row(cells, p, of);
    of.second += (p + 1) * L;
    decouple_row(cells + (p + 1) * kCell, n - p - 1, of);
  }

  // A position's draw is independent of all others, but for an input with itself; the sides are what variances grow by.
  void drop(const JointStep& step, int64_t p, double* cells, int64_t n) const {
    const Sides<double> of = sides(step.side_at, 1, p);
    for (int64_t k = 0; k < n; ++k) {
      Doubles x[1], y[1];
      of.get(k, x, y);
      store(cells + k * kCell, load(cells + k * kCell) + x[0] + y[0]);
    }
    double* itself = cells + p * kCell;
    for (int l = own ? 0 : same; l >= 0 && l < (own ? L : same + 1); ++l) {
      itself[l] = 0;
      itself[L + l] = itself[L + l] * step.scale;
    }
  }

  // Both positions move along the window together; where one read falls outside, K = 0 and D is the other's variance.
  void window(const JointStep& step) const {
    const int64_t n = step.before, m = step.after;
    const double* in = memory.field(step.from);
    double* out = memory.field(step.to);
    for (int64_t p = 0; p < m; ++p)
      for (int64_t r = 0; r < m; ++r, out += kCell) {
        Doubles d{}, theta{};
        for (int s = 0; s < step.size; ++s) {
          const int32_t a = step.index[p * step.size + s], b = step.index[r * step.size + s];
          const double w = step.weights[s];
          if (a >= 0 && b >= 0) {
            const double* cell = in + (a * n + b) * kCell;
            d += w * load(cell);
            theta += w * load(cell + L);
          } else if (a >= 0) {
            d += w * first(step.side_at + a);
          } else if (b >= 0) {
            d += w * load(sides2 + (step.side_at + b) * L);
          }
        }
        store(out, d);
        store(out + L, theta);
      }
  }

  // K and Θ; the spare field holds what the first product makes of them.
  void mix(const JointStep& step) const {
    const double s = step.scale, t = step.growth;
    const Doubles b = step.bias * units(step.unit_at).biases.product;
    const int64_t m = step.after;
    double* cells = memory.field(step.to);
    const auto put = [&](int64_t r, int64_t p, Doubles k, Doubles theta) {
      double* cell = cells + (p * m + r) * kCell;
      store(cell, s * k + b);
      store(cell + L, s * (theta + t * k) + b);
    };
    if (step.mixing >= Mixing::softmax) mix_full(step, put);
    else mix_listed(step, put);
  }

  template <class F>
  void mix_full(const JointStep& step, F&& put) const {
    const int64_t n = step.before;
    double* half = memory.field(step.from);
    const double *of_first = sides1 + step.side_at * step_of_first, *of_second = sides2 + step.side_at * L;
    const auto put_half = [&](int64_t p, int64_t column, Doubles k, Doubles theta) {
      store(half + (p * n + column) * kCell, k);
      store(half + (p * n + column) * kCell + L, theta);
    };
    if (own) FullProduct<true>{of_first, n, n, memory.field(step.to), n * kCell, kCell, n}.each(put_half);
    else FullProduct<false>{of_first, n, n, memory.field(step.to), n * kCell, kCell, n}.each(put_half);
    FullProduct<true>{of_second, n, n, half, kCell, n * kCell, n}.each(put);
  }

  template <class F>
  void mix_listed(const JointStep& step, F&& put) const {
    const int64_t n = step.before, m = step.after;
    double* half = memory.field(step.from);
    const bool given = step.mixing == Mixing::given;
    const auto listed = [&](int64_t p, auto&& of_input) {
      const MixedRow row(step, p, memory);
      if (given) return MixingRow<false>{step.weights + row.begin, row.columns, row.size}.list(memory);
      return of_input(step.side_at + row.begin, row.columns, row.size);
    };
    for (int64_t p = 0; p < m; ++p) {
      const int count = listed(p, [&](int64_t at, const int32_t* of, int64_t size) {
        const double* entries = sides1 + at * step_of_first;
        return own ? MixingRow<true>{entries, of, size}.list(memory) : MixingRow<false>{entries, of, size}.list(memory);
      });
      mix_first(memory, count, memory.field(step.to), n, half + p * n * kCell);
    }
    for (int64_t r = 0; r < m; ++r) {
      const int count = listed(r, [&](int64_t at, const int32_t* of, int64_t size) {
        return MixingRow<true>{sides2 + at * L, of, size}.list(memory);
      });
      mix_second(memory, count, half, m, n, [&](int64_t p, Doubles k, Doubles theta) { put(r, p, k, theta); });
    }
  }

  // K' = s K Σ K² + b and Θ' = s (4 K Σ K² + Θ Σ K² + 2 K Σ KΘ) + b, with sums over all pairs of positions.
  void square(const JointStep& step) const {
    const int64_t cells = step.before * step.before * kCell;
    double* of = memory.field(step.to);
    Doubles squares{}, products{};
    for (int64_t i = 0; i < cells; i += kCell) {
      const Doubles k = load(of + i);
      squares += k * k;
      products += k * load(of + i + L);
    }
    const double s = step.scale;
    const Doubles b = step.bias * units(step.unit_at).biases.product;
    for (int64_t i = 0; i < cells; i += kCell) {
      const Doubles k = load(of + i), theta = load(of + i + L);
      store(of + i, s * (k * squares) + b);
      store(of + i + L, s * (4 * k * squares + theta * squares + 2 * k * products) + b);
    }
  }

  // Positions become channels, so that only equal ones meet.
  void flatten(const JointStep& step) const {
    const double* in = memory.field(step.from);
    Doubles d{}, theta{};
    for (int64_t p = 0; p < step.before; ++p, in += (step.before + 1) * kCell) {
      d += load(in);
      theta += load(in + L);
    }
    double* out = memory.field(step.to);
    store(out, d / double(step.before));
    store(out + L, theta / double(step.before));
  }

  // A step that does not act in rows.
  void at_once(const JointStep& step) const {
    switch (step.kind) {
      case JointKind::copy:
        std::memcpy(memory.field(step.to), memory.field(step.from), size_t(step.before * step.before) * kCell * sizeof(double));
        break;
      case JointKind::window: return window(step);
      case JointKind::mix: return mix(step);
      case JointKind::square: return square(step);
      case JointKind::flatten: return flatten(step);
      default: break;
    }
  }

  void result(double* k, double* theta) const {
    const double* end = memory.field(plan.step_count ? plan.steps[plan.step_count - 1].to : 0);
    const int64_t at = plan.side_end;
    const Doubles unit = plan.changes_units ? first(at + 1) * load(sides2 + (at + 1) * L) : splat(1.0);
    store(k, unit * (first(at) + load(sides2 + at * L) - 0.5 * load(end)));
    store(theta, unit * load(end + L));
  }
};

}  // namespace eqt::EQT_ISA
