// The same computation as custom calls of XLA, so that it runs inside JAX programs.
#include <algorithm>
#include <limits>
#include <vector>

#include "engine.hpp"
#include "interrupt.hpp"
#include "reported.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

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
                                eqt::InterruptWatch::flag(),
                                listed,
                                -1,
                                nullptr};
  return eqt::reported([&] {
    const std::vector<double> first = mean_squares(x1), second = symmetric ? first : mean_squares(x2);
    const bool far = code2.element_count() && !ordinary(first, second, vanishes, limits);
    const eqt::OwnedPlan plan(far ? described(code2, reals2, tables2) : described(code, reals, tables));
    const eqt::InterruptWatch watch;
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

}  // namespace

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_float, (kernel<ffi::F32, float>), binding<ffi::F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_double, (kernel<ffi::F64, double>), binding<ffi::F64>());
#pragma GCC visibility pop
