// The launcher of the GPU engine as a custom call without a stream.
#include "../../native/src/gpu_launch.cpp"

namespace {

template <class... Arguments>
ffi::Error without_stream(Arguments... arguments) {
  return launch(nullptr, arguments...);
}

}  // namespace

using Buffer = ffi::AnyBuffer;

XLA_FFI_DEFINE_HANDLER_SYMBOL(launch_on_host,
                              (without_stream<Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Result, Result,
                                              ffi::Span<const uint8_t>, std::string_view, std::string_view,
                                              ffi::Span<const int64_t>>),
                              bind(ffi::Ffi::Bind()));
