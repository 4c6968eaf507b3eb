// Memory for vectors, and work that threads share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace eqt {

// Uninitialised memory on the boundary of a cache line.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t size)
      : data_(static_cast<T*>(::operator new(std::max<int64_t>(size, 1) * sizeof(T), std::align_val_t(64)))) {}
  ~Buffer() { ::operator delete(data_, std::align_val_t(64)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return data_; }

 private:
  T* data_;
};

// Calls make() for as many of `threads` threads as there is memory for, and says how many; fails without memory for one.
template <class Make>
int as_many_as_fit(int threads, Make&& make) {
  for (int t = 0; t < threads; ++t) {
    try {
      make();
    } catch (const std::bad_alloc&) {
      if (t == 0) throw;
      return t;
    }
  }
  return threads;
}

// Calls work(item, thread) for all items, by several threads: as many as can be started, which changes no number, since
// each item is worked on by itself. What `work` throws in any of them is thrown here, after all have ended.
template <class Work>
void share_out(int64_t items, int threads, const Work& work) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;  // the first one's, read when all threads have ended
  const auto loop = [&](int thread) noexcept {
    try {
      for (int64_t i = next++; i < items; i = next++) work(i, thread);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
      next = items;  // nothing more is begun
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(size_t(std::max<int64_t>(std::min<int64_t>(threads, items) - 1, 0)));
    for (int t = 1; t < std::min<int64_t>(threads, items); ++t) others.emplace_back(loop, t);
  } catch (const std::system_error&) {  // of processes, or of addresses for its stack, there is no more
  } catch (const std::bad_alloc&) {
  }
  loop(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace eqt
