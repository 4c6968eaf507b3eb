#include "plan.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

namespace eqt {
namespace {

constexpr int32_t kDiagonal[kAxes] = {};
constexpr int64_t kFewTerms = 27;  // those of windows of 2 × 2 × 2

int modulo(int x, int n) { return (x % n + n) % n; }

// One past the last position that a box's windows read, along an axis.
int reach(const Op& op, int a) { return op.stride[a] * (op.out[a] - 1) - op.low[a] + op.window[a]; }

bool reads_outside(const Op& op) {
  for (int a = 0; a < kAxes; ++a)
    if (op.low[a] > 0 || reach(op, a) > op.in[a]) return true;
  return false;
}

// Whether E[φ] may differ from 0.
bool has_mean(const Op& op) {
  if (op.offset != 0) return true;
  switch (op.dual) {
    case DualKind::piecewise_linear: return op.parameters[0] != 1;
    case DualKind::erf:
    case DualKind::sine:
    case DualKind::gabor:
    case DualKind::normalised:
    case DualKind::standardised: return false;
    default: return true;
  }
}

int sides_of(const Op& op, const Op* next) {
  switch (op.kind) {
    case OpKind::box: return !op.wrap && reads_outside(op);
    case OpKind::table:
    case OpKind::back:
    case OpKind::fork: return 0;
    case OpKind::join: return op.sides + (op.changes ? kJoinedSides : 0);  // E of both summands, see find_means
    case OpKind::decouple: return 1;
    case OpKind::affine:  // none where it is fused with the nonlinearity that follows
      return op.rated || !(next && next->kind == OpKind::dual && next->dual == DualKind::piecewise_linear && !next->changes);
    case OpKind::dual: return sides_of_dual(op);
  }
  return 0;
}

}  // namespace

OwnedPlan::OwnedPlan(const Description& d) : reals_(d.reals_size / 2) {
  if (!reals_.empty()) std::memcpy(reals_.data(), d.reals, reals_.size() * sizeof(double));
  Reader code(d.code, d.code_size);
  if (code.next() != kPlanVersion) throw std::invalid_argument("the plan was described by another version");
  plan_.channels = code.next();
  const int32_t stages = code.next();
  plan_.vector_count = code.next();
  plan_.in_double = code.next();
  plan_.single = code.next();
  plan_.units = code.next();
  plan_.changes_units = code.next();
  plan_.unit_bias = *within(reals_.data(), int64_t(reals_.size()), code.next(), 1);
  const int32_t labels = code.next();
  Rotations& rotations = rotations_;
  rotations.bandlimit = code.next();
  rotations.count = code.next();
  rotations.azimuths = code.next();
  const int32_t waves = code.next(), mixing = code.next(), weights = code.next();
  for (int32_t i = 0; i < stages; ++i) read_stage(code, d);
  if (stages_.empty()) throw std::invalid_argument("the plan has no stages");
  const Stage& last = stages_.back();
  ops_.resize(last.first + last.count + plan_.vector_count);
  for (Stage& stage : stages_)
    for (int i = 0; i < stage.count; ++i) {
      Op& op = ops_[stage.first + i];
      read_operation(code, d, op, stage.levels[i + 1].positions);
    }
  for (int i = 0; i < plan_.vector_count; ++i) {
    Op& op = ops_[last.first + last.count + i];
    read_operation(code, d, op, 1);
    plan_.vector_dual |= op.kind == OpKind::dual || op.kind == OpKind::join;
  }
  if (rotations.count > 0) {
    const int64_t size = int64_t(reals_.size()), products = entries_of_degrees(rotations.bandlimit);
    const int64_t half = rotations.azimuths / 2 + 1, factors = rotations.azimuths ? 2 * products : products;
    if (rotations.azimuths) rotations.waves = within(reals_.data(), size, waves, half * (2 * rotations.bandlimit - 1));
    rotations.mixing = within(reals_.data(), size, mixing, rotations.count * factors);
    rotations.weights = within(reals_.data(), size, weights, rotations.count);
    plan_.rotations = &rotations;
  }
  plan_.vector = ops_.data() + last.first + last.count;
  plan_.positions_in = stages_.front().levels.front().positions;
  plan_.positions_out = last.levels.back().positions;
  plan_.labels = within(d.tables, d.tables_size, labels, plan_.positions_out);
  plan_.block_weight = *within(reals_.data(), int64_t(reals_.size()), 0, 1);
  const auto [low, high] = std::minmax_element(plan_.labels, plan_.labels + plan_.positions_out);
  plan_.all_kept = *low >= 0;
  plan_.one_block = *low == *high;
  plan_.distance_only =
      stages_.size() == 1 && last.count == 0 && plan_.single && plan_.all_kept && !plan_.rotations;
  find_means();
  place_sides();
  plan_.dense = plan_.distance_only && is_dense();
  measure_fields();
  chain_stages();
}

void OwnedPlan::read_stage(Reader& code, const Description& d) {
  Stage stage{};
  stage.first = stages_.empty() ? 0 : stages_.back().first + stages_.back().count;
  stage.count = code.next();
  const auto offsets = [&] {
    const int32_t count = code.next(), at = code.next();
    return std::pair(count, at);
  };
  std::vector<std::pair<int32_t, int32_t>> described{offsets()};
  if (!stages_.empty()) {
    Pooled& pooled = stage.pooled;
    pooled.grid = code.next();
    code.next(pooled.in);
    code.next(pooled.out);
    code.next(pooled.window);
    code.next(pooled.stride);
    code.next(pooled.low);
    pooled.wrap = code.next();
    const int32_t blocks = code.next();
    pooled.scale = *within(reals_.data(), int64_t(reals_.size()), code.next(), 1);
    const int64_t positions = stages_.back().levels.back().positions;
    pooled.carried = code.next();
    if (pooled.carried > kDepth) throw std::invalid_argument("too many residual branches around a pool");
    for (int i = 0; i < pooled.carried; ++i) pooled.carry[i] = {code.next(), code.next(), 0};
    if (!pooled.grid) pooled.blocks = within(d.tables, d.tables_size, blocks, positions);
    for (size_t i = 0; i < stages_.size(); ++i) described.push_back(offsets());
  }
  stage.levels.resize(stage.count + 1);
  for (Level& level : stage.levels) {
    level.grid = code.next();
    code.next(level.shape);
    code.next(level.step);
    level.wrap = code.next();
    level.positions = code.next();
    const int32_t at = code.next(), rows = code.next();
    if (!level.grid) level.partners = within(d.tables, d.tables_size, at, rows * level.positions);
  }
  const auto found = [&](size_t i, const Level& level) {
    const auto [count, at] = described[i];
    return Offsets{count, within(d.tables, d.tables_size, at, int64_t(count) * (level.grid ? kAxes : 1))};
  };
  stage.offsets = found(0, stage.levels.front());
  for (size_t i = 1; i < described.size(); ++i) stage.own.push_back(found(i, stages_[i - 1].levels.front()));
  stages_.push_back(std::move(stage));
}

void OwnedPlan::read_operation(Reader& code, const Description& d, Op& op, int64_t positions) {
  op.kind = OpKind(code.next());
  code.next(op.in);
  code.next(op.out);
  code.next(op.window);
  code.next(op.stride);
  code.next(op.low);
  op.wrap = code.next();
  const int32_t index = code.next(), weights = code.next();
  op.weight_count = code.next();
  const bool flag = code.next();
  op.total = flag && op.kind == OpKind::table;
  op.rated = flag && op.kind == OpKind::affine;
  op.concatenates = flag && op.kind == OpKind::join;
  op.moves = flag && op.kind == OpKind::back;
  op.changes = op.kind == OpKind::join ? plan_.changes_units : flag && op.kind == OpKind::dual;
  op.dual = DualKind(code.next());
  op.slot = code.next();
  if (op.kind == OpKind::fork) plan_.slots = std::max(plan_.slots, op.slot + 1);
  if ((op.kind == OpKind::join || op.kind == OpKind::back) && (op.slot < 0 || op.slot >= plan_.slots))
    throw std::invalid_argument("a sum of branches of the plan has no beginning");
  const double* numbers = within(reals_.data(), int64_t(reals_.size()), code.next(), 4);
  take_numbers(op, numbers);
  if (op.kind == OpKind::dual && (op.dual == DualKind::polynomial || op.dual == DualKind::long_polynomial)) {
    if (op.weight_count < 1 || op.weight_count > (op.dual == DualKind::polynomial ? kShort : kLong) + 1)
      throw std::invalid_argument("a polynomial of the plan has a degree that is not there");
    op.weights = within(reals_.data(), int64_t(reals_.size()), weights, op.weight_count);
  }
  if (op.kind == OpKind::dual && is_tabulated(op.dual)) {
    const bool fits = op.weight_count == columns_of_table(op.dual) && op.parameters[1] >= 1 && op.parameters[1] <= 2046;
    if (!fits) throw std::invalid_argument("a table of the plan is not that of its function");
    const int64_t rows = 1 + int64_t(op.parameters[1]) * kTableNodes;
    op.weights = within(reals_.data(), int64_t(reals_.size()), weights, rows * op.weight_count);
  }
  if (op.kind != OpKind::table) return;
  op.index = within(d.tables, d.tables_size, index, positions * op.weight_count);
  op.weights = within(reals_.data(), int64_t(reals_.size()), weights, op.weight_count);
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
        mean = has_mean(op);
        break;
      case OpKind::fork: kept[op.slot] = mean; break;
      case OpKind::back: mean = kept[op.slot]; break;
      case OpKind::join:
        op.sides = mean && kept[op.slot] && !op.concatenates ? 2 : 0;
        plan_.means |= op.sides > 0;
        mean |= kept[op.slot];
    }
  }
}

void OwnedPlan::place_sides() {
  int64_t at = 0;
  int64_t unit = -1, kept[kDepth] = {};  // that of the inputs, which has its place in the end
  const auto place = [&](int i, int end, int64_t positions) {
    Op& op = ops_[i];
    op.sides = sides_of(op, i + 1 == end ? nullptr : &ops_[i + 1]);
    op.side_at = at;
    at += op.sides * positions;
    if (op.kind == OpKind::fork) kept[op.slot] = unit;
    if (op.kind == OpKind::back) unit = kept[op.slot];
    if (op.changes) unit = at++;
    op.unit_at = unit;
  };
  for (Stage& stage : stages_) {
    if (&stage != &stages_.front()) {
      stage.pooled.side_at = at;
      at += kPooledSides * stage.levels.front().positions;
    }
    for (int i = 0; i < stage.count; ++i) {
      const bool after = ops_[stage.first + i].kind == OpKind::affine;
      place(stage.first + i, stage.first + stage.count, stage.levels[after ? i + 1 : i].positions);
    }
  }
  const Stage& last = stages_.back();
  const int begin = last.first + last.count, end = int(ops_.size());
  for (int i = begin; i < end; ++i) place(i, end, plan_.vector_dual);
  const Level& level = last.levels.back();
  const bool every_pair = plan_.single || (plan_.one_block && (!level.grid || level.wrap));
  plan_.side_last = plan_.all_kept && every_pair ? -1 : at;
  if (plan_.side_last >= 0) at += plan_.positions_out;
  plan_.side_vector = at;
  if (plan_.vector_dual) ++at;
  plan_.side_unit = at;
  if (plan_.units) ++at;
  for (Op& op : ops_)
    if (op.unit_at < 0) op.unit_at = plan_.side_unit;
  plan_.side_size = at;
}

// Whether the operations on vectors are pairs of a layer and one piecewise linear nonlinearity in all, with a layer behind.
bool OwnedPlan::is_dense() const {
  if (plan_.vector_count < 2 || plan_.changes_units) return false;
  for (int o = 0; o < plan_.vector_count; ++o) {
    const Op& op = plan_.vector[o];
    const bool last = o + 1 == plan_.vector_count, layer = o % 2 == 0;
    if (op.kind != (layer ? OpKind::affine : OpKind::dual) || (layer && op.rated)) return false;
    if (layer && (op.sides == 0) == last) return false;  // fused with the nonlinearity that follows
    if (!layer && (op.dual != DualKind::piecewise_linear || op.parameters[0] != plan_.vector[1].parameters[0])) return false;
  }
  return true;
}

void OwnedPlan::measure_fields() {
  plan_.cells = 1;
  plan_.widest = 1;
  plan_.rows = 1;
  for (const Stage& stage : stages_) {
    int64_t columns = 0;
    if (&stage != &stages_.front()) plan_.rows = std::max(plan_.rows, stage.pooled.window[0] * stage.pooled.window[1]);
    for (int i = 0; i <= stage.count; ++i) {
      const Level& level = stage.levels[i];
      int64_t cells = level.positions;
      int64_t widest = level.shape[2];
      if (level.grid) columns += level.shape[2];
      const Op* op = nullptr;  // the next window, whose margins are kept at every level up to it
      for (int next = i; next < stage.count && !op; ++next) {
        const Op& found = ops_[stage.first + next];
        if (found.kind == OpKind::box || found.kind == OpKind::table) op = &found;
      }
      if (op && op->kind == OpKind::box) {
        cells = 1;
        for (int a = 0; a < kAxes; ++a) {
          widest = std::max(op->in[a], reach(*op, a)) + op->low[a];
          cells *= widest;
        }
        cells = std::max(cells, level.positions);  // after which another branch may begin on a finer grid
        widest = std::max(widest, int64_t(level.shape[2]));
        plan_.rows = std::max(plan_.rows, op->window[0] * op->window[1]);
      }
      plan_.cells = std::max(plan_.cells, cells);
      plan_.widest = std::max(plan_.widest, int(widest));
    }
    plan_.most_ops = std::max(plan_.most_ops, stage.count);
    plan_.columns = std::max(plan_.columns, columns);
  }
  if (plan_.rotations) plan_.cells = std::max(plan_.cells, int64_t(2) * rotations_.azimuths);
}

// Joins the stages: which fields over pairs of positions lie between them, and where.
void OwnedPlan::chain_stages() {
  std::vector<Offsets> all;
  for (const Stage& stage : stages_) all.push_back(stage.offsets);
  const Plan* last = chained(stages_.size(), all);
  std::vector<Plan*> main;
  for (const Plan* p = last;; p = p->pooled->fine) {
    main.insert(main.begin(), const_cast<Plan*>(p));
    if (!p->pooled) break;
  }
  for (size_t i = 1; i < stages_.size(); ++i) {
    std::vector<Offsets> offsets = stages_[i].own;
    offsets.push_back({1, kDiagonal});
    const_cast<Pooled*>(main[i]->pooled)->own = chained(i + 1, offsets);
  }
  for (Plan& plan : plans_) plan.pair_cells = plan_.pair_cells, plan.pools = plan_.pools, plan.slabs = plan_.slabs;
  plan_ = *last;
}

// The plan of stage number count - 1, with those of the stages before it, where each runs the given pair offsets.
const Plan* OwnedPlan::chained(size_t count, const std::vector<Offsets>& offsets) {
  int64_t pair_cells = 0;
  int slabs = 0;
  const Plan* before = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const Stage& stage = stages_[i];
    Plan plan = plan_;
    plan.field_count = stage.count;
    plan.field = ops_.data() + stage.first;
    plan.levels = stage.levels.data();
    plan.offset_count = offsets[i].count;
    plan.offsets = offsets[i].labels;
    plan.positions_out = stage.levels.back().positions;
    if (before) {
      Pooled pooled = stage.pooled;
      pooled.fine = before;
      pooled.begin = pair_cells;
      place_slabs(stage, offsets[i], pooled);
      pooled.number = int(i) - 1;
      pooled.slab_at = slabs;
      slabs += pooled.slab_count;
      find_last_offsets(pooled);
      pair_cells += pooled.cells;
      for (int c = 0; c < pooled.carried; ++c) {
        pooled.carry[c].begin = pair_cells;
        pair_cells += pooled.cells;
      }
      pools_.push_back(pooled);
      plan.pooled = &pools_.back();
    }
    plans_.push_back(plan);
    before = &plans_.back();
  }
  plan_.pair_cells = std::max(plan_.pair_cells, pair_cells);
  plan_.pools = std::max(plan_.pools, int(count) - 1);
  plan_.slabs = std::max(plan_.slabs, slabs);
  return before;
}

// The pairs of blocks that a stage's pair offsets begin with; several may begin with the same.
void OwnedPlan::place_slabs(const Stage& stage, const Offsets& offsets, Pooled& pooled) {
  const Level& level = stage.levels.front();
  const int* n = level.shape;
  bool torus = level.wrap;
  for (int i = 0; i < stage.count; ++i) {
    const Op& op = ops_[stage.first + i];
    if (op.kind != OpKind::box) continue;
    torus = torus && op.wrap;
    break;
  }
  int64_t terms = pooled.grid ? 1 : kFewTerms + 1;
  for (int a = 0; a < kAxes; ++a) terms *= 2 * pooled.window[a] - 1;
  pooled.narrow = terms <= kFewTerms;
  pooled.inside = true;
  for (int a = 0; a < kAxes; ++a)
    if (pooled.low[a] > 0 || pooled.stride[a] * (pooled.out[a] - 1) - pooled.low[a] + pooled.window[a] > pooled.in[a])
      pooled.inside = false;
  int64_t differences = 1;
  for (int a = 0; a < kAxes; ++a) differences *= 2 * n[a] - 1;
  std::vector<int32_t>& of_difference = numbers_.emplace_back(differences, -1);
  std::vector<int32_t>& of_offset = numbers_.emplace_back(offsets.count);
  std::vector<Slab>& slabs = slabs_.emplace_back();
  std::map<std::array<int, kAxes>, int> found;
  for (int f = 0; f < offsets.count; ++f) {
    std::array<int, kAxes> offset;
    for (int a = 0; a < kAxes; ++a) {
      offset[a] = offsets.labels[kAxes * f + a] * level.step[a];
      if (torus) offset[a] = modulo(offset[a], n[a]);
    }
    const auto [at, is_new] = found.try_emplace(offset, int(slabs.size()));
    of_offset[f] = at->second;
    if (!is_new) continue;
    Slab slab{};
    slab.begin = pooled.cells;
    int64_t cells = 1;
    for (int a = 0; a < kAxes; ++a) {
      const int o = offset[a];
      const bool none = !torus && (o >= n[a] || o <= -n[a]);
      slab.low[a] = torus || none || o > 0 ? 0 : -o;
      slab.high[a] = none ? 0 : torus || o < 0 ? n[a] : n[a] - o;
      cells *= std::max(slab.high[a] - slab.low[a], 0);
    }
    pooled.cells += cells;
    slabs.push_back(slab);
    if (cells == 0) continue;
    // On a torus a difference and that less the whole length are one.
    for (int turns = 0; turns < (torus ? 8 : 1); ++turns) {
      int64_t difference = 0;
      bool inside = true;
      for (int a = 0; a < kAxes; ++a) {
        const int d = offset[a] - (turns >> a & 1) * n[a];
        inside = inside && d > -n[a];
        difference = difference * (2 * n[a] - 1) + d + n[a] - 1;
      }
      if (inside) of_difference[difference] = at->second;
    }
  }
  pooled.slabs = slabs.data();
  pooled.slab_count = int(slabs.size());
  pooled.slab_of_offset = of_offset.data();
  pooled.slab_of_difference = of_difference.data();
}

// Windows whose begins are s·Δ apart hold the pairs of positions that are t = s·Δ + r apart, |r| < w along each axis.
void OwnedPlan::find_last_offsets(Pooled& pooled) {
  const Plan& fine = *pooled.fine;
  std::vector<int32_t>& last = numbers_.emplace_back(pooled.slab_count, 0);
  pooled.last_of_slab = last.data();
  const Level& level = fine.levels[fine.field_count];
  bool known = pooled.grid && level.grid;
  // What is kept for a branch around the pool comes from the same offset.
  for (int a = 0; a < kAxes; ++a) known = known && !(pooled.carried && pooled.stride[a] != 1);
  if (!known) {
    for (int32_t& number : last) number = fine.offset_count - 1;
    return;
  }
  const int *n = level.shape, *m = pooled.out;
  const auto number_of = [&](const int (&offset)[kAxes]) -> int64_t {
    int64_t number = 0;
    for (int a = 0; a < kAxes; ++a) {
      const int o = level.wrap ? modulo(offset[a], n[a]) : offset[a];
      if (o <= -n[a] || o >= n[a]) return -1;
      number = number * (2 * n[a] - 1) + o + n[a] - 1;
    }
    return number;
  };
  int64_t offsets = 1;
  for (int a = 0; a < kAxes; ++a) offsets *= 2 * n[a] - 1;
  std::vector<int32_t> number_of_offset(offsets, -1);
  for (int f = 0; f < fine.offset_count; ++f) {
    int offset[kAxes];
    for (int a = 0; a < kAxes; ++a) offset[a] = fine.offsets[kAxes * f + a] * level.step[a];
    if (const int64_t number = number_of(offset); number >= 0) number_of_offset[number] = f;
  }
  int64_t differences = 1, reach = 1;
  for (int a = 0; a < kAxes; ++a) differences *= 2 * m[a] - 1, reach *= 2 * pooled.window[a] - 1;
  for (int64_t difference = 0; difference < differences; ++difference) {
    const int slab = pooled.slab_of_difference[difference];
    for (int64_t r = 0; slab >= 0 && r < reach; ++r) {
      int offset[kAxes];
      int64_t rest = difference, within = r;
      for (int a = kAxes - 1; a >= 0; --a) {
        const int blocks = int(rest % (2 * m[a] - 1)) - (m[a] - 1), width = 2 * pooled.window[a] - 1;
        offset[a] = pooled.stride[a] * blocks + int(within % width) - (pooled.window[a] - 1);
        rest /= 2 * m[a] - 1, within /= width;
      }
      const int64_t number = number_of(offset);
      if (number >= 0) last[slab] = std::max(last[slab], number_of_offset[number]);
    }
  }
}

}  // namespace eqt
