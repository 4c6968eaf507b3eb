// Memory for vectors, and work that threads share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <new>
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

// Calls work(item, thread) for all items, by several threads.
inline void share_out(int64_t items, int threads, const std::function<void(int64_t, int)>& work) {
  std::atomic<int64_t> next{0};
  auto loop = [&](int thread) {
    for (int64_t i = next++; i < items; i = next++) work(i, thread);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min<int64_t>(threads, items); ++t) others.emplace_back(loop, t);
  loop(0);
  for (std::thread& other : others) other.join();
}

}  // namespace eqt
