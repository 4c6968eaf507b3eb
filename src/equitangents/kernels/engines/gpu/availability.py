"""Whether the GPU engine can run here, and what it can run."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np

from equitangents._types import DType
from equitangents.kernels.engines import cpu
from equitangents.kernels.engines.gpu.compiler import EMULATE, emulated, host_compiler, nvrtc
from equitangents.kernels.engines.gpu.shape import AXES, shape_of
from equitangents.kernels.engines.gpu.sides import DUAL_SIDES
from equitangents.kernels.engines.gpu.source import folder
from equitangents.kernels.operations import Affine, Decouple, Dual
from equitangents.kernels.plans.levels import Level
from equitangents.kernels.plans.plan import FibrePlan, PairPlan, index_tables
from equitangents.kernels.plans.steps import AddSaved, Fork, Step, fits_windows, unrolled

# Shared memory that a block may have, by compute capability; CUDA C++ Programming Guide, technical specifications.
_SHARED_KB = {"7.0": 96, "7.5": 64, "8.0": 163, "8.6": 99, "8.7": 163, "8.9": 99, "9.0": 227, "10.0": 227, "10.3": 227}
_SHARED_KB_OTHERS = 99
_LARGEST = 2**31 - 1  # what an index of the engine can count


def why_unavailable() -> str | None:
    """Why the engine cannot run on this machine, or None if it can."""
    if folder() is None:
        return "its source was not installed (it comes with the compiled part of the package)"
    if emulated():
        return cpu.why_unavailable() or (None if host_compiler() else "emulating it needs a C++ compiler")
    if (found := _device()) is None:
        return f"JAX sees no CUDA device here (to emulate one on the CPU, slowly, for tests: {EMULATE}=1)"
    if why := cpu.why_unavailable():
        return why
    if not hasattr(found, "compute_capability"):
        return f"{found.device_kind} is not a CUDA device"
    if nvrtc() is None:
        return "NVRTC, with which it compiles, is not installed (it comes with jax[cuda13], or as nvidia-cuda-nvrtc)"
    return None


@cache
def _device() -> Any:
    try:
        return jax.devices("cuda")[0]
    except RuntimeError:
        return None


def device() -> Any:
    """Where kernels run: JAX's first CUDA device, or in emulation its CPU."""
    return jax.devices("cpu")[0] if emulated() else _device()


def capability() -> str:
    """The compute capability that kernels are compiled for, such as "9.0"."""
    return "9.0" if emulated() or (found := _device()) is None else str(found.compute_capability)


def description() -> str:
    """What runs, for people."""
    if emulated():
        return "emulated on the CPU"
    return f"{_device().device_kind}, compute capability {capability()}"


def obstacle(plan: FibrePlan | PairPlan, dtype: DType = "float64") -> str | None:
    """Why the engine cannot run `plan` in `dtype`, or None if it can."""
    if plan.form == "pairs":
        return f"it runs along fibres only, and here {plan.why}"
    steps, levels = unrolled(plan.field, plan.levels)
    if not any(op.is_window for op in steps):
        return "without windows there are no fibres to carry, and JAX does as well"
    for op in steps:
        if op.nonlinearity is not None and type(op.nonlinearity) not in DUAL_SIDES:
            return f"it has no dual of {type(op.nonlinearity).__name__}"
    if any(op.has_rates for op in steps):
        return "it has the NTK parametrisation alone"
    for op, before, after in zip(steps, levels[:-1], levels[1:], strict=True):
        if not _is_known(op, before, after):
            return f"it has no {op.name} of this kind"
    if any(len(level.shape) > AXES for level in levels):
        return f"its grids have at most {AXES} dimensions"
    tables = {**index_tables(steps, levels), **{t.key: t.array for t in (plan.labels, plan.fibres)}}
    if sum(table.size for table in tables.values()) > _LARGEST:
        return "the index tables of the network are too large for it"
    needed, limit = shape_of(plan, np.dtype(dtype).itemsize).bytes, _shared_bytes()
    if needed > limit:
        return (
            f"a fibre in {np.dtype(dtype).name} takes {needed >> 10} KiB of shared memory, and there are {limit >> 10}"
        )
    return None


def _shared_bytes() -> int:
    return _SHARED_KB.get(capability(), _SHARED_KB_OTHERS) << 10


def _is_known(op: Step, before: Level, after: Level) -> bool:
    """Whether the engine's rules for levels cover `op` between these two."""
    return isinstance(op, Affine | Dual | Decouple | Fork | AddSaved) or fits_windows(op, before, after)
