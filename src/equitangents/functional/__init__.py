"""Linearisations, Taylor expansions and kernels of any apply(params, x)."""

from equitangents.functional.batching import batch, monte_carlo_kernel_fn
from equitangents.functional.empirical import (
    EmpiricalKernel,
    NtkImplementation,
    empirical_kernel_fn,
    empirical_nngp_fn,
    empirical_ntk_fn,
    linearize,
    taylor_expand,
)

__all__ = [
    "EmpiricalKernel",
    "NtkImplementation",
    "batch",
    "empirical_kernel_fn",
    "empirical_nngp_fn",
    "empirical_ntk_fn",
    "linearize",
    "monte_carlo_kernel_fn",
    "taylor_expand",
]
