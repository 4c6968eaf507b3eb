// Fields on points of the sphere and their harmonic coefficients. Along a ring of points harmonics are cos mφ and sin mφ, across
// rings Legendre functions, so that a transform is four small products of matrices; opposite azimuths share their even and odd
// parts, and so do rings north and south of the equator.
#pragma once

#include "program.hpp"
#include "vector.hpp"

#include <type_traits>

namespace eqt::EQT_ISA {

// out(i) = Σ_k table[i · row + k · term] in(k) for i < rows; in(k) are P vectors, and put(i, sums) takes as many.
template <class S, int P, class In, class Out>
EQT_INLINE void multiply(int rows, int terms, const S* table, int64_t row, int64_t term, In&& in, Out&& put) {
  constexpr int L = kLanes<S>, B = 4;
  const auto block = [&](int i, auto size) {
    constexpr int N = decltype(size)::value;
    Vec<S> sums[N][P] = {};
    for (int k = 0; k < terms; ++k) {
      const S* numbers = in(k);
      Vec<S> x[P];
      for (int p = 0; p < P; ++p) x[p] = load(numbers + p * L);
      for (int b = 0; b < N; ++b) {
        const S factor = table[(i + b) * row + k * term];
        for (int p = 0; p < P; ++p) sums[b][p] += factor * x[p];
      }
    }
    for (int b = 0; b < N; ++b) put(i + b, sums[b]);
  };
  int i = 0;
  for (; i + B <= rows; i += B) block(i, std::integral_constant<int, B>{});
  for (; i < rows; ++i) block(i, std::integral_constant<int, 1>{});
}

// The tables of a sphere in numbers of type S.
template <class S>
struct SphereTables {
  const S *cosines, *sines, *legendre, *points;

  static int64_t size(const Sphere& s) {
    const int64_t north = (s.rings + 1) / 2;
    return 2 * int64_t(s.degrees) * s.rings + int64_t(s.degrees) * (s.degrees + 1) / 2 * north + north;
  }

  // In `memory`, room for `size` numbers; `filled`: they are there already.
  SphereTables(const Sphere& s, S* memory, bool filled) {
    const auto rounded = [&](const double* from, int64_t count) {
      S* begin = memory;
      memory += count;
      for (int64_t i = 0; i < count && !filled; ++i) begin[i] = S(from[i]);
      return begin;
    };
    const int64_t north = (s.rings + 1) / 2, degrees = s.degrees;
    cosines = rounded(s.cosines, degrees * s.rings);
    sines = rounded(s.sines, degrees * s.rings);
    legendre = rounded(s.legendre, degrees * (degrees + 1) / 2 * north);
    points = rounded(s.points, north);
  }

  // As they are, in double.
  explicit SphereTables(const Sphere& s) : cosines(s.cosines), sines(s.sines), legendre(s.legendre), points(s.points) {}
};

// Transforms of fields whose numbers are P vectors of S each.
template <class S, int P>
class SphereTransform {
  static constexpr int L = kLanes<S>, N = P * L;
  using V = Vec<S>;

 public:
  static int64_t scratch(const Sphere& s) { return (int64_t(2) * 2 * s.degrees * ((s.rings + 1) / 2) + 4 * s.rings) * N; }

  // `memory`: room for `scratch` numbers.
  SphereTransform(const Sphere& sphere, const SphereTables<S>& tables, S* memory)
      : rings_(sphere.rings), north_((sphere.rings + 1) / 2), degrees_(sphere.degrees), tables_(tables), orders_(memory),
        folded_(memory + int64_t(4) * degrees_ * north_ * N) {}

  // Coefficients (n², P vectors) of a field whose points are `step` numbers apart; those of degree l times factors[l] if given.
  void analyse(const S* points, int64_t step, int n, const double* factors, S* coefficients) const {
    const int circle = 2 * rings_ - 1;
    for (int j = 0; j < north_; ++j) {
      const S* north = points + int64_t(j) * circle * step;
      const S* south = points + int64_t(rings_ - 1 - j) * circle * step;
      const bool both = j != rings_ - 1 - j;
      const S weight = tables_.points[j];
      fold(north, south, step, weight, both);
      for (int parity = 0; parity < 2; ++parity) {
        along(n, tables_.cosines, folded(2 * parity), order(parity, 0, j));
        along(n, tables_.sines, folded(2 * parity + 1), order(parity, degrees_, j));
      }
    }
    for (int m = 0; m < n; ++m)
      for (int sine = 0; sine < (m ? 2 : 1); ++sine)
        for (int parity = 0; parity < 2; ++parity) {
          const S* from = order(parity, sine ? degrees_ + m : m, 0);
          multiply<S, P>((n - m - parity + 1) / 2, north_, of_order(m) + parity * north_, 2 * north_, 1,
                         [&](int j) { return from + int64_t(j) * N; },
                         [&](int i, const V(&sums)[P]) {
                           const int l = m + parity + 2 * i;
                           S* to = coefficients + (int64_t(l) * l + l + (sine ? -m : m)) * N;
                           for (int p = 0; p < P; ++p) store(to + p * L, factors ? S(factors[l]) * sums[p] : sums[p]);
                         });
        }
  }

  // The other way round.
  void synthesise(const S* coefficients, int n, S* points, int64_t step) const {
    for (int m = 0; m < n; ++m)
      for (int sine = 0; sine < (m ? 2 : 1); ++sine)
        for (int parity = 0; parity < 2; ++parity) {
          S* to = order(parity, sine ? degrees_ + m : m, 0);
          multiply<S, P>(north_, (n - m - parity + 1) / 2, of_order(m) + parity * north_, 1, 2 * north_,
                         [&](int k) {
                           const int l = m + parity + 2 * k;
                           return coefficients + (int64_t(l) * l + l + (sine ? -m : m)) * N;
                         },
                         [&](int j, const V(&sums)[P]) {
                           for (int p = 0; p < P; ++p) store(to + int64_t(j) * N + p * L, sums[p]);
                         });
        }
    const int circle = 2 * rings_ - 1;
    for (int j = 0; j < north_; ++j) {
      for (int parity = 0; parity < 2; ++parity)
        for (int sine = 0; sine < 2; ++sine) {
          const S* from = order(parity, sine * degrees_, j);
          S* to = folded(2 * parity + sine);
          multiply<S, P>(rings_, n - sine, (sine ? tables_.sines : tables_.cosines) + sine * rings_, 1, rings_,
                         [&](int m) { return from + int64_t(m + sine) * north_ * N; },
                         [&](int k, const V(&sums)[P]) {
                           for (int p = 0; p < P; ++p) store(to + int64_t(k) * N + p * L, sums[p]);
                         });
        }
      S* north = points + int64_t(j) * circle * step;
      S* south = points + int64_t(rings_ - 1 - j) * circle * step;
      for (int k = 0; k < rings_; ++k)
        for (int p = 0; p < P; ++p) {
          V part[4];
          for (int i = 0; i < 4; ++i) part[i] = load(folded(i) + int64_t(k) * N + p * L);
          const auto put = [&](S* ring, V even, V odd) {
            store(ring + k * step + p * L, even + odd);
            if (k) store(ring + (circle - k) * step + p * L, even - odd);
          };
          put(north, part[0] + part[2], part[1] + part[3]);
          if (north != south) put(south, part[0] - part[2], part[1] - part[3]);
        }
    }
  }

 private:
  const S* of_order(int m) const { return tables_.legendre + (int64_t(m) * degrees_ - int64_t(m) * (m - 1) / 2) * north_; }

  // Of northern ring j, what belongs to cos mφ (m < degrees) or sin mφ (degrees + m), from harmonics of even or odd l + m.
  S* order(int parity, int m, int j) const { return orders_ + ((int64_t(parity) * 2 * degrees_ + m) * north_ + j) * N; }

  // Sums of rings north and south, even and odd in φ, then their differences, likewise.
  S* folded(int i) const { return folded_ + int64_t(i) * rings_ * N; }

  void fold(const S* north, const S* south, int64_t step, S weight, bool both) const {
    const int circle = 2 * rings_ - 1;
    for (int k = 0; k < rings_; ++k)
      for (int p = 0; p < P; ++p) {
        const int64_t at = k * step + p * L, opposite = (circle - k) * step + p * L;
        const V a = load(north + at), b = k ? load(north + opposite) : V{};
        V c{}, d{};
        if (both) {
          c = load(south + at);
          if (k) d = load(south + opposite);
        }
        const V values[4] = {(a + b) + (c + d), (a - b) + (c - d), (a + b) - (c + d), (a - b) - (c - d)};
        for (int i = 0; i < 4; ++i) store(folded(i) + int64_t(k) * N + p * L, weight * (i >= 2 && !both ? V{} : values[i]));
      }
  }

  // Σ_k of what was folded, times the waves of orders m < n.
  void along(int n, const S* waves, const S* from, S* to) const {
    multiply<S, P>(n, rings_, waves, rings_, 1, [&](int k) { return from + int64_t(k) * N; },
                   [&](int m, const V(&sums)[P]) {
                     for (int p = 0; p < P; ++p) store(to + int64_t(m) * north_ * N + p * L, sums[p]);
                   });
  }

  const int rings_, north_, degrees_;
  const SphereTables<S> tables_;
  S *orders_, *folded_;
};

// What a thread needs for fields on the sphere.
template <class T>
struct SphereMemory {
  static constexpr int L = kLanes<T>;
  T* tables;
  void *scratch, *coefficients;  // of transforms, and of a field
  T *halfway, *tilted, *turned;  // coefficients on their way to another rotation
  T *signals, *sides;            // of second inputs there
  double *q, *mean;              // their variances, and means

  // The number of bytes where `memory` is null.
  static int64_t bytes(const Plan& plan, void* memory, SphereMemory* found) {
    if (!plan.sphere) return 0;
    const Sphere& s = *plan.sphere;
    char* at = static_cast<char*>(memory);
    int64_t used = 0;
    const auto take = [&](int64_t size) {
      void* begin = at ? at + used : nullptr;
      used += (size + 63) / 64 * 64;
      return begin;
    };
    SphereMemory m;
    const int64_t square = int64_t(s.degrees) * s.degrees;
    m.tables = static_cast<T*>(take(SphereTables<T>::size(s) * int64_t(sizeof(T))));
    m.scratch = take(SphereTransform<T, 2>::scratch(s) * int64_t(sizeof(T)));
    m.coefficients = take(square * 2 * EQT_BYTES);
    int64_t numbers = int64_t(s.bandlimit) * s.bandlimit * plan.channels;
    for (int i = 0; i < plan.field_count; ++i)
      if (plan.field[i].kind == OpKind::zonal) numbers += int64_t(plan.field[i].weight_count) * plan.field[i].weight_count;
    m.halfway = static_cast<T*>(take(square * EQT_BYTES));
    m.tilted = static_cast<T*>(take(numbers * EQT_BYTES));
    m.turned = static_cast<T*>(take(square * EQT_BYTES));
    m.signals = static_cast<T*>(take(plan.positions_in * plan.channels * EQT_BYTES));
    m.sides = static_cast<T*>(take(plan.side_size * EQT_BYTES));
    m.q = static_cast<double*>(take(plan.positions_in * L * int64_t(sizeof(double))));
    m.mean = static_cast<double*>(take(plan.positions_in * L * int64_t(sizeof(double))));
    if (found) *found = m;
    return used;
  }
};

}  // namespace eqt::EQT_ISA
