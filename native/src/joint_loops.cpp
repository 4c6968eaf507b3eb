// The loops over fields of all pairs of positions, compiled once for each instruction set.
#include "joint_field.hpp"

namespace eqt::EQT_ISA {
namespace {

// Inputs with themselves: their fields as far as anything depends on them, and what they leave for pairs.
void prepare(const JointPlan& plan, const JointGroup& group) {
  constexpr int L = kLanes<double>;
  static_assert(L <= kMostLanes);
  const JointMemory memory(plan, group.workspace);
  const JointSides sides{plan, memory, group.lanes};
  const JointField field{plan, memory, group.signals, group.signals, group.lanes, group.lanes, -1, true};
  sides.begin(group);
  const int fields = group.k ? plan.step_count : plan.own_count;
  if (fields) field.start();
  int done = 0;  // steps whose fields are there
  for (int s = 0; s < plan.step_count; ++s) {
    if (is_set(group.cancel)) return;
    const JointStep& step = plan.steps[s];
    if (step.kind == JointKind::mix || step.kind == JointKind::square) {
      sides.weights(step, memory.field(step.to));
      sides.change(step);
      field.at_once(step);
      sides.after_mix(step, memory.field(step.to));
      done = s + 1;
      continue;
    }
    sides.advance(step);
    if (s < done || s >= fields) continue;
    if (!in_rows(step)) {
      field.at_once(step);
      done = s + 1;
      continue;
    }
    // Rows are run once what all of their steps need is known.
    int end = s + 1;
    while (end < plan.step_count && in_rows(plan.steps[end]) && plan.steps[end].to == step.to) sides.advance(plan.steps[end++]);
    field.rows(s);
    s = end - 1;
    done = end;
  }
  sides.end(plan.step_count ? plan.steps[plan.step_count - 1].to : 0);
  if (group.k) field.result(group.k, group.theta);
  for (int l = 0; l < L; ++l)
    for (int64_t at = 0; at < plan.side_size; ++at) group.rows[l * plan.side_size + at] = group.lanes[at * L + l];
}

void pairs(const JointPlan& plan, const JointTile& tile) {
  const JointMemory memory(plan, tile.workspace);
  const JointField field{plan, memory, tile.input, tile.signals2, tile.sides, tile.sides2, tile.same, false};
  field.start();
  for (int s = 0; s < plan.step_count;) {
    if (is_set(tile.cancel)) return;
    if (in_rows(plan.steps[s])) s = field.rows(s);
    else field.at_once(plan.steps[s++]);
  }
  field.result(tile.k, tile.theta);
}

constexpr JointLoops kLoops{kLanes<double>, JointMemory::bytes, prepare, pairs};

}  // namespace

const JointLoops& joint_loops() { return kLoops; }

}  // namespace eqt::EQT_ISA
