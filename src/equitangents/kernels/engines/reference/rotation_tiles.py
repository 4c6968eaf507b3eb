"""Programs on rotations by the reference engine, in tiles of pairs on as many threads as there are cores.

A tile's working set is one ring of rotations for so many pairs that it stays in a core's cache. Memory does not grow
with the number of pairs beyond the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import MemoryLimitError
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.engines.protocol import Listed, Pair, RotationRules
from equitangents.kernels.engines.reference import rotations
from equitangents.kernels.engines.reference.rotations import (
    BATCH,
    Side,
    Sphere,
    sphere_samples,
)
from equitangents.kernels.plans.plan import has_dual
from equitangents.kernels.rotations.program import (
    RotationSections,
    field_points,
    nodes,
    sphere_resolution,
)
from equitangents.kernels.rotations.sampling import Rings, rings_of
from equitangents.memory import threads

_TILE_ELEMENTS = 1 << 15  # numbers in one field of a tile: a ring's rotations (or a sphere's points) times pairs
_TRACED_ELEMENTS = 1 << 20
_MEMORY_LIMIT = 4 << 30
_FIELDS = 12  # fields alive at once, at most


def samples_of(program: RotationSections, resolution: int, dtype: np.dtype) -> Rings | Sphere:
    """The quadrature's arrays in a precision, on the device."""
    if program.sphere:
        found: Rings | Sphere = sphere_samples(program, resolution)
    elif program.readout == "flatten":
        found = Rings({}, {})
    else:
        found = rings_of(program.bandlimit, program.group, resolution)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), found)


def pairs_in_tile(program: RotationSections, resolution: int, itemsize: int, elements: int = _TILE_ELEMENTS) -> int:
    """Number of pairs in a tile; raises MemoryLimitError where even one pair is too large."""
    if program.sphere:
        s = sphere_resolution(program.bandlimit, resolution)
        each = s * (2 * s - 1)
    elif isinstance(program.group, RotationGroup):
        each = max((2 * resolution - 1) ** 2, program.bandlimit**3)
    else:
        each = max(64, program.bandlimit**3)
    tables = resolution * (2 * program.bandlimit) ** 3
    needed = (each * _FIELDS + tables) * itemsize
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError(
            "one pair of signals", needed, _MEMORY_LIMIT, "lower the bandlimit, or raise SphereLift's tolerance"
        )
    return max(1, elements // each)


def _side(program: RotationSections, samples: Any, x: ArrayLike) -> Side:
    """Moments of signals (N, B², C)."""
    return rotations.prepare(program, samples, rotations.scaled(program, x))


_compiled = jax.jit(rotations.listed, static_argnums=0)
_compiled_side = jax.jit(_side, static_argnums=0)


def _prepared(program: RotationSections, samples: Any, x: np.ndarray, size: int) -> Side:
    """All signals in one array on the host, from which tiles gather; `size` of them at a time have their moments."""
    size = min(len(x), size) if has_dual(program.vector) else len(x)
    padded = np.zeros((-(-len(x) // size) * size, *x.shape[1:]), x.dtype)
    padded[: len(x)] = x
    parts = [_compiled_side(program, samples, padded[i : i + size]) for i in range(0, len(padded), size)]
    return jax.tree.map(lambda *v: np.concatenate(v, axis=-1), *parts)


def _at(side: Side, index: Any) -> Side:
    return jax.tree.map(lambda v: v[..., index], side)


def _in_parallel(one: Callable[[int], None], starts: Sequence[int], dtype: np.dtype) -> None:
    """one(start) for every tile, on as many threads as there are cores: tiles are too small for several each."""

    def run_one(start: int) -> None:
        with precision.scope(dtype):  # which holds for the thread that enters it
            one(start)

    if len(starts) == 1 or threads() == 1:
        for start in starts:
            run_one(start)
        return
    with ThreadPoolExecutor(threads()) as pool:
        futures = [pool.submit(run_one, start) for start in starts]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _inputs_of(pair: np.ndarray, n1: int, n2: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The inputs (i, j) of pairs that are counted through; n2 None: i <= j < n1, rows i and n1 - i - 1 or so in one."""
    if n2 is not None:
        return np.divmod(pair, n2)
    odd = n1 % 2
    row, column = np.divmod(pair, n1 + 1 - odd)
    own = column < n1 - row
    return np.where(own, row, n1 - 1 + odd - row), np.where(own, row, odd - 1) + column


class TiledRotations(RotationRules):
    """Every program on rotations, in pure JAX."""

    differentiable = True

    def obstacle(self, program: RotationSections) -> str | None:
        return None

    def kernels(
        self,
        program: RotationSections,
        resolution: int,
        x1: np.ndarray,
        x2: np.ndarray | None,
        listed: Listed | None = None,
        any_norms: bool = False,
    ) -> Pair:
        n1, n2 = len(x1), len(x1 if x2 is None else x2)
        shape = (n1, n2) if listed is None else (len(listed[0]),)
        nngp, ntk = np.empty(shape, x1.dtype), np.empty(shape, x1.dtype)
        if not nngp.size:
            return nngp, ntk
        samples, pairs = (
            samples_of(program, resolution, x1.dtype),
            pairs_in_tile(program, resolution, x1.dtype.itemsize),
        )
        first = _prepared(program, samples, x1, pairs)
        second = first if x2 is None else _prepared(program, samples, x2, pairs)
        mirrored = listed is None and x2 is None
        count = n1 * (n1 + 1) // 2 if mirrored else nngp.size
        size = min(pairs, count)

        def tile(start: int) -> None:
            here = np.minimum(np.arange(start, start + size), count - 1)
            i, j = _inputs_of(here, n1, None if x2 is None else n2) if listed is None else (v[here] for v in listed)
            found = _compiled(program, samples, _at(first, i), _at(second, j))
            for out, values in zip((nngp, ntk), map(np.asarray, found), strict=True):
                out[(i, j) if listed is None else here] = values
                if mirrored:
                    out[j, i] = values

        _in_parallel(tile, range(0, count, size), x1.dtype)
        return nngp, ntk

    def traced(
        self, program: RotationSections, resolution: int, x1: Any, x2: Any = None, listed: Listed | None = None
    ) -> Pair:
        """One tile after another, recomputed rather than stored for derivatives."""
        samples = samples_of(program, resolution, x1.dtype)
        other = x1 if x2 is None else x2
        shape = (len(x1), len(other)) if listed is None else (len(listed[0]),)
        i, j = np.indices(shape).reshape(2, -1) if listed is None else listed
        size = min(len(i), pairs_in_tile(program, resolution, x1.dtype.itemsize, _TRACED_ELEMENTS))
        index = tuple(jnp.pad(jnp.asarray(v), (0, -len(i) % size)).reshape(-1, size) for v in (i, j))
        sides = [_side(program, samples, x) for x in (x1, other)]

        def one(here: tuple[Any, Any]) -> Pair:
            return rotations.listed(program, samples, *map(_at, sides, here))

        found = jax.lax.map(jax.checkpoint(one), index)
        nngp, ntk = (values.reshape(-1)[: len(i)].reshape(shape) for values in found)
        return nngp, ntk

    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes held beyond inputs and results: the signals in tiles, the quadrature, and a tile for every thread."""
        B, pairs = program.bandlimit, pairs_in_tile(program, resolution, itemsize)
        signals = (n1 + (n2 or 0)) * B * B * channels
        rotations, points = nodes(program, resolution), field_points(program, resolution)
        if program.sphere:
            s = sphere_resolution(B, resolution)
            samples = points * s * s + 10 * rotations
            batch = min(BATCH, rotations)
            tile = points * (batch * (s * s + pairs * (channels + _FIELDS)) + 2 * channels * pairs)
        elif program.readout == "flatten":
            samples, tile = 0, pairs * (B * B * channels + _FIELDS)
        elif not resolution:
            samples = rotations * B**3 * 4 // 3
            tile = pairs * (2 * B**3 + 64 * _FIELDS)
        else:
            ring, rings, side = (2 * resolution - 1) ** 2, rotations // (2 * resolution - 1) ** 2, 2 * B - 1
            samples = rings * side**2 * 2 * (B - 1) + rotations
            tile = pairs * (2 * side**2 * (rings + 2 * B) + ring * _FIELDS)
        return (signals + samples + threads() * (tile + 2 * pairs * B * B * channels)) * itemsize
