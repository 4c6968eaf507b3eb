#include "engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "sharing.hpp"

namespace eqt {
namespace {

constexpr int64_t kBlock = 8, kBlocks = 6;          // first inputs by which tiles of plain vectors begin; at most so often
constexpr int64_t kStays = 1 << 19, kFew = 4;       // bytes of first inputs that stay in a cache of the second level; tiles
constexpr double kThreadWork = 2e5;                 // below this many cells another thread costs more than it brings

// Computes in C what is given and wanted in T.
template <class C, class T>
class Computation {
 public:
  Computation(const Plan& plan, const Problem<T>& problem)
      : plan_(plan), problem_(problem), loops_(kernels<C>(problem.instructions)), lanes_(loops_.lanes) {
    const double pairs = double(problem.n1) * double(problem.listed ? 1 : problem.n2);
    const double cells = pairs / lanes_ * work_of_pair(plan);
    threads_ = std::clamp(int(std::min(cells / kThreadWork, 1e6)), 1, std::max(problem.threads, 1));
    self_ = plan.vector_dual && !plan.single;
    multiplies_ = plan.distance_only && !problem.listed && problem.field == FieldKind::none;
  }

  Outcome run() {
    if (problem_.bytes) return *problem_.bytes = bytes(), Outcome::done;
    rooms_.reserve(threads_);
    threads_ = as_many_as_fit(threads_, [&] { rooms_.push_back(std::make_unique<Room>(*this)); });
    const bool symmetric = problem_.x2 == nullptr;
    const T* x2 = symmetric ? problem_.x1 : problem_.x2;
    const int64_t step = panel_inputs();
    for (int64_t i = 0; i < problem_.n1; i += step) {
      const int64_t end = std::min(i + step, problem_.n1);
      const Panel rows(*this, problem_.x1, i, end, !problem_.listed, symmetric || self_ || multiplies_ || plan_.pooled || problem_.listed);
      if (cancelled()) return Outcome::cancelled;
      if (problem_.listed && symmetric) {
        listed(rows, rows);
        continue;
      }
      if (problem_.listed) {
        listed(rows, Panel(*this, x2, i, end, false, true));
        continue;
      }
      for (int64_t j = symmetric ? i : 0; j < problem_.n2; j += step) {
        if (symmetric && i == j) {
          pairs(rows, rows);
        } else {
          const Panel columns(*this, x2, j, std::min(j + step, problem_.n2), false, true);
          pairs(rows, columns);
        }
        if (cancelled()) return Outcome::cancelled;
      }
    }
    return cancelled() ? Outcome::cancelled : Outcome::done;
  }

 private:
  static constexpr bool kConverts = !std::is_same_v<C, T>;

  // What one thread works in.
  struct Room {
    Buffer<char> workspace;
    Buffer<double> outputs;  // K and Θ of a tile
    Buffer<C> gathered, copied, products;

    explicit Room(const Computation& c)
        : workspace(c.loops_.workspace_bytes(c.plan_)),
          outputs(2 * kTileRows * c.lanes_),
          gathered(c.gathered_size()),
          copied(c.copies() ? c.lanes_ * c.signal_size() : 0),
          products(c.multiplies_ ? c.loops_.abreast * kTileRows * c.lanes_ : 0) {}
  };

  // A range of inputs with what is known of each alone.
  struct Panel {
    int64_t begin, end;
    Buffer<C> rows, lanes, signals, converted;
    const C* inputs;
    Buffer<double> variance_sums, variances, means, units;

    Panel(const Computation& c, const T* x, int64_t first, int64_t last, bool as_rows, bool as_lanes)
        : begin(first), end(last), rows(as_rows ? padded(c) * c.plan_.side_size : 0),
          lanes(as_lanes ? padded(c) * c.plan_.side_size : 0), signals(as_lanes ? padded(c) * c.signal_size() : 0),
          converted(c.copies() && as_rows ? (last - first) * c.signal_size() : 0), variance_sums(padded(c)), variances(padded(c)),
          means(padded(c)), units(padded(c)) {
      if constexpr (kConverts) inputs = converted.get();
      else inputs = c.copies() ? converted.get() : x + first * c.signal_size();
      share_out(groups(c), c.threads_, [&](int64_t g, int thread) { prepare(c, x, g, thread, as_rows, as_lanes); });
    }

    int64_t groups(const Computation& c) const { return (end - begin + c.lanes_ - 1) / c.lanes_; }
    int64_t padded(const Computation& c) const { return groups(c) * c.lanes_; }

    void prepare(const Computation& c, const T* x, int64_t g, int thread, bool as_rows, bool as_lanes) {
      const int64_t at = g * c.lanes_;
      const C* of_lanes[kTileRows] = {};
      const int count = int(std::min<int64_t>(c.lanes_, end - begin - at));
      for (int l = 0; l < c.lanes_; ++l) {
        units.get()[at + l] = 1;
        if (l >= count || !c.copies()) continue;
        // Those that are wanted by lanes alone are not needed afterwards.
        C* to = (as_rows ? converted.get() + at * c.signal_size() : c.rooms_[thread]->copied.get()) + l * c.signal_size();
        of_lanes[l] = to;
        const T* given = x + (begin + at + l) * c.signal_size();
        if (kConverts || !c.plan_.units) std::copy_n(given, c.signal_size(), to);
        if (!c.plan_.units) continue;
        if constexpr (kConverts) units.get()[at + l] = c.loops_.to_unit(c.plan_, to, to);
        else units.get()[at + l] = c.loops_.to_unit(c.plan_, given, to);
      }
      for (int l = 0; l < count && !c.copies(); ++l) of_lanes[l] = inputs + (at + l) * c.signal_size();
      const Group<C> group{of_lanes,
                           count,
                           as_rows ? rows.get() + at * c.plan_.side_size : nullptr,
                           as_lanes ? lanes.get() + at * c.plan_.side_size : nullptr,
                           as_lanes ? signals.get() + at * c.signal_size() : nullptr,
                           variance_sums.get() + at,
                           variances.get() + at,
                           means.get() + at,
                           c.plan_.units ? units.get() + at : nullptr};
      void* workspace = c.rooms_[thread]->workspace.get();
      c.loops_.prepare_field(c.plan_, group, workspace);
      if (c.self_) {
        const Tile<C> tile = c.listed_tile(thread, *this, *this, g);
        c.loops_.readout(c.plan_, tile);
        // Too few rotations may leave a pooled variance below zero.
        for (int l = 0; l < c.lanes_; ++l) group.variance[l] = std::max(tile.k[l], 0.0);
      }
      if (c.plan_.vector_dual) c.loops_.prepare_vector(c.plan_, group);
    }
  };

  // Inputs are copied where numbers are converted, or inputs divided by their units.
  bool copies() const { return kConverts || plan_.units; }

  int64_t signal_size() const { return plan_.positions_in * plan_.channels; }
  bool cancelled() const { return is_set(problem_.cancel); }

  // Over all pair offsets, and all stages.
  double work_of_pair(const Plan& plan) const {
    double cells = plan.pooled ? double(plan.levels[0].positions) : double(signal_size()) / 8;
    cells += plan_.vector_count;
    for (int i = 0; i < plan.field_count; ++i) cells += double(plan.levels[i + 1].positions);
    return cells * plan.offset_count + (plan.pooled ? work_of_pair(*plan.pooled->fine) : 0);
  }

  // Of an input in a panel.
  int64_t input_bytes() const { return (2 * plan_.side_size + (copies() ? 2 : 1) * signal_size()) * int64_t(sizeof(C)); }

  // Two panels, and a room for every thread.
  int64_t bytes() const {
    const auto inputs = [&](int64_t n) { return std::min((n + lanes_ - 1) / lanes_ * lanes_, panel_inputs()); };
    const int64_t numbers = gathered_size() + lanes_ * signal_size() + loops_.abreast * kTileRows * lanes_;
    const int64_t room = loops_.workspace_bytes(plan_) + 2 * kTileRows * lanes_ * int64_t(sizeof(double)) + numbers * int64_t(sizeof(C));
    return (inputs(problem_.n1) + inputs(problem_.n2)) * (input_bytes() + 4 * int64_t(sizeof(double))) + std::max(problem_.threads, 1) * room;
  }

  int64_t panel_inputs() const {
    const int64_t each = input_bytes();
    const int64_t fit = std::max<int64_t>(kPanelBytes / std::max<int64_t>(each, 1), 1);
    return (fit + kTileRows - 1) / kTileRows * kTileRows;
  }

  // A tile of one thread, whose inputs are put later.
  Tile<C> tile(int thread) const {
    Tile<C> t{};
    t.k = rooms_[thread]->outputs.get();
    t.theta = t.k + kTileRows * lanes_;
    t.workspace = rooms_[thread]->workspace.get();
    t.cancel = problem_.cancel;
    return t;
  }

  // Group g of `first`, each input with that of its number in `second`.
  Tile<C> listed_tile(int thread, const Panel& first, const Panel& second, int64_t g) const {
    Tile<C> t = tile(thread);
    t.rows = 1;
    t.signals1 = first.signals.get() + g * lanes_ * signal_size();
    t.sides1 = first.lanes.get() + g * lanes_ * plan_.side_size;
    put_first(first, g * lanes_, t);
    put_second(second, g, t);
    return t;
  }

  // First inputs from number `at` of `rows` on, `count` of them.
  Tile<C> tile(int thread, const Panel& rows, int64_t at, int64_t count) const {
    Tile<C> t = tile(thread);
    for (int r = 0; r < count; ++r) {
      t.inputs[r] = rows.inputs + (at + r) * signal_size();
      t.sides[r] = rows.rows.get() + (at + r) * plan_.side_size;
    }
    put_first(rows, at, t);
    return t;
  }

  void put_first(const Panel& first, int64_t at, Tile<C>& t) const {
    t.variance_sums = first.variance_sums.get() + at;
    t.variances = first.variances.get() + at;
    t.units = plan_.units ? first.units.get() + at : nullptr;
  }

  void put_second(const Panel& second, int64_t g, Tile<C>& t) const {
    t.signals2 = second.signals.get() + g * lanes_ * signal_size();
    t.sides2 = second.lanes.get() + g * lanes_ * plan_.side_size;
    t.variance_sums2 = second.variance_sums.get() + g * lanes_;
    t.variances2 = second.variances.get() + g * lanes_;
    t.units2 = second.units.get() + g * lanes_;
  }

  // Kernels of the inputs of two panels that have the same number.
  void listed(const Panel& first, const Panel& second) {
    share_out(first.groups(*this), threads_, [&](int64_t g, int thread) {
      if (cancelled()) return;
      Tile<C> t = listed_tile(thread, first, second, g);
      const int64_t at = first.begin + g * lanes_;
      if (problem_.field != FieldKind::none) {
        const FieldOutput to = output(thread, at, 0, int(std::min<int64_t>(lanes_, first.end - at)));
        t.field = &to;
        return loops_.fields(plan_, t);
      }
      loops_.readout(plan_, t);
      if (cancelled()) return;
      loops_.vector(plan_, t);
      for (int64_t l = 0; l < lanes_ && at + l < first.end; ++l) {
        problem_.nngp[at + l] = T(t.k[l]);
        problem_.ntk[at + l] = T(t.theta[l]);
      }
    });
  }

  void pairs(const Panel& rows, const Panel& columns) {
    if (multiplies_) return products(rows, columns);
    const int64_t n = rows.end - rows.begin, groups = columns.groups(*this);
    // Enough tiles for all threads to end at about the same time; long ones, so that pair offsets are placed once for many.
    int64_t chunk = plan_.distance_only ? 60 : 16;
    chunk = std::clamp<int64_t>(n * groups / (8 * threads_), 1, chunk);
    const int64_t chunks = (n + chunk - 1) / chunk;
    share_out(groups * chunks, threads_, [&](int64_t item, int thread) {
      if (cancelled()) return;
      const int64_t g = item / chunks, at = item % chunks * chunk, count = std::min(chunk, n - at);
      Tile<C> t = tile(thread, rows, at, count);
      one_tile(thread, t, rows, at, count, columns, g);
    });
  }

  // Of plain vectors: what is made of products follows while they are in cache, and a few tiles of first inputs stay there
  // while all second ones pass.
  void products(const Panel& rows, const Panel& columns) {
    const int64_t n = rows.end - rows.begin, groups = columns.groups(*this), abreast = loops_.abreast;
    const int64_t passes = (groups + abreast - 1) / abreast;
    const int64_t chunk = std::clamp<int64_t>(n * passes / (8 * threads_) / kBlock * kBlock, kBlock, kBlocks * kBlock);
    const int64_t chunks = (n + chunk - 1) / chunk, fit = kStays / (chunk * signal_size() * int64_t(sizeof(C)));
    const int64_t stay = std::clamp<int64_t>(fit, 1, std::min(chunks, kFew));
    share_out((chunks + stay - 1) / stay * stay * passes, threads_, [&](int64_t item, int thread) {
      const int64_t at = (item / (stay * passes) * stay + item % stay) * chunk, g = item / stay % passes * abreast;
      if (at >= n || cancelled()) return;
      const int together = int(std::min(abreast, groups - g));
      const int64_t count = above_diagonal(rows.begin + at, std::min(chunk, n - at), columns.begin + (g + together - 1) * lanes_);
      if (count <= 0) return;
      C* found = rooms_[thread]->products.get();
      const C* second = columns.signals.get() + g * lanes_ * signal_size();
      loops_.products(plan_, rows.signals.get(), at, int(count), second, together, found, problem_.cancel);
      Tile<C> t = tile(thread, rows, at, count);
      for (int i = 0; i < together && !cancelled(); ++i) {
        t.products = found + i * kTileRows * lanes_;
        one_tile(thread, t, rows, at, count, columns, g + i);
      }
    });
  }

  // How many of `count` first inputs from number i on are paired with a vector of second ones from number j on.
  int64_t above_diagonal(int64_t i, int64_t count, int64_t j) const {
    return problem_.x2 == nullptr ? std::min(count, j + lanes_ - i) : count;
  }

  // First inputs, which are in the tile, with group g of `columns`.
  void one_tile(int thread, Tile<C>& t, const Panel& rows, int64_t at, int64_t count, const Panel& columns, int64_t g) const {
    const bool symmetric = problem_.x2 == nullptr;
    const int64_t i0 = rows.begin + at, j0 = columns.begin + g * lanes_;
    count = above_diagonal(i0, count, j0);
    if (count <= 0) return;
    t.rows = int(count);
    put_second(columns, g, t);
    if (problem_.field != FieldKind::none) {
      const FieldOutput to = output(thread, i0, j0, int(std::min<int64_t>(lanes_, columns.end - j0)));
      t.field = &to;
      return loops_.fields(plan_, t);
    }
    if (whole_rows(t, i0, j0, columns)) return;
    loops_.readout(plan_, t);
    if (cancelled()) return;
    loops_.vector(plan_, t);
    const int lanes = int(std::min<int64_t>(lanes_, columns.end - j0));
    put(problem_.nngp, t.k, i0, j0, int(count), lanes, symmetric);
    put(problem_.ntk, t.theta, i0, j0, int(count), lanes, symmetric);
  }

  // Results of a tile of products none of whose rows crosses the diagonal, unless the general way is wanted.
  bool whole_rows(const Tile<C>& t, int64_t i0, int64_t j0, const Panel& columns) const {
    if constexpr (!kConverts) {
      const bool symmetric = problem_.x2 == nullptr;
      if (!multiplies_ || !plan_.dense || columns.end - j0 < lanes_ || (symmetric && i0 + t.rows > j0)) return false;
      const int64_t n = problem_.n2, at = i0 * n + j0;
      bool finite = true;
      if (!loops_.dense(plan_, t, problem_.nngp + at, problem_.ntk + at, n, &finite)) return false;
      if (!finite) set(problem_.odd);
      for (T* out : {problem_.nngp, problem_.ntk})
        if (symmetric) mirror(out, i0, j0, t.rows, lanes_);
      return true;
    }
    return false;
  }

  // Rows of a tile, and where kernels are symmetric its columns from the diagonal on, along which the result runs, too.
  void put(T* out, const double* values, int64_t i0, int64_t j0, int count, int lanes, bool symmetric) const {
    const int64_t n = problem_.n2;
    const int whole = symmetric ? int(std::clamp<int64_t>(j0 - i0, 0, count)) : count;  // rows above the diagonal
    bool finite;
    if constexpr (sizeof(T) == 4) finite = loops_.put_float(values, whole, lanes, out + i0 * n + j0, n);
    else finite = loops_.put_double(values, whole, lanes, out + i0 * n + j0, n);
    for (int r = whole; r < count; ++r)
      for (int l = int(i0 + r - j0); l < lanes; ++l) {
        T& value = out[(i0 + r) * n + j0 + l];
        value = T(values[r * lanes_ + l]);
        finite &= value * T(0) == 0;
        out[(j0 + l) * n + i0 + r] = value;
      }
    if (!finite) set(problem_.odd);
    if (symmetric) mirror(out, i0, j0, whole, lanes);
  }

  // The block of a symmetric result that begins at (i0, j0), across the diagonal.
  void mirror(T* out, int64_t i0, int64_t j0, int rows, int lanes) const {
    const int64_t n = problem_.n2;
    kernels<T>(problem_.instructions).mirror(out + i0 * n + j0, rows, lanes, out + j0 * n + i0, n);
  }

  // Where the field of first inputs from number i and second ones from number j on goes; `listed`: from number i on.
  FieldOutput output(int thread, int64_t i, int64_t j, int lanes) const {
    const int64_t each = problem_.field_numbers, positions = plan_.positions_out;
    FieldOutput to{};
    to.kind = problem_.field;
    to.as_float = std::is_same_v<T, float>;
    to.lanes = lanes;
    to.targets = problem_.targets;
    to.scratch = rooms_[thread]->gathered.get();
    to.gathered = most_gathered();
    to.odd = problem_.odd;
    const bool all = to.kind == FieldKind::all;
    to.position = !all ? 0 : problem_.listed ? positions : problem_.n2 * positions;
    to.second = all && !problem_.listed ? positions : each;
    to.first = problem_.listed ? 0 : problem_.n2 * each;
    const int64_t begin = problem_.listed ? i * each : i * to.first + j * to.second;
    to.k = problem_.nngp + begin;
    to.theta = problem_.ntk + begin;
    return to;
  }

  // Numbers in which pair offsets of a field over all pairs of positions of a grid are gathered.
  int64_t gathered_size() const {
    const Level& last = plan_.levels[plan_.field_count];
    const bool gathers = problem_.field == FieldKind::all && last.grid;
    return gathers ? plan_.positions_out * most_gathered() * 2 * lanes_ : 0;
  }

  int most_gathered() const {
    const Level& last = plan_.levels[plan_.field_count];
    return last.wrap ? last.shape[2] : 2 * last.shape[2] - 1;
  }

  const Plan& plan_;
  const Problem<T>& problem_;
  const Kernels<C>& loops_;
  const int lanes_;
  int threads_ = 1;
  bool multiplies_ = false;  // distances of plain vectors come from products
  bool self_ = false;  // variances after pooling are kernels of inputs with themselves
  std::vector<std::unique_ptr<Room>> rooms_;
};

}  // namespace

template <class T>
Outcome compute(const Plan& plan, const Problem<T>& problem) {
  if (plan.in_double) return Computation<double, T>(plan, problem).run();
  return Computation<T, T>(plan, problem).run();
}

template Outcome compute<float>(const Plan&, const Problem<float>&);
template Outcome compute<double>(const Plan&, const Problem<double>&);

}  // namespace eqt
