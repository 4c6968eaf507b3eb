// Products with windows as custom calls of XLA, for one network or many side by side.
#include <cstdint>
#include <vector>

#include "reported.hpp"
#include "sharing.hpp"
#include "window_geometry.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

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

// Runs `call(left, right, result, workspace)` for every member.
template <class T, ffi::DataType type, class Call>
ffi::Error for_members(Sizes numbers, ffi::Buffer<type> left, size_t left_axes, ffi::Buffer<type> right,
                       size_t right_axes, ffi::ResultBuffer<type> result, size_t result_axes,
                       int64_t instructions, Call call) {
  if (numbers.size() != kNumbers) return ffi::Error(ffi::ErrorCode::kInvalidArgument, "windows: geometry");
  const Members members(result->dimensions(), result_axes);
  if (!members.fits(left.dimensions(), left_axes) || !members.fits(right.dimensions(), right_axes))
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, "windows: axes of members");
  const auto own = [](ffi::Span<const int64_t> sizes, size_t axes) {
    int64_t n = 1;
    for (size_t i = sizes.size() - axes; i < sizes.size(); ++i) n *= sizes[i];
    return n;
  };
  const eqt::WindowGeometry g = geometry(numbers);
  const eqt::WindowLoops<T>& loops = eqt::window_loops<T>(int(instructions));
  const eqt::Buffer<T> workspace(loops.workspace(g));
  const int64_t l = own(left.dimensions(), left_axes), r = own(right.dimensions(), right_axes);
  const int64_t o = own(result->dimensions(), result_axes);
  for (int64_t m = 0; m < members.count(); ++m)
    call(loops, g, left.typed_data() + members.block(left.dimensions(), m) * l,
         right.typed_data() + members.block(right.dimensions(), m) * r, result->typed_data() + m * o, workspace.get());
  return ffi::Error::Success();
}

template <ffi::DataType type, class T>
ffi::Error outputs(ffi::Buffer<type> x, ffi::Buffer<type> w, ffi::ResultBuffer<type> y, Sizes numbers, int64_t instructions) {
  return eqt::reported([&] {
    return for_members<T, type>(numbers, x, kImageAxes, w, kWeightAxes, y, kImageAxes, instructions,
                              [](const auto& loops, const auto& g, auto... arrays) { loops.outputs(g, arrays...); });
  });
}

template <ffi::DataType type, class T>
ffi::Error to_inputs(ffi::Buffer<type> y, ffi::Buffer<type> w, ffi::ResultBuffer<type> x, Sizes numbers, int64_t instructions) {
  return eqt::reported([&] {
    return for_members<T, type>(numbers, y, kImageAxes, w, kWeightAxes, x, kImageAxes, instructions,
                              [](const auto& loops, const auto& g, auto... arrays) { loops.to_inputs(g, arrays...); });
  });
}

template <ffi::DataType type, class T>
ffi::Error to_weights(ffi::Buffer<type> x, ffi::Buffer<type> y, ffi::ResultBuffer<type> w, Sizes numbers, int64_t instructions) {
  return eqt::reported([&] {
    return for_members<T, type>(numbers, x, kImageAxes, y, kImageAxes, w, kWeightAxes, instructions,
                              [](const auto& loops, const auto& g, auto... arrays) { loops.to_weights(g, arrays...); });
  });
}

template <ffi::DataType type>
auto binding() {
  return ffi::Ffi::Bind()
      .Arg<ffi::Buffer<type>>()
      .template Arg<ffi::Buffer<type>>()
      .template Ret<ffi::Buffer<type>>()
      .template Attr<Sizes>("geometry")
      .template Attr<int64_t>("instructions");
}

}  // namespace

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_window_outputs_float, (outputs<ffi::F32, float>), binding<ffi::F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_window_outputs_double, (outputs<ffi::F64, double>), binding<ffi::F64>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_window_to_inputs_float, (to_inputs<ffi::F32, float>), binding<ffi::F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_window_to_inputs_double, (to_inputs<ffi::F64, double>), binding<ffi::F64>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_window_to_weights_float, (to_weights<ffi::F32, float>), binding<ffi::F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_window_to_weights_double, (to_weights<ffi::F64, double>), binding<ffi::F64>());
#pragma GCC visibility pop
