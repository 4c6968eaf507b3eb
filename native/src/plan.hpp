// Reads the numbers that describe a plan (kernels/engines/cpu/descriptor.py writes them).
#pragma once

#include <vector>

#include "program.hpp"

namespace eqt {

struct Description {
  const int32_t* code;
  int64_t code_size;
  const int32_t* reals;  // doubles, as pairs of int32, so that JAX passes them on in 32-bit mode too
  int64_t reals_size;
  const int32_t* tables;
  int64_t tables_size;
};

// A plan with the arrays that it points into.
class OwnedPlan {
 public:
  explicit OwnedPlan(const Description& description);  // throws std::invalid_argument
  const Plan& plan() const { return plan_; }

 private:
  void find_means();
  void place_sides();
  void measure_fields();

  Plan plan_{};
  std::vector<double> reals_;
  std::vector<Level> levels_;
  std::vector<Op> ops_;
  Rotations rotations_{};
};

}  // namespace eqt
