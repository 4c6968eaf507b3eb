// A number that one thread, or a signal's handler, writes while others read it. Nothing else is passed along with it.
#pragma once

#include <atomic>
#include <cstdint>

namespace eqt {

using Flag = std::atomic<int32_t>;

// Python gives the address of an int32, and signals may come while it is written.
static_assert(sizeof(Flag) == sizeof(int32_t) && alignof(Flag) == alignof(int32_t) && Flag::is_always_lock_free);

// Always inlined: code of one instruction set must not be shared with that of another.
inline __attribute__((always_inline)) bool is_set(const Flag* flag) { return flag && flag->load(std::memory_order_relaxed); }
inline __attribute__((always_inline)) void set(Flag* flag) {
  if (flag) flag->store(1, std::memory_order_relaxed);
}

}  // namespace eqt
