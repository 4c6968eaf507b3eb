// Reads the numbers that describe a plan (kernels/engines/cpu/descriptor.py writes them).
#pragma once

#include <cstddef>
#include <deque>
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

class Reader;

// A plan with the arrays that it points into.
class OwnedPlan {
 public:
  explicit OwnedPlan(const Description& description);  // throws std::invalid_argument
  const Plan& plan() const { return plan_; }

 private:
  struct Fibres {
    int32_t count;
    const int32_t* labels;
  };

  // Operations between pools; the first stage begins with the signals.
  struct Stage {
    int first, count;  // among `ops_`
    std::vector<Level> levels;
    Fibres fibres;
    Pooled pooled;            // the pool before it, as far as it is described
    std::vector<Fibres> own;  // of the earlier stages, where the diagonal fibre alone is asked for
  };

  void read_sphere(Reader& code);
  void check_sphere() const;
  void read_stage(Reader& code, const Description& d);
  void read_operation(Reader& code, const Description& d, Op& op, int64_t positions);
  void find_means();
  void place_sides();
  bool is_dense() const;
  void measure_fields();
  void chain_stages();
  const Plan* chained(std::size_t count, const std::vector<Fibres>& fibres);
  void place_slabs(const Stage& stage, const Fibres& fibres, Pooled& pooled);
  void find_last_fibres(Pooled& pooled);

  Plan plan_{};  // of the last stage
  std::vector<double> reals_;
  std::vector<Stage> stages_;
  std::vector<Op> ops_;  // of all stages, then those on vectors
  Rotations rotations_{};
  Sphere sphere_{};
  std::deque<Plan> plans_;
  std::deque<Pooled> pools_;
  std::deque<std::vector<Slab>> slabs_;
  std::deque<std::vector<int32_t>> numbers_;
};

}  // namespace eqt
