// The same computation as custom calls of XLA, so that it runs inside JAX programs.
#include "engine.hpp"
#include "interrupt.hpp"
#include "reported.hpp"
#include "reported.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

template <ffi::DataType type, class T>
ffi::Error kernel(ffi::Buffer<ffi::S32> code, ffi::Buffer<ffi::S32> reals, ffi::Buffer<ffi::S32> tables,
                  ffi::Buffer<type> x1, ffi::Buffer<type> x2, ffi::ResultBuffer<type> nngp, ffi::ResultBuffer<type> ntk,
                  int64_t threads, bool symmetric, bool listed) {
  const eqt::Description description{code.typed_data(),          int64_t(code.element_count()),
                                     reals.typed_data(),         int64_t(reals.element_count()),
                                     tables.typed_data(),        int64_t(tables.element_count())};
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
    const eqt::OwnedPlan plan(description);
    const eqt::InterruptWatch watch;
    if (eqt::compute(plan.plan(), problem) == eqt::Outcome::cancelled)
      return ffi::Error(ffi::ErrorCode::kCancelled, "the CPU engine was interrupted");
    return ffi::Error::Success();
  });
}

template <ffi::DataType type>
auto binding() {
  return ffi::Ffi::Bind()
      .Arg<ffi::Buffer<ffi::S32>>()
      .Arg<ffi::Buffer<ffi::S32>>()
      .Arg<ffi::Buffer<ffi::S32>>()
      .template Arg<ffi::Buffer<type>>()
      .template Arg<ffi::Buffer<type>>()
      .template Ret<ffi::Buffer<type>>()
      .template Ret<ffi::Buffer<type>>()
      .template Attr<int64_t>("threads")
      .template Attr<bool>("symmetric")
      .template Attr<bool>("listed");
}

}  // namespace

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_float, (kernel<ffi::F32, float>), binding<ffi::F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_double, (kernel<ffi::F64, double>), binding<ffi::F64>());
#pragma GCC visibility pop
