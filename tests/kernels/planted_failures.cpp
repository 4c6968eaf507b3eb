// Preloaded before all other libraries: the n-th thread that is started, or the n-th piece of memory that C++ asks for,
// is refused, as a system does that has no more. Tests say which by `plant_*`, around one call of the engine.
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <new>

namespace {
// How many are granted before one is refused; negative: none is. `all`: those after it, too.
std::atomic<long> threads{-1}, memory{-1};
std::atomic<bool> all_threads{false};
std::atomic<long> asked_threads{0}, asked_memory{0};

bool refused(std::atomic<long>& left, std::atomic<long>& asked, bool all = false) {
  ++asked;
  if (left < 0) return false;
  const long before = left.fetch_sub(1);
  if (before > 0) return false;
  left = all ? 0 : -1;
  return before == 0 || all;
}

void* taken(std::size_t size, std::size_t alignment) {
  if (refused(memory, asked_memory)) throw std::bad_alloc();
  void* found = nullptr;
  if (posix_memalign(&found, alignment < sizeof(void*) ? sizeof(void*) : alignment, size ? size : 1)) throw std::bad_alloc();
  return found;
}

void* taken_or_null(std::size_t size, std::size_t alignment) noexcept {
  try {
    return taken(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
}  // namespace

#define SHOWN __attribute__((visibility("default")))
extern "C" {
SHOWN void plant_threads(long granted, bool all) {
  all_threads = all;
  asked_threads = 0;
  threads = granted;
}
SHOWN void plant_memory(long granted) {
  asked_memory = 0;
  memory = granted;
}
SHOWN long threads_asked() { return asked_threads; }
SHOWN long memory_asked() { return asked_memory; }

SHOWN int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (refused(threads, asked_threads, all_threads)) return EAGAIN;
  return create(thread, attributes, run, argument);
}
}

SHOWN void* operator new(std::size_t size) { return taken(size, alignof(std::max_align_t)); }
SHOWN void* operator new[](std::size_t size) { return taken(size, alignof(std::max_align_t)); }
SHOWN void* operator new(std::size_t size, std::align_val_t to) { return taken(size, std::size_t(to)); }
SHOWN void* operator new[](std::size_t size, std::align_val_t to) { return taken(size, std::size_t(to)); }
SHOWN void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return taken_or_null(size, alignof(std::max_align_t));
}
SHOWN void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return taken_or_null(size, alignof(std::max_align_t));
}
SHOWN void* operator new(std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return taken_or_null(size, std::size_t(to));
}
SHOWN void* operator new[](std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return taken_or_null(size, std::size_t(to));
}
SHOWN void operator delete(void* p) noexcept { std::free(p); }
SHOWN void operator delete[](void* p) noexcept { std::free(p); }
SHOWN void operator delete(void* p, std::size_t) noexcept { std::free(p); }
SHOWN void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
SHOWN void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
SHOWN void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
SHOWN void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
SHOWN void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
