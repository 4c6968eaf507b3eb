// Memory of fields over all pairs of positions, (p, p') in rows: of each pair a cell, D (or K) and Θ.
#pragma once

#include "joint.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

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

}  // namespace eqt::EQT_ISA
