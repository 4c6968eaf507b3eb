#include "plan.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace eqt {
namespace {

constexpr int kVersion = 4;

// Takes numbers from an array one after another.
class Reader {
 public:
  Reader(const int32_t* at, int64_t size) : at_(at), end_(at + size) {}
  int32_t next() {
    if (at_ == end_) throw std::invalid_argument("the plan's description is too short");
    return *at_++;
  }
  void next(int (&out)[kAxes]) {
    for (int& value : out) value = next();
  }

 private:
  const int32_t *at_, *end_;
};

// One past the last position that a box's windows read, along an axis.
int reach(const Op& op, int a) { return op.stride[a] * (op.out[a] - 1) - op.low[a] + op.window[a]; }

template <class T>
const T* within(const T* array, int64_t size, int64_t at, int64_t count) {
  if (at < 0 || at + count > size) throw std::invalid_argument("a table of the plan lies outside the tables");
  return array + at;
}

bool reads_outside(const Op& op) {
  for (int a = 0; a < kAxes; ++a)
    if (op.low[a] > 0 || reach(op, a) > op.in[a]) return true;
  return false;
}

int sides_of(const Op& op, const Op* next) {
  switch (op.kind) {
    case OpKind::box: return !op.wrap && reads_outside(op);
    case OpKind::table:
    case OpKind::fork: return 0;
    case OpKind::join: return op.sides;  // E of both summands, see find_means
    case OpKind::decouple: return 1;
    case OpKind::affine:  // none where it is fused with the nonlinearity that follows
      return !(next && next->kind == OpKind::dual && next->dual == DualKind::piecewise_linear);
    case OpKind::dual: return dual_sides(op.dual);
  }
  return 0;
}

}  // namespace

OwnedPlan::OwnedPlan(const Description& d) : reals_(d.reals_size / 2) {
  if (!reals_.empty()) std::memcpy(reals_.data(), d.reals, reals_.size() * sizeof(double));
  Reader code(d.code, d.code_size);
  if (code.next() != kVersion) throw std::invalid_argument("the plan was described by another version");
  plan_.channels = code.next();
  plan_.field_count = code.next();
  plan_.vector_count = code.next();
  plan_.fibre_count = code.next();
  plan_.in_double = code.next();
  plan_.single = code.next();
  const int32_t fibres = code.next(), labels = code.next();
  Rotations& rotations = rotations_;
  rotations.bandlimit = code.next();
  rotations.count = code.next();
  rotations.azimuths = code.next();
  const int32_t waves = code.next(), mixing = code.next(), weights = code.next();
  levels_.resize(plan_.field_count + 1);
  for (Level& level : levels_) {
    level.grid = code.next();
    code.next(level.shape);
    code.next(level.step);
    level.wrap = code.next();
    level.positions = code.next();
    const int32_t at = code.next(), rows = code.next();
    if (!level.grid) level.partners = within(d.tables, d.tables_size, at, rows * level.positions);
  }
  ops_.resize(plan_.field_count + plan_.vector_count);
  for (size_t i = 0; i < ops_.size(); ++i) {
    Op& op = ops_[i];
    op.kind = OpKind(code.next());
    code.next(op.in);
    code.next(op.out);
    code.next(op.window);
    code.next(op.stride);
    code.next(op.low);
    op.wrap = code.next();
    const int32_t index = code.next(), weights = code.next();
    op.window_size = code.next();
    op.total = code.next();
    op.dual = DualKind(code.next());
    op.slot = code.next();
    op.fork = code.next();
    if (op.kind == OpKind::fork) plan_.slots = std::max(plan_.slots, op.slot + 1);
    const int first = int(i) < plan_.field_count ? 0 : plan_.field_count;  // of the operations that this one belongs to
    if (op.kind == OpKind::join && (op.slot >= plan_.slots || op.fork < 0 || op.fork + first >= int(i)))
      throw std::invalid_argument("a residual sum of the plan has no beginning");
    const double* pair = within(reals_.data(), int64_t(reals_.size()), code.next(), 2);
    op.first = pair[0];
    op.second = pair[1];
    if (op.kind == OpKind::table) {
      op.index = within(d.tables, d.tables_size, index, levels_.at(i + 1).positions * op.window_size);
      op.weights = within(reals_.data(), int64_t(reals_.size()), weights, op.window_size);
    }
  }
  if (rotations.count > 0) {
    const int64_t size = int64_t(reals_.size()), products = entries_of_degrees(rotations.bandlimit);
    const int64_t half = rotations.azimuths / 2 + 1, factors = rotations.azimuths ? 2 * products : products;
    if (rotations.azimuths) rotations.waves = within(reals_.data(), size, waves, half * (2 * rotations.bandlimit - 1));
    rotations.mixing = within(reals_.data(), size, mixing, rotations.count * factors);
    rotations.weights = within(reals_.data(), size, weights, rotations.count);
    plan_.rotations = &rotations;
  }
  plan_.levels = levels_.data();
  plan_.field = ops_.data();
  plan_.vector = ops_.data() + plan_.field_count;
  plan_.positions_in = levels_.front().positions;
  plan_.positions_out = levels_.back().positions;
  plan_.fibres = within(d.tables, d.tables_size, fibres, int64_t(plan_.fibre_count) * (levels_[0].grid ? kAxes : 1));
  plan_.labels = within(d.tables, d.tables_size, labels, plan_.positions_out);
  plan_.block_weight = *within(reals_.data(), int64_t(reals_.size()), 0, 1);
  const auto [low, high] = std::minmax_element(plan_.labels, plan_.labels + plan_.positions_out);
  plan_.all_kept = *low >= 0;
  plan_.one_block = *low == *high;
  for (int i = 0; i < plan_.vector_count; ++i) 
    plan_.vector_dual |= plan_.vector[i].kind == OpKind::dual || plan_.vector[i].kind == OpKind::join;
  plan_.distance_only = plan_.field_count == 0 && plan_.single && plan_.all_kept && !plan_.rotations;
  find_means();
  place_sides();
  measure_fields();
}

// Which residual sums add two fields of non-zero mean: those need the means of each input as sides.
void OwnedPlan::find_means() {
  if (plan_.slots > kDepth) throw std::invalid_argument("too many residual branches inside each other");
  bool mean = true, kept[kDepth] = {};
  for (Op& op : ops_) {
    switch (op.kind) {
      case OpKind::box:
      case OpKind::table:
      case OpKind::affine: mean = false; break;
      case OpKind::decouple: break;
      case OpKind::dual:
        mean = op.dual == DualKind::piecewise_linear ? op.first != 1 : op.dual != DualKind::erf && op.dual != DualKind::sine;
        break;
      case OpKind::fork: kept[op.slot] = mean; break;
      case OpKind::join:
        op.sides = mean && kept[op.slot] ? 2 : 0;
        plan_.means |= op.sides > 0;
        mean |= kept[op.slot];
    }
  }
}

void OwnedPlan::place_sides() {
  int64_t at = 0;
  for (int i = 0; i < int(ops_.size()); ++i) {
    Op& op = ops_[i];
    const bool field = i < plan_.field_count;
    const bool last = i + 1 == (field ? plan_.field_count : int(ops_.size()));
    op.sides = sides_of(op, last ? nullptr : &ops_[i + 1]);
    op.side_at = at;
    if (field) at += op.sides * levels_[op.kind == OpKind::affine ? i + 1 : i].positions;
    else if (plan_.vector_dual) at += op.sides;
  }
  const Level& end = levels_.back();
  const bool every_pair = plan_.single || (plan_.one_block && (!end.grid || end.wrap));
  plan_.side_last = plan_.all_kept && every_pair ? -1 : at;
  if (plan_.side_last >= 0) at += plan_.positions_out;
  plan_.side_vector = at;
  if (plan_.vector_dual) ++at;
  plan_.side_size = at;
}

void OwnedPlan::measure_fields() {
  plan_.cells = 1;
  plan_.widest = 1;
  plan_.rows = 1;
  for (int i = 0; i <= plan_.field_count; ++i) {
    int64_t cells = levels_[i].positions;
    int64_t widest = levels_[i].shape[2];
    const Op* op = nullptr;  // the next window, whose margins are kept at every level up to it
    for (int next = i; next < plan_.field_count && !op; ++next)
      if (plan_.field[next].kind == OpKind::box || plan_.field[next].kind == OpKind::table) op = &plan_.field[next];
    if (op && op->kind == OpKind::box) {
      cells = 1;
      for (int a = 0; a < kAxes; ++a) {
        widest = std::max(op->in[a], reach(*op, a)) + op->low[a];
        cells *= widest;
      }
      plan_.rows = std::max(plan_.rows, op->window[0] * op->window[1]);
    }
    plan_.cells = std::max(plan_.cells, cells);
    plan_.widest = std::max(plan_.widest, int(widest));
  }
  if (plan_.rotations) plan_.cells = std::max(plan_.cells, int64_t(2) * rotations_.azimuths);
}

}  // namespace eqt
