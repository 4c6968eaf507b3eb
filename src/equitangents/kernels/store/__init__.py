"""Kernels kept on disk under a hash of program, inputs and versions."""

from equitangents.caches import cache_folder
from equitangents.kernels.store.folder import KernelStore
from equitangents.kernels.store.kept import KeptKernel

__all__ = ["KeptKernel", "KernelStore", "cache_folder"]
