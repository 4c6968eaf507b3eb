// A block of threads, with its shared memory, between whose steps all threads wait for each other.
// Compiled for the host a step is a loop over the threads, so that the kernel can be tested where there is no GPU.
#pragma once

#include "scalar.hpp"

namespace eqt::EQT_ISA {

// D and Θ of a pair of positions of a pair of inputs.
template <class T>
struct alignas(2 * sizeof(T)) Cell {
  T d, theta;
};

struct Sums {
  double k, theta;
};

#if defined(__CUDACC__)

template <int Threads>
struct Block {
  void* memory;
  int64_t index;
  Sums own{0, 0};

  template <class F>
  EQT_INLINE void each(F&& step) {
    step(int(threadIdx.x));
    __syncthreads();
  }
  EQT_INLINE Sums& sums(int) { return own; }
};

#else

template <int Threads>
struct Block {
  void* memory;
  int64_t index;
  std::vector<Sums> own = std::vector<Sums>(Threads, Sums{0, 0});

  template <class F>
  void each(F&& step) {
    for (int thread = 0; thread < Threads; ++thread) step(thread);
  }
  Sums& sums(int thread) { return own[thread]; }
};

#endif

}  // namespace eqt::EQT_ISA
