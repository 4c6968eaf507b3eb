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

// A sum begins with its first term: adding to zero is an operation like any other, because of the sign of zero.
template <class T>
EQT_INLINE void add(Cell<T>& sum, const Cell<T>& term, bool first) {
  if (first) sum = term;
  else sum.d += term.d, sum.theta += term.theta;
}

struct Sums {
  double k, theta;
};

// State: what a thread keeps from step to step.
#if defined(__CUDACC__)

template <int Threads, class State>
struct Block {
  void* memory;
  int64_t index;
  State own{};

  // Calls step(thread, state) in every thread.
  template <class F>
  EQT_INLINE void each(F&& step) {
    step(int(threadIdx.x), own);
    __syncthreads();
  }
};

#else

template <int Threads, class State>
struct Block {
  void* memory;
  int64_t index;
  std::vector<State> own = std::vector<State>(Threads);

  template <class F>
  void each(F&& step) {
    for (int thread = 0; thread < Threads; ++thread) step(thread, own[thread]);
  }
};

#endif

}  // namespace eqt::EQT_ISA
