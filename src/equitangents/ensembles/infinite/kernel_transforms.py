"""Kernels between inputs and whole orbits, tile by tile, each tile transformed to the group's irreps at once.

F_ij(q) = Θ(x_i, ρ(q) x_j) is a function of q for each pair; only its transforms Σ_q F_ij(q) ρ(q) are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from equitangents.actions import Action
from equitangents.ensembles.infinite.problem import Field
from equitangents.ensembles.training.forecast import Forecast
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier
from equitangents.kernels import KernelFunction

_TILE_ENTRIES = 2**21  # kernel entries of one tile
_INPUT_ENTRIES = 2**22  # of the orbits that kernels are computed with at once
_TILE_COPIES = 8  # kernels and their transforms alive at once, as many numbers each
_SMALLEST_TILE = 24
_TILES = 8  # along one side: diagonal tiles are computed in full, off-diagonal ones once for both triangles


def gram_transforms(
    kernel: KernelFunction, action: Action, x: Any, irreps: Sequence[FourierIrrep], fields: Sequence[Field]
) -> list[list[np.ndarray]]:
    """For each field and irrep the block Σ_q F_ij(q) ρ(q)_cb at row (i, c) and column (j, b), Hermitian."""
    n, order, transform = len(x), action.group.order, GroupFourier(tuple(irreps))
    grams = [[np.empty((n, i.dimension, n, i.dimension), _dtype(i)) for i in irreps] for _ in fields]
    width = min(_orbit_inputs(action, x), max(_SMALLEST_TILE, -(-n // _TILES)))
    height = max(1, _TILE_ENTRIES // (width * order))
    forecast = Forecast(f"kernel of {n}·{order} augmented samples", n * (n + width) / 2)
    for columns in slices(0, n, width):
        orbit = action.orbit(x[columns])
        above = [(rows, True) for rows in slices(0, columns.start, height)]
        for rows, mirrored in [*above, *((rows, False) for rows in slices(columns.start, columns.stop, height))]:
            for into, values in zip(grams, orbit_kernels(kernel, x[rows], orbit, fields), strict=True):
                for block, part in zip(into, transform.forward(_last_axis_elements(values)), strict=True):
                    block[rows, :, columns] = part.transpose(0, 2, 1, 3)
                    if mirrored:
                        block[columns, :, rows] = part.conj().transpose(1, 3, 0, 2)
            forecast.advance((rows.stop - rows.start) * (columns.stop - columns.start))
    return [[block.reshape(n * block.shape[1], -1) for block in blocks] for blocks in grams]


def orbit_kernels(kernel: KernelFunction, x: Any, orbit: Any, fields: Sequence[Field]) -> list[np.ndarray]:
    """Kernels of x (M, …) with all ρ(q) x_j, `orbit` (|G|, N, …): (M, |G|, N) for each field, in float64."""
    kernels = kernel.kernel(x, orbit.reshape(-1, *orbit.shape[2:]))
    return [np.asarray(getattr(kernels, f), np.float64).reshape(len(x), *orbit.shape[:2]) for f in fields]


def cross_transforms(
    kernel: KernelFunction,
    action: Action,
    x: Any,
    inputs: Any,
    irreps: Sequence[FourierIrrep],
    fields: Sequence[Field],
) -> list[list[np.ndarray]]:
    """For each field and irrep Σ_q Θ(x_m, ρ(q) x_j) ρ(q) over all `inputs` x_j: (M, N, d, d)."""
    n, transform = len(inputs), GroupFourier(tuple(irreps))
    found = [[np.empty((len(x), n, i.dimension, i.dimension), _dtype(i)) for i in irreps] for _ in fields]
    step = max(1, _TILE_ENTRIES // (len(x) * action.group.order))
    for columns in slices(0, n, min(step, _orbit_inputs(action, inputs))):
        tile = orbit_kernels(kernel, x, action.orbit(inputs[columns]), fields)
        for into, values in zip(found, tile, strict=True):
            for block, part in zip(into, transform.forward(_last_axis_elements(values)), strict=True):
                block[:, columns] = part
    return found


def tile_bytes(n: int, order: int) -> int:
    """Bytes that tiles of the Gram matrix of n orbits take."""
    return _TILE_COPIES * 8 * min(_TILE_ENTRIES, n * n * order)


def slices(begin: int, end: int, step: int) -> Iterator[slice]:
    """begin … end in parts of at most `step`."""
    return (slice(start, min(start + step, end)) for start in range(begin, end, step))


def _last_axis_elements(values: np.ndarray) -> np.ndarray:
    """(M, |G|, N) as (M, N, |G|), contiguous."""
    return np.ascontiguousarray(values.transpose(0, 2, 1))


def _orbit_inputs(action: Action, x: Any) -> int:
    """How many inputs may have their whole orbits in memory at once."""
    return max(1, _INPUT_ENTRIES // (action.group.order * int(np.prod(x.shape[1:]))))


def _dtype(irrep: FourierIrrep) -> Any:
    return np.float64 if irrep.is_real else np.complex128
