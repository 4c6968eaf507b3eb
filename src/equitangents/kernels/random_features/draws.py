"""The random numbers of a random network: signs, biases and the input's embedding, drawn once from a seed.

Everything is drawn by NumPy in the order of the operations, so that it is the same in every process; the shapes depend
on the program and the width alone, never on the inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.errors import NetworkError
from equitangents.kernels.branches import Parallel, flat
from equitangents.kernels.operations import Affine, Box, Decouple, Dual, Flatten, Pool, Standardise, Table, WindowPool
from equitangents.kernels.program import Op, Program

_KNOWN = (Pool, WindowPool, Dual, Standardise)


def draws(program: Program, channels: int, width: int, seed: int) -> tuple[np.ndarray, list[Any]]:
    """(the input's embedding (channels, width), what each operation needs), for a network of `width` channels."""
    rng = np.random.default_rng(seed)
    return _embedding(rng, channels, width), _of_ops(program.ops, int(np.prod(program.shape)), width, rng)[0]


def sketch_draws(program: Program, width: int, block: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """(signs of the outputs, signs of the derivatives by each affine map): `block` + 1 numbers a channel."""
    rng = np.random.default_rng([seed, 1])
    affine = [op for op in flat(program.ops) if isinstance(op, Affine)]
    return _signs(rng, width), [_signs(rng, width * (block + 1)) for _ in affine]


def _embedding(rng: np.random.Generator, channels: int, width: int) -> np.ndarray:
    """E with E Eᵀ/width = 1/channels where that can be, else on average: f = x E has the input's covariance."""
    embedding = rng.standard_normal((width, channels))
    if channels <= width:
        embedding = np.linalg.qr(embedding)[0] * np.sqrt(width)
    return np.ascontiguousarray(embedding.T) / np.sqrt(channels)


def _signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (2 * rng.integers(0, 2, shape, dtype=np.int8) - 1).astype(np.int8)


def _of_ops(ops: tuple[Op, ...], positions: int, width: int, rng: np.random.Generator) -> tuple[list[Any], int]:
    """(draws of each operation, how many positions come out)."""
    found: list[Any] = []
    for op in ops:
        drawn: Any = None
        if isinstance(op, Affine):
            drawn = {"signs": _signs(rng, width), "bias": rng.standard_normal(width)}
        elif isinstance(op, Box):
            # signs of rows times signs of columns are still uncorrelated, and windows go one dimension at a time
            drawn = [_signs(rng, w, width) for w in op.window]
        elif isinstance(op, Table):
            drawn = _signs(rng, op.span, width)
        elif isinstance(op, Flatten | Decouple):
            drawn = _signs(rng, positions, width)
        elif op.held:
            each = [_of_ops(branch, positions, width, rng) for branch in op.held]
            drawn, positions = [made for made, _ in each], each[-1][1]
            if isinstance(op, Parallel) and op.shares is not None:
                drawn = {"branches": drawn, "signs": [_signs(rng, width) for _ in op.branches]}
        elif not isinstance(op, _KNOWN):
            raise NetworkError(
                "operation", type(op), "one that random features know", "use the exact kernel", verb="is"
            )
        positions = op.positions_after(positions)
        found.append(drawn)
    return found, positions
