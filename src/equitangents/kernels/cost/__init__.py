"""What kernels take, before they are computed: work counted literally, time from a calibration, memory as planned."""

from equitangents.kernels.cost.forecast import (
    Asked,
    CostedKernel,
    KernelCost,
    announce,
    as_part,
    asked,
    check_dtype,
    kernel_cost,
    repeated,
)

__all__ = [
    "Asked",
    "CostedKernel",
    "KernelCost",
    "announce",
    "as_part",
    "asked",
    "check_dtype",
    "kernel_cost",
    "repeated",
]
