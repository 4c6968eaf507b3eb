// Variances of fields on points of the sphere, through zonal windows and the mean over the sphere; and the harmonic coefficients of
// inputs, from which other rotations of them are made.
#pragma once

#include "fibre.hpp"
#include "variances.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct SphereVariances {
  static constexpr int L = kLanes<T>;
  const Plan& plan;
  const Group<T>& group;

  // Means over zonal windows, whose coefficients are kept for other rotations of the inputs; or over the sphere.
  void window(const Op& op, int64_t positions, const Carried<T>& at) const {
    if (op.kind == OpKind::average) {
      average(op, positions, at.q);
      if (plan.means) average(op, positions, at.mean);
      return;
    }
    const SphereMemory<T> memory = Workspace<T>(plan, at.workspace).sphere;
    const SphereTables<double> tables(*plan.sphere);
    const SphereTransform<double, kVectors<T, double>> transform(*plan.sphere, tables, static_cast<double*>(memory.scratch));
    double* coefficients = static_cast<double*>(memory.coefficients);
    transform.analyse(at.q, L, op.weight_count, op.weights, coefficients);
    transform.synthesise(coefficients, op.weight_count, at.q, L);
    if (!group.lanes) return;
    T* kept = group.lanes + op.side_at * L;
    for (int64_t i = 0; i < int64_t(op.weight_count) * op.weight_count * L; ++i) kept[i] = T(coefficients[i]);
  }

  // Coefficients of the signals, whose points are in the group.
  void signals(void* workspace) const {
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

 private:
  static void average(const Op& op, int64_t positions, double* values) {
    for (int l = 0; l < L; ++l) {
      double sum = 0;
      for (int64_t p = 0; p < positions; ++p) sum += op.weights[p] * values[p * L + l];
      values[l] = sum;
    }
  }
};

}  // namespace eqt::EQT_ISA
