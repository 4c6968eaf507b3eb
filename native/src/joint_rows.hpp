// Operations at single pairs of positions, on one row of a field over all pairs: one first position with all second ones.
#pragma once

#include <limits>

#include "joint_memory.hpp"
#include "branch.hpp"

namespace eqt::EQT_ISA {

template <class S>
void covariance_row(double* cells, int64_t n, const S& halves) {
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

template <class S>
void distance_row(double* cells, int64_t n, const S& variances) {
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<double>) {
    Doubles x[1], y[1];
    variances.get(k, x, y);
    store(cells, distance_of(load(cells), x[0], y[0]));
  }
}

// K' = (K - μ m' - m μ' + μ μ')/(σ σ'), Θ' = Θ/(σ σ'); the sides are q, m, μ, 1/σ, and q after it.
template <class S>
void normalise_row(double* cells, int64_t n, const S& sides) {
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
template <class S>
void clear_row(double* cells, int64_t n, const S& sides) {
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
template <class S>
void combine_row(const JointStep& step, const double* other, double* cells, int64_t n, const S& means) {
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

// s f + t g, as above, of fields in units of their own.
template <class S>
void combine_units_row(const JointStep& step, const double* other, double* cells, int64_t n, const S& sides) {
  constexpr int L = kLanes<double>;
  for (int64_t k = 0; k < n; ++k, cells += 2 * L, other += 2 * L) {
    Doubles x[kJoinedSides + 2], y[kJoinedSides + 2];
    sides.get(k, x, y);
    Doubles d = load(cells), theta = load(cells + L), d2 = load(other), theta2 = load(other + L);
    convert<double>(d, theta, x, y);
    convert<double>(d2, theta2, x + 2, y + 2);
    d = maximum(step.own * d + step.other * d2, Doubles{});
    if (step.multiplies_means) d += 2 * (x[4] - y[4]) * (x[5] - y[5]);
    store(cells, d);
    store(cells + L, step.own * theta + step.other * theta2);
  }
}

}  // namespace eqt::EQT_ISA
