// What a custom call reports of an exception, none of which may reach XLA.
#pragma once

#include <exception>
#include <new>

#include "xla/ffi/api/ffi.h"

namespace eqt {

// work(), an error of XLA's; or the error that stands for what it threw.
template <class Work>
xla::ffi::Error reported(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kResourceExhausted, "the CPU engine is out of memory");
  } catch (const std::exception& error) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kInternal, error.what());
  }
}

}  // namespace eqt
