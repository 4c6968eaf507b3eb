"""Kernels kept on disk by the hash of what they are made of, and read where they are asked for again."""

from equitangents.caches import cache_folder
from equitangents.kernels.store.folder import KernelStore
from equitangents.kernels.store.kept import KeptKernel

__all__ = ["KeptKernel", "KernelStore", "cache_folder"]
