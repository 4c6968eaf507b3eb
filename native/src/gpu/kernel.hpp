// The entry points of a network's kernels, after its settings and stages: on a GPU, or for tests as a plain function.
#pragma once

#include "fibre.hpp"

#if defined(__CUDACC__)

#define EQT_KERNEL(name, T)                                                                          \
  extern "C" __global__ void __launch_bounds__(eqt::gpu::Network::kThreads)                         \
      name(eqt::gpu::Arguments<T> arguments) {                                                       \
    extern __shared__ __align__(16) unsigned char memory[];                                          \
    eqt::gpu::Fibres<T, eqt::gpu::Network>::Threads block{memory, int64_t(blockIdx.x)};              \
    eqt::gpu::Fibres<T, eqt::gpu::Network>(arguments, block).run();                                  \
  }

#else

#define EQT_KERNEL(name, T)                                                                          \
  extern "C" void name(const eqt::gpu::Arguments<T>* arguments, int64_t blocks, int64_t bytes) {     \
    std::vector<double> memory(bytes / sizeof(double) + 2);                                          \
    for (int64_t index = 0; index < blocks; ++index) {                                               \
      eqt::gpu::Fibres<T, eqt::gpu::Network>::Threads block{memory.data(), index};                   \
      eqt::gpu::Fibres<T, eqt::gpu::Network>(*arguments, block).run();                               \
    }                                                                                                \
  }

#endif
