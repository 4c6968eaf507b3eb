"""Small kernels by an engine and by the reference engine, compared: run in a child process, as engines may crash.

    python -m equitangents.kernels.engines.trial MODULE CLASS

prints what was found as one line: `MARK` and a text in JSON, null where the engine is right.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import numpy as np

from equitangents.kernels import duals
from equitangents.kernels.branches import residual
from equitangents.kernels.engines.findings import MARK
from equitangents.kernels.engines.protocol import Engine
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Affine, Box, Dual, Flatten, Pool, Table
from equitangents.kernels.program import GroupFibres, Positions, Program

ALLOWED = {"float32": 1e-5, "float64": 1e-10}  # relative to the largest entry; both engines promise a fifth of it
_CHANNELS, _INPUTS, _OTHERS = 5, 3, 2
_SHAPE = (5, 6)


def _grid(window: tuple[int, int], *, stride: int = 1, wrap: bool = True, into: tuple[int, int] = _SHAPE) -> Box:
    low = tuple((w - 1) // 2 for w in window)
    high = tuple(w - 1 - lo for w, lo in zip(window, low, strict=True))
    before = _SHAPE if stride > 1 or wrap else into
    return Box(before, into, window, (stride, stride), low, high, wrap)


def _cyclic(n: int, offsets: tuple[int, ...]) -> Table:
    """Windows p + offsets on a ring."""
    index = (np.arange(n)[:, None] + np.array(offsets)) % n
    return Table(FrozenArray(index.astype(np.int32)), FrozenArray(np.full(len(offsets), 1 / len(offsets))))


def _mean(positions: int) -> Pool:
    return Pool(FrozenArray(np.zeros(positions, np.int32)), 1)


def cases() -> dict[str, Program]:
    """By name: windows on a torus, with zero padding and stride, and on a group; kinked and smooth nonlinearities."""
    relu, bias, dense = Dual(duals.PiecewiseLinear(0.0)), Affine(1.5, 0.01), Affine(1.0, 0.0)
    torus = (_grid((3, 3)), bias, relu, _grid((2, 2)), bias, relu, _mean(30), dense, relu, dense)
    inner = residual((_grid((2, 3), wrap=False, into=(3, 3)), bias, Dual(duals.Gelu())))
    padded = (_grid((3, 3), stride=2, wrap=False, into=(3, 3)), bias, Dual(duals.Erf()), inner, Flatten(), dense)
    moved = FrozenArray(((np.arange(4)[:, None] + np.arange(4)) % 4).astype(np.int32))
    group = (_cyclic(4, (0, 1)), bias, relu, _cyclic(4, (0, 3)), bias, Dual(duals.Cos()), _mean(4), dense)
    return {
        "windows on a torus, ReLU, mean over positions": Program(Positions(_SHAPE), torus),
        "zero padding, stride 2, Erf, a residual branch with GELU": Program(Positions(_SHAPE), padded),
        "windows on a group, ReLU and Cos": Program(Positions((4,), GroupFibres(moved, moved)), group),
    }


def fault(engine: Engine, reference: Engine) -> str | None:
    """What is wrong with the kernels of `engine`, or None if they are those of `reference`."""
    if why := engine.why_unavailable():
        raise RuntimeError(f"it is not available in a child process: {why}")
    tried = 0
    for name, program in cases().items():
        for dtype, allowed in ALLOWED.items():
            if engine.obstacle(program, dtype) is not None:
                continue
            tried += 1
            if why := _compare(engine, reference, program, dtype, allowed):
                return f"{why} ({name}, {dtype})"
    return None if tried else "it can run none of the networks that it is tested on"


def _compare(engine: Engine, reference: Engine, program: Program, dtype: str, allowed: float) -> str | None:
    draw = np.random.default_rng(0).standard_normal
    x, y = (draw((n, *program.shape, _CHANNELS)).astype(dtype) for n in (_INPUTS, _OTHERS))
    asked: dict[str, Any] = {
        "between inputs": lambda chosen: chosen.kernels(program, x, y),
        "of inputs with themselves": lambda chosen: chosen.kernels(program, x, None),
        "on the diagonal": lambda chosen: chosen.diagonal(program, x),
    }
    for what, ask in asked.items():
        for kind, found, exact in zip(("NNGP", "NTK"), ask(engine), ask(reference), strict=True):
            ours, theirs = (np.asarray(values, np.float64) for values in (found, exact))
            if ours.shape != theirs.shape:
                return f"its {kind} {what} has the shape {ours.shape} in place of {theirs.shape}"
            if not np.isfinite(ours).all():
                return f"its {kind} {what} is not finite"
            error = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
            if not error <= allowed:
                return f"its {kind} {what} differs from the reference engine’s by {error:.1e}, relative"
    return None


def main(module: str, name: str) -> None:
    """Test a new instance of a class of engines, and print what was found."""
    from equitangents import precision
    from equitangents.kernels.engines.select import REFERENCE

    with precision.scope(np.float64):
        found = fault(getattr(importlib.import_module(module), name)(), REFERENCE)
    print(MARK + json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
