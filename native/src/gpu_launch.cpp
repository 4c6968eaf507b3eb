// Launches a network's kernel (native/src/gpu, compiled when the program runs) on the stream of a JAX program. CUDA's driver
// is looked up when it is first needed, so that this library builds and loads where there is none.
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reported.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

using Handle = void*;

struct Driver {
  int (*stream_context)(Handle, Handle*) = nullptr;
  int (*set_context)(Handle) = nullptr;
  int (*load_module)(Handle*, const void*) = nullptr;
  int (*get_function)(Handle*, Handle, const char*) = nullptr;
  int (*set_attribute)(Handle, int, int) = nullptr;
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**) = nullptr;
  int (*error_string)(int, const char**) = nullptr;
  bool found = false;

  Driver() {
    Handle library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return;
    found = look_up(library, "cuStreamGetCtx", stream_context) && look_up(library, "cuCtxSetCurrent", set_context) &&
            look_up(library, "cuModuleLoadData", load_module) &&
            look_up(library, "cuModuleGetFunction", get_function) &&
            look_up(library, "cuFuncSetAttribute", set_attribute) && look_up(library, "cuLaunchKernel", launch) &&
            look_up(library, "cuGetErrorString", error_string);
  }

 private:
  template <class F>
  static bool look_up(Handle library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
};

constexpr int kDynamicSharedMemory = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

// `Arguments` of gpu/pairs.hpp.
struct Arguments {
  const void *x1, *x2, *sides1, *sides2, *reals, *tables;
  void *k, *theta;
  int64_t n1, n2, pairs, splits, kind;
};

// What engines/gpu/run.py passes as `numbers`, in this order.
struct Numbers {
  int64_t n1, n2, pairs, splits, kind, blocks, threads, bytes;
};

ffi::Error failure(const Driver& driver, int status, const char* doing) {
  const char* text = nullptr;
  driver.error_string(status, &text);
  return ffi::Error(ffi::ErrorCode::kInternal, std::string("CUDA cannot ") + doing + ": " + (text ? text : "unknown error"));
}

// The kernel in the stream's context; loaded once for each.
ffi::Error find_function(const Driver& driver, Handle stream, std::string_view digest, ffi::Span<const uint8_t> code,
                         std::string_view name, int64_t bytes, Handle* function) {
  static std::mutex mutex;
  static std::map<std::pair<Handle, std::string>, Handle> loaded;
  Handle context = nullptr;
  if (int status = driver.stream_context(stream, &context)) return failure(driver, status, "name the stream's context");
  if (int status = driver.set_context(context)) return failure(driver, status, "enter the stream's context");
  const std::lock_guard<std::mutex> lock(mutex);
  Handle& known = loaded[{context, std::string(digest)}];
  if (!known) {
    Handle module = nullptr, found = nullptr;
    const std::vector<uint8_t> image(code.begin(), code.end());  // aligned, as JAX's attributes need not be
    if (int status = driver.load_module(&module, image.data())) return failure(driver, status, "load the kernel");
    if (int status = driver.get_function(&found, module, std::string(name).c_str()))
      return failure(driver, status, "find the kernel");
    if (int status = driver.set_attribute(found, kDynamicSharedMemory, int(bytes)))
      return failure(driver, status, "give the kernel its shared memory");
    known = found;
  }
  *function = known;
  return ffi::Error::Success();
}

using Buffers = const ffi::AnyBuffer (&)[6];
using Result = ffi::Result<ffi::AnyBuffer>;

// The kernel's arguments from JAX's.
ffi::Error join(Buffers in, Result& k, Result& theta, ffi::Span<const int64_t> numbers, Numbers& n, Arguments& arguments) {
  if (numbers.size() * sizeof(int64_t) != sizeof n)
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, "the kernel's numbers are of another version");
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<int64_t*>(&n));
  arguments = {in[0].untyped_data(), in[1].untyped_data(), in[2].untyped_data(), in[3].untyped_data(),
               in[4].untyped_data(), in[5].untyped_data(), k->untyped_data(),    theta->untyped_data(),
               n.n1,                 n.n2,                 n.pairs,              n.splits,
               n.kind};
  return ffi::Error::Success();
}

ffi::Error launch(Handle stream, ffi::AnyBuffer x1, ffi::AnyBuffer x2, ffi::AnyBuffer sides1, ffi::AnyBuffer sides2,
                  ffi::AnyBuffer reals, ffi::AnyBuffer tables, Result k, Result theta,
                  ffi::Span<const uint8_t> code, std::string_view digest, std::string_view name,
                  ffi::Span<const int64_t> numbers) {
  return eqt::reported([&]() -> ffi::Error {
    static const Driver driver;
    if (!driver.found) return ffi::Error(ffi::ErrorCode::kInternal, "CUDA's driver, libcuda.so.1, is not installed");
    Numbers n;
    Arguments arguments;
    if (ffi::Error error = join({x1, x2, sides1, sides2, reals, tables}, k, theta, numbers, n, arguments); error.failure())
      return error;
    if (n.blocks == 0) return ffi::Error::Success();
    Handle function = nullptr;
    if (ffi::Error error = find_function(driver, stream, digest, code, name, n.bytes, &function); error.failure())
      return error;
    void* parameters[] = {&arguments};
    const int status = driver.launch(function, unsigned(n.blocks), 1, 1, unsigned(n.threads), 1, 1, unsigned(n.bytes),
                                     stream, parameters, nullptr);
    return status ? failure(driver, status, "launch the kernel") : ffi::Error::Success();
  });
}

// The same on the host, for tests: `code` is the path of a library that holds the kernel as a plain function.
ffi::Error emulate(ffi::AnyBuffer x1, ffi::AnyBuffer x2, ffi::AnyBuffer sides1, ffi::AnyBuffer sides2,
                   ffi::AnyBuffer reals, ffi::AnyBuffer tables, Result k, Result theta,
                   ffi::Span<const uint8_t> code, std::string_view, std::string_view name,
                   ffi::Span<const int64_t> numbers) {
  return eqt::reported([&]() -> ffi::Error {
    Numbers n;
    Arguments arguments;
    if (ffi::Error error = join({x1, x2, sides1, sides2, reals, tables}, k, theta, numbers, n, arguments); error.failure())
      return error;
    const std::string path(code.begin(), code.end());
    Handle library = dlopen(path.c_str(), RTLD_NOW);
    using Kernel = void (*)(const Arguments*, int64_t, int64_t);
    const Kernel kernel = library ? reinterpret_cast<Kernel>(dlsym(library, std::string(name).c_str())) : nullptr;
    if (!kernel) return ffi::Error(ffi::ErrorCode::kInternal, "the emulated kernel cannot be loaded from " + path);
    kernel(&arguments, n.blocks, n.bytes);
    return ffi::Error::Success();
  });
}

// The arguments after the stream.
template <class Binding>
auto bind(Binding binding) {
  return std::move(binding)
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>()
      .template Attr<ffi::Span<const uint8_t>>("code")
      .template Attr<std::string_view>("digest")
      .template Attr<std::string_view>("name")
      .template Attr<ffi::Span<const int64_t>>("numbers");
}

}  // namespace

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_gpu_launch, launch, bind(ffi::Ffi::Bind().Ctx<ffi::PlatformStream<Handle>>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(eqt_ffi_gpu_emulate, emulate, bind(ffi::Ffi::Bind()));
#pragma GCC visibility pop
