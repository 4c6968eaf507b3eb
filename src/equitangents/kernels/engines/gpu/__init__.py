"""The GPU engine: fibres in CUDA C++, carried through all layers in shared memory. Its source is in `native/src/gpu/`.

Why CUDA and not Pallas: a windowed mean reads each position's neighbours, and Pallas's Triton backend offers a kernel
neither scratch memory nor gathers for that, so that fields would have to leave the chip between layers, or windows
become matrix products of 64 multiplications a position in place of nine additions. An element-layer (a position
through one convolution and ReLU) is 72 machine instructions here, counted in the machine code for compute capability
9.0: 20 µs for the 8.4 million of a pair of 32 × 32 images through 8 layers, on 132 multiprocessors at four
instructions a cycle and 1.8 GHz. The kernel is written for each network and compiled when it is first used, by NVRTC,
which comes with JAX's CUDA wheels: the package builds without CUDA.
"""

from equitangents.kernels.engines.gpu.availability import description, obstacle, why_unavailable
from equitangents.kernels.engines.gpu.compiler import EMULATE, emulated
from equitangents.kernels.engines.gpu.run import (
    compiled,
    jitted_kernels,
    kernels,
    tiled_diagonal,
    tiled_kernels,
    working_bytes,
)
from equitangents.kernels.engines.gpu.source import source_key

__all__ = [
    "EMULATE",
    "compiled",
    "description",
    "emulated",
    "jitted_kernels",
    "kernels",
    "obstacle",
    "source_key",
    "tiled_diagonal",
    "tiled_kernels",
    "why_unavailable",
    "working_bytes",
]
