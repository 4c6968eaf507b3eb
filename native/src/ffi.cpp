// Custom calls of XLA: the kernels, so that they run inside JAX programs, and products with windows.
#include <algorithm>
#include <csignal>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <vector>

#include "engine.hpp"
#include "sharing.hpp"
#include "window_geometry.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// What `work` returns, an error of XLA's; or the error that stands for what it threw, as nothing thrown may reach XLA.
template <class Work>
ffi::Error reported(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "the CPU engine is out of memory");
  } catch (const std::exception& error) {
    return ffi::Error(ffi::ErrorCode::kInternal, error.what());
  }
}

// Ctrl-C while a custom call runs. Python's handler of the signal only takes note until the interpreter has its turn
// again, and it has none while it waits for XLA; so for the time of a call the signal is noted here too, and passed on.
std::mutex mutex;
int watching = 0;  // calls that run
bool installed = false;
struct sigaction previous;
eqt::Flag interrupted{0};  // set once the signal came during any call that still runs

void take_note(int signal, siginfo_t* information, void* context) {
  eqt::set(&interrupted);
  if (previous.sa_flags & SA_SIGINFO) previous.sa_sigaction(signal, information, context);
  else previous.sa_handler(signal);
}

// Whether the process would have handled the signal: where it is ignored, or ends the process, it still does.
bool handled(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == take_note;
}

struct InterruptWatch {
  InterruptWatch() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (watching++ > 0) return;
    interrupted.store(0, std::memory_order_relaxed);
    struct sigaction found;
    if (sigaction(SIGINT, nullptr, &found) != 0 || !handled(found) || is_ours(found)) return;
    previous = found;
    struct sigaction ours = found;
    ours.sa_flags |= SA_SIGINFO;
    ours.sa_sigaction = take_note;
    installed = sigaction(SIGINT, &ours, nullptr) == 0;
  }

  ~InterruptWatch() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (--watching > 0 || !installed) return;
    installed = false;
    struct sigaction found;
    // A handler that someone else set meanwhile stays.
    if (sigaction(SIGINT, nullptr, &found) == 0 && is_ours(found)) sigaction(SIGINT, &previous, nullptr);
  }
};

using Numbers = ffi::Buffer<ffi::S32>;

eqt::Description described(const Numbers& code, const Numbers& reals, const Numbers& tables) {
  return {code.typed_data(),   int64_t(code.element_count()),  reals.typed_data(),
          int64_t(reals.element_count()), tables.typed_data(), int64_t(tables.element_count())};
}

// Mean squares of inputs (N, ...), 0 of zeros alone.
template <class B>
std::vector<double> mean_squares(const B& x) {
  const auto* values = x.typed_data();
  const int64_t inputs = x.dimensions()[0], size = inputs ? int64_t(x.element_count()) / inputs : 0;
  std::vector<double> found(size_t(inputs), 0.0);
  for (double& square : found) {
    bool zeros = true;
    for (int64_t i = 0; i < size; ++i, ++values) {
      square += double(*values) * double(*values);
      zeros &= *values == 0;
    }
    square = zeros ? 0 : std::max(square / double(size), std::numeric_limits<double>::min());
  }
  return found;
}

// As `scales.ordinary` in Python: `limits` are a constant that variances gain, the least and the most of these, and their ratio.
bool ordinary(const std::vector<double>& one, const std::vector<double>& other, bool vanishes, ffi::Span<const double> limits) {
  double least = limits[2], most = limits[1];
  for (const std::vector<double>* squares : {&one, &other})
    for (const double square : *squares) {
      if (square == 0 && vanishes) continue;
      if (!(square + limits[0] >= limits[1] && square + limits[0] <= limits[2])) return false;
      least = std::min(least, square + limits[0]), most = std::max(most, square + limits[0]);
    }
  return most <= limits[3] * least;
}

// Of two plans the second runs where norms of inputs differ much; it has no code where the first one keeps all digits.
template <ffi::DataType type, class T>
ffi::Error kernel(Numbers code, Numbers reals, Numbers tables, Numbers code2, Numbers reals2, Numbers tables2, ffi::Buffer<type> x1,
                  ffi::Buffer<type> x2, ffi::ResultBuffer<type> nngp, ffi::ResultBuffer<type> ntk, int64_t threads, bool symmetric,
                  bool listed, bool vanishes, ffi::Span<const double> limits) {
  const eqt::Problem<T> problem{x1.typed_data(),
                                x1.dimensions()[0],
                                symmetric ? nullptr : x2.typed_data(),
                                x2.dimensions()[0],
                                nngp->typed_data(),
                                ntk->typed_data(),
                                int(threads),
                                &interrupted,
                                listed,
                                -1};
  return reported([&] {
    const std::vector<double> first = mean_squares(x1), second = symmetric ? first : mean_squares(x2);
    const bool far = code2.element_count() && !ordinary(first, second, vanishes, limits);
    const eqt::OwnedPlan plan(far ? described(code2, reals2, tables2) : described(code, reals, tables));
    const InterruptWatch watch;
    if (eqt::compute(plan.plan(), problem) == eqt::Outcome::cancelled)
      return ffi::Error(ffi::ErrorCode::kCancelled, "the CPU engine was interrupted");
    const size_t columns = listed ? 1 : second.size();
    for (size_t i = 0; vanishes && i < first.size(); ++i)
      for (size_t j = 0; j < columns; ++j)
        if (first[i] == 0 || second[listed ? i : j] == 0) problem.nngp[i * columns + j] = problem.ntk[i * columns + j] = 0;
    return ffi::Error::Success();
  });
}

template <ffi::DataType type>
auto binding() {
  return ffi::Ffi::Bind()
      .Arg<Numbers>()
      .Arg<Numbers>()
      .Arg<Numbers>()
      .Arg<Numbers>()
      .Arg<Numbers>()
      .Arg<Numbers>()
      .template Arg<ffi::Buffer<type>>()
      .template Arg<ffi::Buffer<type>>()
      .template Ret<ffi::Buffer<type>>()
      .template Ret<ffi::Buffer<type>>()
      .template Attr<int64_t>("threads")
      .template Attr<bool>("symmetric")
      .template Attr<bool>("listed")
      .template Attr<bool>("vanishes")
      .template Attr<ffi::Span<const double>>("limits");
}

using Sizes = ffi::Span<const int64_t>;

// Axes before an operand's own are members; one of size 1 serves all of them.
class Members {
 public:
  Members(ffi::Span<const int64_t> result, size_t own) : sizes_(result.begin(), result.end() - own) {}

  int64_t count() const {
    int64_t n = 1;
    for (int64_t size : sizes_) n *= size;
    return n;
  }

  bool fits(ffi::Span<const int64_t> operand, size_t own) const {
    if (operand.size() != sizes_.size() + own) return false;
    for (size_t i = 0; i < sizes_.size(); ++i)
      if (operand[i] != 1 && operand[i] != sizes_[i]) return false;
    return true;
  }

  // Which block of the operand member `number` has.
  int64_t block(ffi::Span<const int64_t> operand, int64_t number) const {
    int64_t found = 0, step = 1;
    for (size_t i = sizes_.size(); i-- > 0; number /= sizes_[i]) {
      if (operand[i] != 1) found += number % sizes_[i] * step;
      step *= operand[i];
    }
    return found;
  }

 private:
  std::vector<int64_t> sizes_;
};

constexpr size_t kImageAxes = 4, kWeightAxes = 3;
constexpr size_t kNumbers = 16;  // of a geometry

eqt::WindowGeometry geometry(Sizes n) {
  return {n[0], n[1], n[2], {n[3], n[4]}, {n[5], n[6]}, {n[7], n[8]}, {n[9], n[10]}, {n[11], n[12]}, {n[13], n[14]}, n[15] != 0};
}

// Runs one of the `WindowLoops`, `call`, for every member, of operands and a result with so many axes of their own.
template <ffi::DataType type, class T, auto call, size_t left_axes, size_t right_axes, size_t result_axes>
ffi::Error for_members(ffi::Buffer<type> left, ffi::Buffer<type> right, ffi::ResultBuffer<type> result, Sizes numbers, int64_t instructions) {
  if (numbers.size() != kNumbers) return ffi::Error(ffi::ErrorCode::kInvalidArgument, "windows: geometry");
  const Members members(result->dimensions(), result_axes);
  if (!members.fits(left.dimensions(), left_axes) || !members.fits(right.dimensions(), right_axes))
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, "windows: axes of members");
  const auto own = [](ffi::Span<const int64_t> sizes, size_t axes) {
    int64_t n = 1;
    for (size_t i = sizes.size() - axes; i < sizes.size(); ++i) n *= sizes[i];
    return n;
  };
  return reported([&] {
    const eqt::WindowGeometry g = geometry(numbers);
    const eqt::WindowLoops<T>& loops = eqt::window_loops<T>(int(instructions));
    const eqt::Buffer<T> workspace((loops.workspace)(g));
    const int64_t l = own(left.dimensions(), left_axes), r = own(right.dimensions(), right_axes);
    const int64_t o = own(result->dimensions(), result_axes);
    for (int64_t m = 0; m < members.count(); ++m)
      (loops.*call)(g, left.typed_data() + members.block(left.dimensions(), m) * l,
                    right.typed_data() + members.block(right.dimensions(), m) * r, result->typed_data() + m * o, workspace.get());
    return ffi::Error::Success();
  });
}

template <ffi::DataType type>
auto window_binding() {
  return ffi::Ffi::Bind()
      .Arg<ffi::Buffer<type>>()
      .template Arg<ffi::Buffer<type>>()
      .template Ret<ffi::Buffer<type>>()
      .template Attr<Sizes>("geometry")
      .template Attr<int64_t>("instructions");
}

template <ffi::DataType type, class T>
constexpr auto window_outputs = for_members<type, T, &eqt::WindowLoops<T>::outputs, kImageAxes, kWeightAxes, kImageAxes>;
template <ffi::DataType type, class T>
constexpr auto window_to_inputs = for_members<type, T, &eqt::WindowLoops<T>::to_inputs, kImageAxes, kWeightAxes, kImageAxes>;
template <ffi::DataType type, class T>
constexpr auto window_to_weights = for_members<type, T, &eqt::WindowLoops<T>::to_weights, kImageAxes, kImageAxes, kWeightAxes>;

}  // namespace

#define EQT_WINDOWS(PRODUCT, NAME, TYPE, T) XLA_FFI_DEFINE_HANDLER_SYMBOL(NAME, (PRODUCT<ffi::TYPE, T>), window_binding<ffi::TYPE>())
#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_float, (kernel<ffi::F32, float>), binding<ffi::F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_double, (kernel<ffi::F64, double>), binding<ffi::F64>());
EQT_WINDOWS(window_outputs, eqt_window_outputs_float, F32, float);
EQT_WINDOWS(window_outputs, eqt_window_outputs_double, F64, double);
EQT_WINDOWS(window_to_inputs, eqt_window_to_inputs_float, F32, float);
EQT_WINDOWS(window_to_inputs, eqt_window_to_inputs_double, F64, double);
EQT_WINDOWS(window_to_weights, eqt_window_to_weights_float, F32, float);
EQT_WINDOWS(window_to_weights, eqt_window_to_weights_double, F64, double);
#pragma GCC visibility pop
