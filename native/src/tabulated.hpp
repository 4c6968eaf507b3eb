// Any smooth φ, by a table that Python makes (kernels/engines/cpu/tabulated.py). With g_n(q) = √w_n E[φ h_n] of few orders n,
// ρ = cos θ and s = sin²(θ/2): D' = Σ (g_n - g_n')² + 2 Σ g_n g_n' (1 - ρⁿ), r E[φ'φ'] = Σ n g_n g_n' ρⁿ⁻¹, where g_0 = E[φ].
// n - 1 of odd and n - 2 of even orders are twice one of `kHalves`, so that powers are those of ρ²: 1 - ρ²ᵐ = e_m grows from
// e_1 = 4s(1 - s) by e_2m = e_m + ρ²ᵐ e_m, of which no digit is lost.
#pragma once

#include <cstring>
#include <limits>

#include "angular.hpp"
#include "program.hpp"

namespace eqt::EQT_ISA {

// 0 to 6, 8, 12, 16, 24, 32, …: from the seventh on each is twice an earlier one.
struct HalfOrders {
  int of[kHalfOrders]{};
  constexpr HalfOrders() {
    for (int i = 0; i < kHalfOrders; ++i) of[i] = i < 7 ? i : i == 7 ? 8 : 2 * of[i - 2];
  }
};
constexpr HalfOrders kHalves{};

// Of each octave of variances, from 2^lowest on, `kTableNodes` coefficients of every column, highest power first; before them a
// row at variance 0. Columns are E[φ] and g_n/√q.
struct Tabulation {
  const double* rows;
  int64_t columns, lowest, octaves;

  explicit Tabulation(const Op& op)
      : rows(op.weights), columns(op.weight_count), lowest(int64_t(op.parameters[0])), octaves(int64_t(op.parameters[1])) {}

  // All columns at one variance; NaN outside of the table.
  template <int K>
  EQT_INLINE void at(double q, double (&out)[K]) const {
    int64_t bits;
    std::memcpy(&bits, &q, sizeof bits);
    const int64_t octave = (bits >> 52) - 1023 - lowest;
    if (q == 0) {
      for (int j = 0; j < K; ++j) out[j] = rows[j];
    } else if (!(q > 0) || octave < 0 || octave >= octaves) {
      for (int j = 0; j < K; ++j) out[j] = std::numeric_limits<double>::quiet_NaN();
    } else {
      bits = (bits & 0xfffffffffffff) | (int64_t(1023) << 52);
      double share;
      std::memcpy(&share, &bits, sizeof share);
      share = 2 * share - 3;
      const double* row = rows + columns * (1 + octave * kTableNodes);
      for (int j = 0; j < K; ++j) out[j] = row[j];
      for (int d = 1; d < kTableNodes; ++d) {
        row += columns;
        for (int j = 0; j < K; ++j) out[j] = out[j] * share + row[j];
      }
    }
  }
};

// `Odd` and `Even`: how many orders of both kinds.
template <class T, int Odd, int Even>
struct Tabulated : OfAngle {
  static constexpr int kTerms = Odd + Even, kFirst = 4;
  static constexpr int kSides = kFirst + kTerms;  // √q, 1/(2√q), E[φ], g_1/√q, g_1, g_3, …, g_2, g_4, …
  using V = Vec<T>;
  Tabulation table;

  explicit Tabulated(const Op& op) : table(op) {}

  EQT_INLINE void pair(V& d, V& theta, const V (&x)[kSides], const V (&y)[kSides]) const {
    const V s = half_angle<T>(d, x, y), one = T(1) - V{}, twice = T(2) * s, cosine = one - twice, first = T(2) * twice * (one - s);
    const V constant = x[2] - y[2];
    V gaps = constant * constant, turned{}, odd{}, even{};
    V excess[kHalfOrders], power[kHalfOrders];  // 1 - ρ²ᵐ and ρ²ᵐ
    excess[0] = V{}, power[0] = one;
    constexpr int most = Odd > Even ? Odd : Even;
#pragma GCC unroll 32
    for (int i = 0; i < most; ++i) {
      if (i == 1) excess[1] = first;
      else if (i == 3 || i == 5) excess[i] = excess[i - 1] + power[i - 1] * first;
      else if (i > 0) {
        const int half = i < 8 ? kHalves.of[i] / 2 : i - 2;
        excess[i] = excess[half] + power[half] * excess[half];
      }
      power[i] = one - excess[i];
      if (i < Odd) {
        const V a = x[kFirst + i], b = y[kFirst + i], gap = a - b, both = a * b;
        gaps += gap * gap;
        turned += both * (excess[i] + power[i] * twice);
        odd += (T(2 * kHalves.of[i] + 1) * both) * power[i];
      }
      if (i < Even) {
        const V a = x[kFirst + Odd + i], b = y[kFirst + Odd + i], gap = a - b, both = a * b;
        gaps += gap * gap;
        turned += both * (excess[i] + power[i] * first);
        even += (T(2 * kHalves.of[i] + 2) * both) * power[i];
      }
    }
    const V inverse = T(4) * (x[1] * y[1]), slope = Even ? odd + cosine * even : odd;
    d = gaps + T(2) * turned;
    theta = theta * (inverse > 0 ? inverse * slope : x[3] * y[3]);
  }

  EQT_INLINE void sides(Doubles q, const Units& units, Doubles (&out)[kSides]) const {
    Doubles columns[kTerms + 1];
    OfAngle::sides(q, out);
    const Doubles all = units.before * units.before * q, root = units.before * out[0];
    each(table, all, columns);
    out[2] = columns[0] / units.after;
    out[3] = columns[1] * (units.before / units.after);
    for (int j = 0; j < kTerms; ++j) out[kFirst + j] = columns[j + 1] * (root / units.after);
  }
  static EQT_INLINE Doubles variance(const Op& op, Doubles q) {
    Doubles columns[kTerms + 1], sum{};
    each(Tabulation(op), q, columns);
    for (int j = 1; j <= kTerms; ++j) sum += columns[j] * columns[j];
    return columns[0] * columns[0] + q * sum;
  }
  static EQT_INLINE Doubles mean(const Op& op, Doubles q) {
    Doubles columns[kTerms + 1];
    each(Tabulation(op), q, columns);
    return columns[0];
  }

  static __attribute__((noinline)) void each(const Tabulation& table, Doubles q, Doubles (&out)[kTerms + 1]) {
    for (int l = 0; l < kLanes<double>; ++l) {
      double found[kTerms + 1];
      table.at(q[l], found);
      for (int j = 0; j <= kTerms; ++j) out[j][l] = found[j];
    }
  }
};

}  // namespace eqt::EQT_ISA
