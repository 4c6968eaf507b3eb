// Reads the numbers that describe a plan (kernels/engines/cpu/descriptor.py writes them).
#pragma once

#include <cstddef>
#include <deque>
#include <stdexcept>
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

// Takes numbers from an array one after another.
class Reader {
 public:
  Reader(const int32_t* at, int64_t size) : at_(at), end_(at + size) {}
  int32_t next() {
    if (at_ == end_) throw std::invalid_argument("the plan's description is too short");
    return *at_++;
  }
  template <int N>
  void next(int (&out)[N]) {
    for (int& value : out) value = next();
  }

 private:
  const int32_t *at_, *end_;
};

template <class T>
const T* within(const T* array, int64_t size, int64_t at, int64_t count) {
  if (at < 0 || count < 0 || at + count > size) throw std::invalid_argument("a table of the plan lies outside the tables");
  return array + at;
}

// The four numbers of an operation, by its kind.
inline void take_numbers(Op& op, const double* numbers) {
  switch (op.kind) {
    case OpKind::affine:
      op.weight = numbers[0], op.bias = numbers[1];
      op.rate = numbers[2], op.constant = numbers[3];
      break;
    case OpKind::dual:
      op.parameters[0] = numbers[0], op.parameters[1] = numbers[1];
      op.offset = numbers[2], op.unit_bias = numbers[3];
      break;
    case OpKind::join: op.kept_share = numbers[0], op.added_share = numbers[1], op.unit_bias = numbers[2]; break;
    default: break;
  }
}

// A plan with the arrays that it points into.
class OwnedPlan {
 public:
  explicit OwnedPlan(const Description& description);  // throws std::invalid_argument
  const Plan& plan() const { return plan_; }

 private:
  struct Offsets {
    int32_t count;
    const int32_t* labels;
  };

  // Operations between pools; the first stage begins with the signals.
  struct Stage {
    int first, count;  // among `ops_`
    std::vector<Level> levels;
    Offsets offsets;
    Pooled pooled;            // the pool before it, as far as it is described
    std::vector<Offsets> own;  // of the earlier stages, where the zero offset alone is asked for
  };

  void read_stage(Reader& code, const Description& d);
  void read_operation(Reader& code, const Description& d, Op& op, int64_t positions);
  void find_means();
  void place_sides();
  bool is_dense() const;
  void measure_fields();
  void chain_stages();
  const Plan* chained(std::size_t count, const std::vector<Offsets>& offsets);
  void place_slabs(const Stage& stage, const Offsets& offsets, Pooled& pooled);
  void find_last_offsets(Pooled& pooled);

  Plan plan_{};  // of the last stage
  std::vector<double> reals_;
  std::vector<Stage> stages_;
  std::vector<Op> ops_;  // of all stages, then those on vectors
  Rotations rotations_{};
  std::deque<Plan> plans_;
  std::deque<Pooled> pools_;
  std::deque<std::vector<Slab>> slabs_;
  std::deque<std::vector<int32_t>> numbers_;
};

}  // namespace eqt
