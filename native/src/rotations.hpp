// Readouts that average over relative rotations Q of signals c, c' of harmonic coefficients: with the products
// M_l(m', m) = Σ c'_lm' c_lm, D(Q) is |c|² + |c'|² - 2 Σ_l d^l(Q) : M_l. With Euler angles Q = R_z(α) R_y(β) R_z(γ) this is
// at each β, a ring, a trigonometric polynomial in α and γ: its coefficients, the spectrum, are sums over l, and opposite
// angles share their even and odd parts.
#pragma once

#include "pair_offset.hpp"

#include <algorithm>
#include <cstdlib>

namespace eqt::EQT_ISA {

template <class T>
class RotationSum {
  using V = Vec<T>;
  static constexpr int L = kLanes<T>;

 public:
  RotationSum(const Plan& plan, const Workspace<T>& work, const T* sides1, const T* sides2, bool own, double* d, double* theta)
      : plan_(plan), rotations_(*plan.rotations), work_(work), sides1_(sides1), sides2_(sides2), own_(own), d_(d), theta_(theta),
        top_(rotations_.bandlimit - 1), side_(2 * top_ + 1) {}

  void run(const T* x1, const T* x2, const Flag* cancel) {
    multiply(x1, x2);
    if (rotations_.azimuths == 0) return single_rotations();
    const int64_t factors = 2 * entries_of_degrees(rotations_.bandlimit);
    for (int r = 0; r < rotations_.count; ++r) {
      if (is_set(cancel)) return;
      mix(rotations_.mixing + r * factors);
      ring(rotations_.weights[r]);
    }
  }

 private:
  // M_l for l >= 1, row after row; what does not depend on Q apart, so that signals without directions are at an exact
  // distance.
  void multiply(const T* x1, const T* x2) {
    const int64_t c = plan_.channels / (int64_t(rotations_.bandlimit) * rotations_.bandlimit);
    const T scale = T(1.0 / plan_.channels);
    const auto first = [&](int64_t i) { return own_ ? load(x1 + i * L) : splat(x1[i]); };
    V constant{}, total{};
    for (int64_t i = 0; i < c; ++i) {
      const V gap = first(i) - load(x2 + i * L);
      constant += gap * gap;
    }
    for (int64_t i = c; i < plan_.channels; ++i) {
      const V a = first(i), b = load(x2 + i * L);
      total += a * a + b * b;
    }
    constant_ = scale * constant;
    total_ = scale * total;
    T* out = work_.products;
    for (int64_t l = 1; l <= top_; ++l)
      for (int64_t row = l * l; row < (l + 1) * (l + 1); ++row)
        for (int64_t column = l * l; column < (l + 1) * (l + 1); ++column, out += L) {
          V sum{};
          for (int64_t i = 0; i < c; ++i) sum += first(column * c + i) * load(x2 + (row * c + i) * L);
          store(out, scale * sum);
        }
  }

  // The spectrum of a ring, (2B - 1, 2B - 1): of each entry M_l(r, c) and of the opposite one, M_l(-r, -c).
  void mix(const double* factors) const {
    T* out = work_.spectrum;
    for (int r = -top_; r <= top_; ++r)
      for (int c = -top_; c <= top_; ++c, out += L) {
        const int low = std::max({1, std::abs(r), std::abs(c)});
        V sum{};
        for (int64_t l = low; l <= top_; ++l, factors += 2) {
          const T* centre = work_.products + (entries_of_degrees(l) + 2 * l * (l + 1)) * L;
          const int64_t at = (r * (2 * l + 1) + c) * L;
          sum += T(factors[0]) * load(centre + at) + T(factors[1]) * load(centre - at);
        }
        store(out, sum);
      }
  }

  // Even and odd part, at angle number `j`, of a polynomial whose coefficients are `step` vectors apart.
  EQT_INLINE void parts(int j, const T* coefficients, int64_t step, V& even, V& odd) const {
    const T* wave = work_.waves + int64_t(j) * side_;
    even = odd = V{};
    for (int k = 0; k < top_; ++k) odd += wave[k] * load(coefficients + k * step * L);
    for (int k = top_; k < side_; ++k) even += wave[k] * load(coefficients + k * step * L);
  }

  void ring(double weight) const {
    const int half = rotations_.azimuths / 2;
    T* rows = work_.spectrum + int64_t(side_) * side_ * L;
    for (int j = 0; j <= half; ++j) {
      for (int c = 0; c < side_; ++c) {
        V even, odd;
        parts(j, work_.spectrum + c * L, side_, even, odd);
        store(rows + c * L, even + odd);
        store(rows + (side_ + c) * L, even - odd);
      }
      T* cell = work_.field;
      for (int sign = 0; sign < (j ? 2 : 1); ++sign)
        for (int g = 0; g <= half; ++g) {
          V even, odd;
          parts(g, rows + sign * side_ * L, 1, even, odd);
          cell = put(cell, even + odd);
          if (g) cell = put(cell, even - odd);
        }
      add((cell - work_.field) / (2 * L), weight);
    }
  }

  void single_rotations() const {
    const int64_t size = entries_of_degrees(rotations_.bandlimit);
    for (int r = 0; r < rotations_.count; ++r) {
      V sum{};
      const double* entries = rotations_.mixing + r * size;
      for (int64_t i = 0; i < size; ++i) sum += T(entries[i]) * load(work_.products + i * L);
      put(work_.field, sum);
      add(1, rotations_.weights[r]);
    }
  }

  // The distance where K without its constant part is `k`; below the rounding of its terms it counts as 0.
  EQT_INLINE T* put(T* cell, V k) const {
    constexpr T rounding = T(16 * (sizeof(T) == 4 ? 1.1920929e-7 : 2.220446049250313e-16));
    const V d = total_ - T(2) * k;
    store(cell, constant_ + (d > rounding * total_ ? d : V{}));
    store(cell + L, V{});
    return cell + 2 * L;
  }

  // The first n cells through all operations, into the sums.
  void add(int64_t n, double weight) const {
    T* cells = work_.field;
    operations(plan_.field, plan_.field_count, work_, cells, n, [&](int64_t at) {
      return FixedSides<T>{{sides1_ + at * (own_ ? L : 1), 0, sides2_ + at * L, 0, nullptr, own_}};
    }, [&](const Op& op, auto&& f) { f(units_of(plan_, sides1_, sides2_, op.unit_at, own_)); });
    V d{}, theta{};
    for (int64_t k = 0; k < n; ++k, cells += 2 * L) {
      d += load(cells);
      theta += load(cells + L);
    }
    accumulate<T>(d_, d, weight);
    accumulate<T>(theta_, theta, weight);
  }

  const Plan& plan_;
  const Rotations& rotations_;
  const Workspace<T>& work_;
  const T *sides1_, *sides2_;
  const bool own_;  // a vector of pairs of inputs
  double *d_, *theta_;
  const int top_, side_;  // the highest degree, and how many orders it has
  V constant_, total_;
};

// K and Θ averaged over all relative rotations.
template <class T>
void haar_mean(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  const Workspace<T> work(plan, tile.workspace);
  const Rotations& rotations = *plan.rotations;
  if (rotations.azimuths) {
    const int size = (rotations.azimuths / 2 + 1) * (2 * rotations.bandlimit - 1);
    for (int i = 0; i < size; ++i) work.waves[i] = T(rotations.waves[i]);
  }
  for (int i = 0; i < tile.rows * L; ++i) work.d[i] = work.theta[i] = 0;
  for (int r = 0; r < tile.rows; ++r) {
    if (is_set(tile.cancel)) return;
    RotationSum<T> sum(plan, work, tile.first_sides(r), tile.sides2, tile.listed(), work.d + r * L, work.theta + r * L);
    sum.run(tile.first(r), tile.signals2, tile.cancel);
    for (int l = 0; l < L; ++l) {
      const double halves = tile.variance_sums[tile.listed() ? l : r] + tile.variance_sums2[l];
      tile.k[r * L + l] = halves - work.d[r * L + l] / 2;
      tile.theta[r * L + l] = work.theta[r * L + l];
    }
  }
}

}  // namespace eqt::EQT_ISA
