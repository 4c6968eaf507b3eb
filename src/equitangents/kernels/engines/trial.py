"""Comparison of an untried engine (`Engine.untried`) with the reference engine on a small kernel."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from equitangents import precision
from equitangents.kernels import duals
from equitangents.kernels.engines.protocol import Engine
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Affine, Box, Dual, Pool
from equitangents.kernels.program import Positions, Program

ALLOWED = {"float32": 1e-5, "float64": 1e-10}  # relative to the largest entry; both engines promise a fifth of it
_SHAPE, _CHANNELS, _INPUTS, _OTHERS = (4, 3), 5, 3, 2


def program() -> Program:
    """Windows on a torus, ReLU, the mean over positions, a dense layer."""
    window = Box(_SHAPE, _SHAPE, (3, 3), (1, 1), (1, 1), (1, 1), True)
    mean = Pool(FrozenArray(np.zeros(12, np.int32)), 1)
    return Program(
        Positions(_SHAPE), (window, Affine(1.5, 0.01), Dual(duals.PiecewiseLinear(0.0)), mean, Affine(1.0, 0.0))
    )


def fault(engine: Engine, reference: Engine) -> str | None:
    """Fault of the kernels of `engine`, or its error; None if they are those of `reference`."""
    tried, found = program(), 0
    try:
        with jax.ensure_compile_time_eval(), precision.scope(np.float64):
            for dtype, allowed in ALLOWED.items():
                if engine.obstacle(tried, dtype) is None:
                    found += 1
                    if why := _compare(engine, reference, tried, dtype, allowed):
                        return f"{why} ({dtype})"
    except Exception as error:  # whatever an engine of another package raises
        return f"{type(error).__name__}: {error}"
    return None if found else "it can run none of the networks that it is tested on"


def _compare(engine: Engine, reference: Engine, tried: Program, dtype: str, allowed: float) -> str | None:
    draw = np.random.default_rng(0).standard_normal
    x, y = (draw((n, *tried.shape, _CHANNELS)).astype(dtype) for n in (_INPUTS, _OTHERS))
    asked: dict[str, Any] = {
        "between inputs": lambda chosen: chosen.kernels(tried, x, y),
        "of inputs with themselves": lambda chosen: chosen.kernels(tried, x, None),
        "on the diagonal": lambda chosen: chosen.diagonal(tried, x),
    }
    for what, ask in asked.items():
        for kind, found, exact in zip(("NNGP", "NTK"), ask(engine), ask(reference), strict=True):
            ours, theirs = (np.asarray(values, np.float64) for values in (found, exact))
            if ours.shape != theirs.shape:
                return f"its {kind} {what} has the shape {ours.shape} in place of {theirs.shape}"
            error = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
            if not error <= allowed:
                return f"its {kind} {what} differs from the reference engine's by {error:.1e}, relative"
    return None
