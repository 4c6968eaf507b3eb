// Joins the stages of a plan: which fields over pairs of positions lie between them, and where.
#include <algorithm>
#include <array>
#include <map>

#include "plan.hpp"

namespace eqt {
namespace {

constexpr int32_t kDiagonal[kAxes] = {};
constexpr int64_t kFewTerms = 27;  // those of windows of 2 × 2 × 2

int modulo(int x, int n) { return (x % n + n) % n; }

}  // namespace

void OwnedPlan::chain_stages() {
  std::vector<Fibres> all;
  for (const Stage& stage : stages_) all.push_back(stage.fibres);
  const Plan* last = chained(stages_.size(), all);
  std::vector<Plan*> main;
  for (const Plan* p = last;; p = p->pooled->fine) {
    main.insert(main.begin(), const_cast<Plan*>(p));
    if (!p->pooled) break;
  }
  for (size_t i = 1; i < stages_.size(); ++i) {
    std::vector<Fibres> fibres = stages_[i].own;
    fibres.push_back({1, kDiagonal});
    const_cast<Pooled*>(main[i]->pooled)->own = chained(i + 1, fibres);
  }
  for (Plan& plan : plans_) plan.pair_cells = plan_.pair_cells, plan.pools = plan_.pools, plan.slabs = plan_.slabs;
  plan_ = *last;
}

// The plan of stage number count - 1, with those of the stages before it, where each runs the given fibres.
const Plan* OwnedPlan::chained(size_t count, const std::vector<Fibres>& fibres) {
  int64_t pair_cells = 0;
  int slabs = 0;
  const Plan* before = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const Stage& stage = stages_[i];
    Plan plan = plan_;
    plan.field_count = stage.count;
    plan.field = ops_.data() + stage.first;
    plan.levels = stage.levels.data();
    plan.fibre_count = fibres[i].count;
    plan.fibres = fibres[i].labels;
    plan.positions_out = stage.levels.back().positions;
    if (before) {
      Pooled pooled = stage.pooled;
      pooled.fine = before;
      pooled.begin = pair_cells;
      place_slabs(stage, fibres[i], pooled);
      pooled.number = int(i) - 1;
      pooled.slab_at = slabs;
      slabs += pooled.slab_count;
      find_last_fibres(pooled);
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

// The pairs of blocks that a stage's fibres begin with; several fibres may begin with the same.
void OwnedPlan::place_slabs(const Stage& stage, const Fibres& fibres, Pooled& pooled) {
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
  std::vector<int32_t>& of_fibre = numbers_.emplace_back(fibres.count);
  std::vector<Slab>& slabs = slabs_.emplace_back();
  std::map<std::array<int, kAxes>, int> found;
  for (int f = 0; f < fibres.count; ++f) {
    std::array<int, kAxes> offset;
    for (int a = 0; a < kAxes; ++a) {
      offset[a] = fibres.labels[kAxes * f + a] * level.step[a];
      if (torus) offset[a] = modulo(offset[a], n[a]);
    }
    const auto [at, is_new] = found.try_emplace(offset, int(slabs.size()));
    of_fibre[f] = at->second;
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
  pooled.slab_of_fibre = of_fibre.data();
  pooled.slab_of_difference = of_difference.data();
}

// Windows whose begins are s·Δ apart hold the pairs of positions that are t = s·Δ + r apart, |r| < w along each axis.
void OwnedPlan::find_last_fibres(Pooled& pooled) {
  const Plan& fine = *pooled.fine;
  std::vector<int32_t>& last = numbers_.emplace_back(pooled.slab_count, 0);
  pooled.last_of_slab = last.data();
  const Level& level = fine.levels[fine.field_count];
  bool known = pooled.grid && level.grid;
  // What is kept for a branch around the pool comes from the fibre with the same offset.
  for (int a = 0; a < kAxes; ++a) known = known && !(pooled.carried && pooled.stride[a] != 1);
  if (!known) {
    for (int32_t& fibre : last) fibre = fine.fibre_count - 1;
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
  std::vector<int32_t> fibre_of(offsets, -1);
  for (int f = 0; f < fine.fibre_count; ++f) {
    int offset[kAxes];
    for (int a = 0; a < kAxes; ++a) offset[a] = fine.fibres[kAxes * f + a] * level.step[a];
    if (const int64_t number = number_of(offset); number >= 0) fibre_of[number] = f;
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
      if (number >= 0) last[slab] = std::max(last[slab], fibre_of[number]);
    }
  }
}

}  // namespace eqt
