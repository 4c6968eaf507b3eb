// Readouts that average over relative rotations Q of fields on the sphere. The second inputs of a tile are turned, y ↦ f'(Qy),
// with what depends on them alone, and then run with each of the first inputs like those of a fibre. With Euler angles
// Q = ± R_z(α) R_y(β) R_z(γ) coefficients are turned by each angle in turn: those of f'(Qy) are D(γ)ᵀ D(β)ᵀ D(α)ᵀ c'.
#pragma once

#include "fibre.hpp"
#include "variances.hpp"

namespace eqt::EQT_ISA {

template <class T>
class TurnedTile {
  static constexpr int L = kLanes<T>;

 public:
  TurnedTile(const Plan& plan, const Tile<T>& tile, const Workspace<T>& work)
      : plan_(plan), sphere_(*plan.sphere), tile_(tile), work_(work), memory_(work.sphere),
        tables_(sphere_, memory_.tables, false), transform_(sphere_, tables_, static_cast<T*>(memory_.scratch)) {
    while (plan_.field[points_].kind != OpKind::average) ++points_;
    // What follows the mean over the sphere has the variances of the inputs as they are.
    const int64_t rest = plan_.field[points_].side_at;
    std::memcpy(memory_.sides + rest * L, tile_.sides2 + rest * L, size_t(plan_.side_size - rest) * L * sizeof(T));
  }

  // Calls f(weight) for every rotation, with `signals` and `sides` of the second inputs there, until it is cancelled.
  template <class F>
  void each(F&& f) const {
    for (int sign = 0; sign < sphere_.signs; ++sign)
      for (int tilt = 0; tilt < sphere_.tilts; ++tilt)
        for (int alpha = 0; alpha < sphere_.azimuths; ++alpha) {
          each_field([&](const T* from, int n, int64_t at) {
            about_pole(from, n, alpha, sign, memory_.halfway);
            tilted(memory_.halfway, n, tilt, memory_.tilted + at * L);
          });
          for (int gamma = 0; gamma < sphere_.azimuths; ++gamma) {
            if (is_set(tile_.cancel)) return;
            turn(gamma);
            f(sphere_.weights[tilt]);
          }
        }
  }

  const T* signals() const { return memory_.signals; }
  const T* sides() const { return memory_.sides; }

 private:
  // Calls f(coefficients, degrees, where they begin among all) for every channel, and for the variances after every window.
  template <class F>
  void each_field(F&& f) const {
    const int n = sphere_.bandlimit;
    int64_t at = 0;
    for (int c = 0; c < plan_.channels; ++c, at += int64_t(n) * n) f(tile_.sides2 + (sphere_.side_at + at) * L, n, at);
    for (int i = 0; i < points_; ++i) {
      const Op& op = plan_.field[i];
      if (op.kind != OpKind::zonal) continue;
      f(tile_.sides2 + op.side_at * L, op.weight_count, at);
      at += int64_t(op.weight_count) * op.weight_count;
    }
  }

  // By angle number `angle` about the pole; times (-1)^l if `sign`.
  void about_pole(const T* from, int n, int angle, int sign, T* to) const {
    const double* cosines = sphere_.cosines_of_turns + int64_t(angle) * sphere_.degrees;
    const double* sines = sphere_.sines_of_turns + int64_t(angle) * sphere_.degrees;
    for (int l = 0; l < n; ++l) {
      const int64_t centre = (int64_t(l) * l + l) * L;
      const T factor = sign && l % 2 ? T(-1) : T(1);
      store(to + centre, factor * load(from + centre));
      for (int m = 1; m <= l; ++m) {
        const T c = factor * T(cosines[m]), s = factor * T(sines[m]);
        const Vec<T> even = load(from + centre + m * L), odd = load(from + centre - m * L);
        store(to + centre + m * L, c * even + s * odd);
        store(to + centre - m * L, c * odd - s * even);
      }
    }
  }

  void tilted(const T* from, int n, int tilt, T* to) const {
    const double* matrix = sphere_.matrices + tilt * entries_of_tilts(sphere_.degrees);
    for (int l = 0; l < n; ++l)
      for (int first = 0; first < 2 && first <= l; ++first) {  // orders from 0 on, then negative ones from -1 on
        const int64_t centre = (int64_t(l) * l + l) * L, step = first ? -L : L;
        for (int row = first; row <= l; ++row) {
          Vec<T> sum{};
          for (int m = first; m <= l; ++m) sum += T(*matrix++) * load(from + centre + m * step);
          store(to + centre + row * step, sum);
        }
      }
  }

  // Second inputs at the last angle: their signals, and sides from their variances, which follow the layers.
  void turn(int gamma) const {
    Group<T> group{};
    group.lanes = memory_.sides;
    alignas(64) double units[L];  // those of the inputs as they lie: another one at every angle would not be one of their mean
    for (int l = 0; plan_.units && l < L; ++l) units[l] = 1 / double(tile_.sides2[plan_.side_unit * L + l]);
    group.units = plan_.units ? units : nullptr;
    group.fixed = tile_.sides2;
    const Variances<T> of{plan_, group};
    int64_t at = 0;
    const auto field = [&](int n, T* points, int64_t step) {
      about_pole(memory_.tilted + at * L, n, gamma, 0, memory_.turned);
      transform_.synthesise(memory_.turned, n, points, step);
      at += int64_t(n) * n;
    };
    for (int c = 0; c < plan_.channels; ++c) field(sphere_.bandlimit, memory_.signals + c * L, plan_.channels * L);
    for (int64_t p = 0; p < plan_.positions_in; ++p) mean_square(p);
    for (int i = 0; i < points_; ++i) {
      const Op& op = plan_.field[i];
      if (op.kind == OpKind::zonal) {
        field(op.weight_count, work_.field, L);
        for (int64_t p = 0; p < plan_.positions_in; ++p) put(p, load(work_.field + p * L));
        continue;
      }
      if (op.kind != OpKind::affine) of.sides().write(op, memory_.q, plan_.positions_in);
      of.advance(op, memory_.q, memory_.mean, plan_.positions_in, nullptr, 0);
      if (op.kind == OpKind::affine) of.sides().write(op, memory_.q, plan_.positions_in);
    }
  }

  void put(int64_t p, Vec<T> value) const {
    Vec<double> wide[kVectors<T, double>];
    widened<double>(value, wide);
    for (int i = 0; i < kVectors<T, double>; ++i) store(memory_.q + p * L + i * kLanes<double>, wide[i]);
  }

  void mean_square(int64_t p) const {
    Vec<T> sum{};
    for (int c = 0; c < plan_.channels; ++c) {
      const Vec<T> value = load(memory_.signals + (p * plan_.channels + c) * L);
      sum += value * value;
    }
    put(p, T(1.0 / plan_.channels) * sum);
  }

  const Plan& plan_;
  const Sphere& sphere_;
  const Tile<T>& tile_;
  const Workspace<T>& work_;
  const SphereMemory<T>& memory_;
  const SphereTables<T> tables_;
  const SphereTransform<T, 1> transform_;
  int points_ = 0;  // operations on points of the sphere
};

// K (D after a flattening readout that a nonlinearity follows) and Θ, averaged over all relative rotations.
template <class T, bool Own>
void sphere_mean(const Plan& plan, const Tile<T>& tile) {
  constexpr int L = kLanes<T>;
  const Workspace<T> work(plan, tile.workspace);
  for (int i = 0; i < tile.rows * L; ++i) work.d[i] = work.theta[i] = 0;
  find_places(plan, 0, work.places, work.partners);
  const TurnedTile<T> second(plan, tile, work);
  second.each([&](double weight) {
    for (int r = 0; r < tile.rows; ++r) {
      const Fibre<T, Own> fibre{plan, work, work.places, Own ? tile.sides1 : tile.sides[r], second.sides(), false, 0};
      const T* field = fibre.run(Own ? tile.signals1 : tile.inputs[r], second.signals());
      accumulate<T>(work.d + r * L, load(field), weight);
      accumulate<T>(work.theta + r * L, load(field + L), weight);
    }
  });
  const bool distance = plan.single && plan.vector_dual;
  for (int r = 0; r < tile.rows; ++r)
    for (int l = 0; l < L; ++l) {
      const double halves = tile.variance_sums[Own ? l : r] + tile.variance_sums2[l], d = work.d[r * L + l];
      tile.k[r * L + l] = distance ? d : halves - d / 2;
      tile.theta[r * L + l] = work.theta[r * L + l];
    }
}

}  // namespace eqt::EQT_ISA
