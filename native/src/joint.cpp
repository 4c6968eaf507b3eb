// Reads descriptions of fields over all pairs of positions (kernels/engines/cpu/structured.py writes them), and runs them:
// panels of inputs that are prepared once, pairs of them shared out among threads.
#include "joint.hpp"

#include <cstring>
#include <memory>

#include "sharing.hpp"

namespace eqt {
namespace {

constexpr double kThreadWork = 2e5;

bool by_input(const JointStep& step) { return step.mixing != Mixing::given && step.mixing != Mixing::graph; }

// Numbers that a step needs of each input alone.
int64_t sides_of(const JointStep& step) {
  switch (step.kind) {
    case JointKind::dual: return step.before * step.op.sides;
    case JointKind::mix: return !by_input(step) ? 0 : step.index ? step.size : step.before * step.before;
    default: return step.before * (joint_sides(step.kind) + (step.joins_units ? kJoinedSides : 0));
  }
}

// Whether it adds a bias to fields in units.
bool reads_units(const JointStep& step) {
  return step.kind == JointKind::affine || step.kind == JointKind::square || (step.kind == JointKind::mix && step.bias != 0);
}

}  // namespace

OwnedJointPlan::OwnedJointPlan(const Description& d) : reals_(d.reals_size / 2) {
  if (!reals_.empty()) std::memcpy(reals_.data(), d.reals, reals_.size() * sizeof(double));
  Reader code(d.code, d.code_size);
  if (code.next() != kStepsVersion) throw std::invalid_argument("the plan was described by another version");
  plan_.channels = code.next();
  plan_.positions = code.next();
  plan_.fields = code.next();
  plan_.step_count = code.next();
  plan_.masks = code.next();
  const bool graphs = code.next();
  plan_.changes_units = code.next();
  if (plan_.channels < 1 || plan_.positions < 1 || plan_.fields < 1 || plan_.step_count < 0 || plan_.masks < 0)
    throw std::invalid_argument("the plan is empty");
  for (int i = 0; i < plan_.masks; ++i) mask_positions_.push_back(code.next());
  steps_.resize(plan_.step_count);
  plan_.widest = plan_.positions;
  plan_.graph_at = graphs ? 0 : -1;
  for (JointStep& step : steps_) read_step(code, d, step);
  place_sides();
  plan_.steps = steps_.data();
  plan_.mask_at = mask_at_.data();
  plan_.mask_positions = mask_positions_.data();
}

void OwnedJointPlan::read_step(Reader& code, const Description& d, JointStep& step) {
  const auto number = [&](int count, int least) {
    const int found = code.next();
    if (found < least || found >= count) throw std::invalid_argument("a step of the plan names what is not there");
    return found;
  };
  step = JointStep{};
  step.kind = JointKind(code.next());
  const bool masks = step.kind == JointKind::centres || step.kind == JointKind::present;
  const int count = masks ? plan_.masks : plan_.fields;
  step.from = number(count, 0);
  step.to = number(count, 0);
  step.before = code.next();
  step.after = code.next();
  const int32_t index = code.next(), weights = code.next();
  step.size = code.next();
  step.mixing = Mixing(code.next());
  const bool flag = code.next();
  step.op.dual = DualKind(code.next());
  const double* numbers = within(reals_.data(), int64_t(reals_.size()), code.next(), 4);
  step.mask_before = number(plan_.masks, -1);
  step.mask_after = number(plan_.masks, -1);
  const auto table = [&](int64_t size) { return within(d.tables, d.tables_size, index, size); };
  const auto reals = [&](int64_t size) { return within(reals_.data(), int64_t(reals_.size()), weights, size); };
  switch (step.kind) {
    case JointKind::window:
      step.index = table(step.after * step.size);
      step.weights = reals(step.size);
      break;
    case JointKind::mix:
      if (step.mixing <= Mixing::sum && step.mixing != Mixing::graph) step.index = table(step.after + 1 + step.size);
      if (step.mixing == Mixing::given) step.weights = reals(step.size);
      step.scale = numbers[0], step.growth = numbers[1];
      step.bias = numbers[2], step.sharpness = numbers[3];
      step.centred = flag;
      break;
    case JointKind::dual:
      step.op.kind = OpKind::dual;
      step.op.weight_count = step.size;
      take_numbers(step.op, numbers);
      step.op.changes = flag;
      step.op.sides = sides_of_dual(step.op);
      if (step.op.dual == DualKind::polynomial || step.op.dual == DualKind::long_polynomial) step.op.weights = reals(step.size);
      break;
    case JointKind::affine:
      step.op.kind = OpKind::affine;
      step.op.rated = flag;
      take_numbers(step.op, numbers);
      break;
    case JointKind::combine:
      step.own = numbers[0], step.other = numbers[1];
      step.own_mean = numbers[2], step.other_mean = numbers[3];
      step.multiplies_means = flag;
      step.joins_units = plan_.changes_units && step.other != 0;
      break;
    case JointKind::normalise:
      step.epsilon = numbers[0];
      step.over_all = flag;
      break;
    case JointKind::square:
      step.scale = numbers[0];
      step.bias = numbers[2];
      step.centred = flag;
      break;
    case JointKind::drop: step.scale = numbers[0]; break;
    case JointKind::centres: step.index = table(step.after); break;
    case JointKind::present: step.index = table(step.before); break;
    default: break;
  }
  plan_.widest = std::max({plan_.widest, step.before, step.after});
}

void OwnedJointPlan::place_sides() {
  int64_t at = plan_.graph_at < 0 ? 0 : plan_.positions * plan_.positions;
  for (int64_t positions : mask_positions_) {
    mask_at_.push_back(at);
    at += positions;
  }
  for (int i = 0; i < plan_.step_count; ++i) {
    JointStep& step = steps_[i];
    const bool graph = step.kind == JointKind::mix && step.mixing == Mixing::graph;
    step.side_at = graph ? plan_.graph_at : at;
    at += sides_of(step);
    step.unit_at = plan_.changes_units && reads_units(step) ? at++ : -1;
    if (step.kind == JointKind::mix || step.kind == JointKind::square) plan_.own_count = i + 1;
    if (step.kind == JointKind::mix)
      for (int64_t p = 0; p < step.after; ++p)
        plan_.most_entries = std::max<int64_t>(plan_.most_entries, step.index ? step.index[p + 1] - step.index[p] : step.before);
  }
  plan_.side_end = at;
  plan_.side_size = at + 1 + plan_.changes_units;
}

namespace {

class Computation {
 public:
  Computation(const JointPlan& plan, const JointProblem& problem)
      : plan_(plan), problem_(problem), loops_(joint_loops(problem.instructions)), lanes_(loops_.lanes) {
    double cells = double(plan.positions) * double(plan.positions) * plan.channels / 8;
    for (int i = 0; i < plan.step_count; ++i) cells += double(plan.steps[i].after) * double(plan.steps[i].after);
    cells *= double(problem.n1) * double(problem.diagonal ? 1 : problem.n2) / lanes_;
    threads_ = std::clamp(int(std::min(cells / kThreadWork, 1e6)), 1, std::max(problem.threads, 1));
    rooms_.reserve(threads_);
    threads_ = as_many_as_fit(threads_, [&] { rooms_.push_back(std::make_unique<Room>(loops_.workspace_bytes(plan), lanes_)); });
  }

  Outcome run() {
    const Inputs first{problem_.x1, problem_.masks1, problem_.graphs1};
    const bool symmetric = problem_.x2 == nullptr;
    const Inputs second = symmetric ? first : Inputs{problem_.x2, problem_.masks2, problem_.graphs2};
    const int64_t step = panel_inputs(), n2 = symmetric ? problem_.n1 : problem_.n2;
    for (int64_t i = 0; i < problem_.n1 && !cancelled(); i += step) {
      const Panel rows(*this, first, i, std::min(i + step, problem_.n1));
      for (int64_t j = symmetric ? i : 0; j < n2 && !problem_.diagonal && !cancelled(); j += step) {
        if (symmetric && i == j) pairs(rows, rows);
        else pairs(rows, Panel(*this, second, j, std::min(j + step, n2)));
      }
    }
    return cancelled() ? Outcome::cancelled : Outcome::done;
  }

 private:
  // What one thread works in.
  struct Room {
    Buffer<char> workspace;
    Buffer<double> outputs;  // K and Θ of a tile

    Room(int64_t bytes, int lanes) : workspace(bytes), outputs(2 * lanes) {}
  };

  struct Inputs {
    const double* x;
    const uint8_t* masks;
    const double* graphs;
  };

  // A range of inputs with what is known of each alone.
  struct Panel {
    int64_t begin, end, groups;
    const double* inputs;
    Buffer<double> rows, lanes, signals;

    Panel(const Computation& c, const Inputs& of, int64_t first, int64_t last)
        : begin(first), end(last), groups((last - first + c.lanes_ - 1) / c.lanes_), inputs(of.x + first * c.signal_size()),
          rows(groups * c.lanes_ * c.plan_.side_size), lanes(groups * c.lanes_ * c.plan_.side_size),
          signals(groups * c.lanes_ * c.signal_size()) {
      share_out(groups, c.threads_, [&](int64_t g, int thread) { prepare(c, of, g, thread); });
    }

    void prepare(const Computation& c, const Inputs& of, int64_t g, int thread) {
      const JointPlan& plan = c.plan_;
      const int64_t at = g * c.lanes_, positions = plan.positions;
      const int count = int(std::min<int64_t>(c.lanes_, end - begin - at));
      const double *signal[kMostLanes], *graph[kMostLanes];  // not vectors: threads that share work take no memory
      const uint8_t* mask[kMostLanes];
      for (int l = 0; l < count; ++l) {
        const int64_t i = begin + at + l;
        signal[l] = of.x + i * c.signal_size();
        if (of.masks) mask[l] = of.masks + i * positions;
        if (of.graphs) graph[l] = of.graphs + i * positions * positions;
      }
      double* out = c.rooms_[thread]->outputs.get();
      const bool own = c.problem_.diagonal;
      const JointGroup group{signal, of.masks ? mask : nullptr, of.graphs ? graph : nullptr, count,
                             rows.get() + at * plan.side_size, lanes.get() + at * plan.side_size,
                             signals.get() + at * c.signal_size(), own ? out : nullptr, own ? out + c.lanes_ : nullptr,
                             c.rooms_[thread]->workspace.get(), c.problem_.cancel};
      c.loops_.prepare(plan, group);
      for (int l = 0; own && l < count; ++l) {
        c.problem_.nngp[begin + at + l] = group.k[l];
        c.problem_.ntk[begin + at + l] = group.theta[l];
      }
    }
  };

  int64_t signal_size() const { return plan_.positions * plan_.channels; }
  bool cancelled() const { return is_set(problem_.cancel); }

  int64_t panel_inputs() const {
    const int64_t each = (2 * plan_.side_size + signal_size()) * int64_t(sizeof(double));
    return std::max<int64_t>(kPanelBytes / each, 1) / lanes_ * lanes_ + lanes_;
  }

  void pairs(const Panel& rows, const Panel& columns) {
    const int64_t n = rows.end - rows.begin;
    const bool symmetric = problem_.x2 == nullptr;
    share_out(columns.groups * n, threads_, [&](int64_t item, int thread) {
      const int64_t g = item / n, r = item % n, i = rows.begin + r, j = columns.begin + g * lanes_;
      if (cancelled() || (symmetric && j + lanes_ <= i)) return;  // nothing below the diagonal
      double* out = rooms_[thread]->outputs.get();
      const int same = symmetric && i >= j && i < j + lanes_ ? int(i - j) : -1;
      const JointTile tile{rows.inputs + r * signal_size(), rows.rows.get() + r * plan_.side_size,
                           columns.signals.get() + g * lanes_ * signal_size(),
                           columns.lanes.get() + g * lanes_ * plan_.side_size, same, out, out + lanes_,
                           rooms_[thread]->workspace.get(), problem_.cancel};
      loops_.pairs(plan_, tile);
      for (int l = 0; l < lanes_ && j + l < columns.end; ++l) {
        if (symmetric && j + l < i) continue;
        put(i, j + l, tile.k[l], tile.theta[l]);
        if (symmetric) put(j + l, i, tile.k[l], tile.theta[l]);
      }
    });
  }

  void put(int64_t i, int64_t j, double k, double theta) const {
    const int64_t at = i * (problem_.x2 ? problem_.n2 : problem_.n1) + j;
    problem_.nngp[at] = k;
    problem_.ntk[at] = theta;
  }

  const JointPlan& plan_;
  const JointProblem& problem_;
  const JointLoops& loops_;
  const int lanes_;
  int threads_ = 1;
  std::vector<std::unique_ptr<Room>> rooms_;
};

}  // namespace

Outcome compute_joint(const JointPlan& plan, const JointProblem& problem) { return Computation(plan, problem).run(); }

}  // namespace eqt
