// Fields over all pairs of positions, for operations that differ from input to input: masks, graphs, attention. What is
// linear there is K' = A K A'ᵀ, with A of the first input and A' of the second. All of it in double.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "engine.hpp"

namespace eqt {

struct JointStep {
  JointKind kind;
  int from, to;           // fields (centres, present: masks); mix: `from` is spare
  int64_t before, after;  // positions
  Op op;                  // affine, dual
  // window: (after, size), -1 outside the grid; mix: where rows begin (after + 1), then the columns of all entries (size),
  // or null where A has all entries; centres: (after); present: the block of each position, or -1
  const int32_t* index;
  const double* weights;  // window: (size); mix that is given: of the entries
  int size;
  Mixing mixing;
  // combine: factors of `to` and `from`, and of their means; whether the means are multiplied, and fields have units of their own
  double own, other, own_mean, other_mean;
  bool multiplies_means, joins_units;
  double epsilon;  // normalise; whether over all positions
  bool over_all;
  // mix: K' = s A K A'ᵀ + b and Θ' = s A (Θ + t K) A'ᵀ + b, with s the scale, t the growth, b the bias, and logits of
  // sharpness · K; whether means vanish. Square: scale, bias and that. Drop: the scale, 1/keep
  double scale, growth, bias, sharpness;
  bool centred;
  int mask_before, mask_after;  // numbers of masks; -1: none
  int64_t side_at;              // what it needs of each input alone, as in `Op`
  int64_t unit_at;              // where one over the inputs' unit is; -1: it reads none
};

struct JointPlan {
  int channels;
  int64_t positions;  // of the inputs
  int fields, masks;
  int64_t widest, most_entries;  // positions of any field; entries in a row of any A
  int step_count, own_count;     // own_count: steps at which fields of inputs with themselves are needed
  const JointStep* steps;
  const int64_t *mask_at, *mask_positions;
  int64_t graph_at;  // -1: none
  int64_t side_end, side_size;  // half the variance of the result, and its unit if units change
  bool changes_units;  // as in `Plan`
};

class OwnedJointPlan {
 public:
  explicit OwnedJointPlan(const Description& description);  // throws std::invalid_argument
  const JointPlan& plan() const { return plan_; }

 private:
  void read_step(Reader& code, const Description& d, JointStep& step);
  void place_sides();

  JointPlan plan_{};
  std::vector<double> reals_;
  std::vector<JointStep> steps_;
  std::vector<int64_t> mask_at_, mask_positions_;
};

constexpr int kMostLanes = 8;  // of a vector of doubles

// As many inputs as a vector has lanes, and what becomes known of each alone, in the layouts of `Group`.
struct JointGroup {
  const double* const* inputs;
  const uint8_t* const* masks;    // null: none
  const double* const* graphs;    // null: none
  int count;
  double *rows, *lanes, *signals;
  double *k, *theta;  // of each input with itself; null: not asked for
  void* workspace;
  const Flag* cancel;
};

// One first input with a vector of second ones.
struct JointTile {
  const double *input, *sides;
  const double *signals2, *sides2;
  int same;  // the lane whose input is the first one; -1: none
  double *k, *theta;
  void* workspace;
  const Flag* cancel;
};

struct JointLoops {
  int lanes;
  int64_t (*workspace_bytes)(const JointPlan&);
  void (*prepare)(const JointPlan&, const JointGroup&);
  void (*pairs)(const JointPlan&, const JointTile&);
};

struct JointProblem {
  const double* x1;        // (n1, positions, channels)
  const uint8_t* masks1;   // (n1, positions) or null
  const double* graphs1;   // (n1, positions, positions) or null
  int64_t n1;
  const double* x2;  // null: x1 with itself, at half the cost
  const uint8_t* masks2;
  const double* graphs2;
  int64_t n2;
  double *nngp, *ntk;  // (n1, n2), or (n1,) where `diagonal`
  int threads;
  const Flag* cancel;
  bool diagonal;     // every input with itself
  int instructions;  // as in `Problem`
};

Outcome compute_joint(const JointPlan& plan, const JointProblem& problem);
const JointLoops& joint_loops(int instructions);

}  // namespace eqt
