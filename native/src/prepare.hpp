// What depends on one input only: variances q(p) through all operations, in double, and the sides made of them.
#pragma once

#include <cmath>
#include <cstring>

#include "variances.hpp"

namespace eqt::EQT_ISA {

inline int64_t largest_level(const Plan& plan) {
  int64_t largest = plan.pooled ? largest_level(*plan.pooled->fine) : plan.cells;
  for (int i = 0; i <= plan.field_count; ++i)
    if (plan.levels[i].positions > largest) largest = plan.levels[i].positions;
  return largest;
}

// Bytes that prepare_field needs: two fields of variances in double, one of means, and those kept for residual sums, with their units. Boxes
// along one axis after another never exceed `cells`. Where layers pool, the workspace for pair offsets comes after them.
template <class T>
int64_t prepare_bytes(const Plan& plan) {
  const int64_t fields = ((2 + plan.means + 2 * plan.slots) * largest_level(plan) + plan.slots) * kLanes<T> * int64_t(sizeof(double));
  return Workspace<T>::align(fields) + (plan.pooled ? Workspace<T>::bytes(plan) : 0);
}

// `to_unit` of an input whose square is no number of T, or none with digits.
template <class T>
[[gnu::cold]] double to_unit_by_parts(const Plan& plan, const T* input, T* to) {
  const int64_t size = plan.positions_in * plan.channels;
  double most = 0, sum = 0;
  for (int64_t i = 0; i < size; ++i) most = std::abs(double(input[i])) > most ? std::abs(double(input[i])) : most;
  int exponent = 0;
  std::frexp(most, &exponent);
  for (int64_t i = 0; i < size; ++i) {
    const double part = std::ldexp(double(input[i]), -exponent);
    sum += part * part;
  }
  const double unit = std::hypot(std::ldexp(std::sqrt(sum / double(size)), exponent), std::sqrt(plan.unit_bias));
  const bool usable = unit > 0 && unit * 0 == 0;
  const double share = usable ? std::ldexp(1.0, exponent) / unit : 1;
  for (int64_t i = 0; i < size; ++i) to[i] = usable ? T(std::ldexp(double(input[i]), -exponent) * share) : input[i];
  return usable ? unit : 1;
}

// Writes an input divided by its unit, and returns that; `to` may be the input itself.
template <class T>
double to_unit(const Plan& plan, const T* input, T* to) {
  constexpr int L = kLanes<T>;
  constexpr double kLeast = sizeof(T) == 4 ? 1e-30 : 1e-280;
  const int64_t size = plan.positions_in * plan.channels, whole = size / L * L;
  const auto at = [input](int64_t i) {  // which need not be aligned
    Vec<T> found;
    std::memcpy(&found, input + i, sizeof found);
    return found;
  };
  Vec<T> sums[4]{};
  int64_t i = 0;
  for (; i + 4 * L <= size; i += 4 * L)
    for (int k = 0; k < 4; ++k) sums[k] += at(i + k * L) * at(i + k * L);
  for (; i < whole; i += L) sums[0] += at(i) * at(i);
  double sum = 0;
  for (; i < size; ++i) sum += double(input[i]) * double(input[i]);
  for (int l = 0; l < L; ++l) sum += double((sums[0][l] + sums[1][l]) + (sums[2][l] + sums[3][l]));
  if (!(sum > kLeast && sum < 1 / kLeast)) return to_unit_by_parts(plan, input, to);
  const T share = T(1 / std::sqrt(sum / double(size) + plan.unit_bias));
  for (i = 0; i < whole; i += L) {
    const Vec<T> scaled = share * at(i);
    std::memcpy(to + i, &scaled, sizeof scaled);
  }
  for (; i < size; ++i) to[i] = share * input[i];
  return 1 / double(share);
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
  }
  for (int i = 0; i < plan.field_count; ++i) {
    const Op& op = plan.field[i];
    const int64_t positions = plan.levels[i].positions;
    if (op.kind != OpKind::affine) of.sides().write(op, at.q, positions);
    if (op.kind == OpKind::box) {
      WindowedVariances<T>::box(op, at.q, at.other);
    } else if (op.kind == OpKind::table) {
      WindowedVariances<T>::table(op, at.q, at.other, plan.levels[i + 1].positions);
      double* swap = at.q;
      at.q = at.other, at.other = swap;
    } else {
      of.advance(op, at.q, at.mean, spatial(op) ? plan.levels[i + 1].positions : positions, at.kept, at.size);
    }
    if (plan.means && windowed(op)) std::memset(at.mean, 0, size_t(plan.levels[i + 1].positions) * L * sizeof(double));
    if (op.kind == OpKind::affine) of.sides().write(op, at.q, positions);
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
  void* rest = static_cast<char*>(workspace) + prepare_bytes<T>(plan) - (plan.pooled ? Workspace<T>::bytes(plan) : 0);
  Carried<T> at{fields, fields + size, mean, kept, size, rest};
  if (plan.units) of.sides().put_unit(plan.side_unit);
  carry_variances(plan, group, at);
  const double* q = at.q;
  if (plan.side_last >= 0) of.sides().put_each(plan.side_last, 0.5, q, plan.positions_out);
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
  alignas(64) double q[L], mean[L], kept[3 * kDepth * L];
  std::memcpy(q, group.variance, sizeof q);
  std::memcpy(mean, group.mean, sizeof mean);
  for (int o = 0; o < plan.vector_count; ++o) {
    const Op& op = plan.vector[o];
    if (op.kind != OpKind::affine) of.sides().write(op, q, 1);
    of.advance(op, q, mean, 1, kept, L);
    if (op.kind == OpKind::affine) of.sides().write(op, q, 1);
  }
  of.sides().put_each(plan.side_vector, 0.5, q, 1);
}

}  // namespace eqt::EQT_ISA
