"""Tiles of pairs of signals, on as many threads as there are cores.

A tile's working set is one ring of rotations for so many pairs that it stays in a core's cache. Memory does not grow
with the number of pairs beyond the result.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import MemoryLimitError
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.engines.reference.rotations import measured, recursion
from equitangents.kernels.engines.reference.rotations.fields import BATCH
from equitangents.kernels.engines.reference.rotations.measured import samples_of
from equitangents.kernels.fields.part import MATRIX
from equitangents.kernels.plans.plan import has_dual
from equitangents.kernels.rotations.program import RotationSections, Zonal, field_points, nodes, sphere_resolution
from equitangents.kernels.threads import threads

_TILE_ELEMENTS = 1 << 15  # numbers in one field of a tile: a ring's rotations (or a sphere's points) times pairs
_TRACED_ELEMENTS = 1 << 20
_MEMORY_LIMIT = 4 << 30
_FIELDS = 12  # fields alive at once, at most


def check_memory(program: RotationSections, resolution: int, itemsize: int) -> None:
    """Raises MemoryLimitError where even one pair is too large."""
    _pairs_in_tile(program, resolution, itemsize)


def _pairs_in_tile(program: RotationSections, resolution: int, itemsize: int, elements: int = _TILE_ELEMENTS) -> int:
    """Number of pairs in a tile; see `check_memory`."""
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


def tile_shape(program: RotationSections, resolution: int, n1: int, n2: int | None, itemsize: int) -> tuple[int, int]:
    """Signals of both sides in a tile of n1 × n2 (None: n1 with themselves)."""
    pairs = _pairs_in_tile(program, resolution, itemsize)
    rows = min(n1, max(1, int(pairs**0.5)))
    return rows, rows if n2 is None else min(n2, max(1, pairs // rows))


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(rule: Callable[..., Any], program: RotationSections, samples: Any, *sides: Any) -> Any:
    """A rule of the recursion, on one side of a tile or on both."""
    return rule(program, samples, *sides)


def _prepare(program: RotationSections, samples: Any, x: ArrayLike) -> recursion.Side:
    """Moments of signals (N, B², C)."""
    return recursion.prepare(program, samples, recursion.scaled(program, x))


def _sides(program: RotationSections, samples: Any, x: np.ndarray, size: int) -> list[recursion.Side]:
    """Signals in blocks of equal size, the last filled up with zeros."""
    padded = np.zeros((-(-len(x) // size) * size, *x.shape[1:]), x.dtype)
    padded[: len(x)] = x
    return [_compiled(_prepare, program, samples, padded[i : i + size]) for i in range(0, len(padded), size)]


def _all(program: RotationSections, samples: Any, x: np.ndarray) -> recursion.Side:
    """All signals in one array on the host, from which tiles gather."""
    size = min(len(x), _pairs_in_tile(program, 1, x.dtype.itemsize)) if has_dual(program.vector) else len(x)
    parts = [jax.tree.map(np.asarray, side) for side in _sides(program, samples, x, size)]
    return jax.tree.map(lambda *v: np.concatenate(v, axis=-1), *parts)


def _filled(index: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([index, np.zeros(size - len(index), index.dtype)])


def _in_parallel(one: Any, tasks: list[tuple[int, ...]], dtype: np.dtype) -> None:
    """one(*task) for every task, on as many threads as there are cores: tiles are too small for several each."""

    def run_one(task: tuple[int, ...]) -> None:
        with precision.scope(dtype):  # which holds for the thread that enters it
            one(*task)

    if len(tasks) == 1 or threads() == 1:
        for task in tasks:
            run_one(task)
        return
    with ThreadPoolExecutor(threads()) as pool:
        futures = [pool.submit(run_one, task) for task in tasks]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


class TiledRotations(RotationRules):
    """Every program on rotations, in pure JAX."""

    differentiable = True

    def obstacle(self, program: RotationSections) -> str | None:
        return None

    def kernels(self, program: RotationSections, resolution: int, x1: np.ndarray, x2: np.ndarray | None) -> Pair:
        """(NNGP, NTK) between x1, (N1, B², C), and x2 (None: x1 with itself, at half the cost), each (N1, N2)."""
        samples = samples_of(program, resolution, x1.dtype)
        n1, n2 = len(x1), len(x1) if x2 is None else len(x2)
        rows, columns = tile_shape(program, resolution, n1, None if x2 is None else n2, x1.dtype.itemsize)
        sides1 = _sides(program, samples, x1, rows)
        sides2 = sides1 if x2 is None else _sides(program, samples, x2, columns)
        nngp, ntk = np.empty((n1, n2), x1.dtype), np.empty((n1, n2), x1.dtype)

        def one(i: int, j: int) -> None:
            r, c = slice(i * rows, min((i + 1) * rows, n1)), slice(j * columns, min((j + 1) * columns, n2))
            for out, values in zip(
                (nngp, ntk), _compiled(recursion.block, program, samples, sides1[i], sides2[j]), strict=True
            ):
                MATRIX.write(out, r, c, values, x2 is None)

        _in_parallel(
            one, [(i, j) for i in range(len(sides1)) for j in range(i if x2 is None else 0, len(sides2))], x1.dtype
        )
        return nngp, ntk

    def listed(
        self, program: RotationSections, resolution: int, x1: np.ndarray, x2: np.ndarray, first: Any, second: Any
    ) -> Pair:
        """(NNGP, NTK) of the pairs (x1[first[p]], x2[second[p]]), each (P,)."""
        samples = samples_of(program, resolution, x1.dtype)
        first, second = np.asarray(first), np.asarray(second)
        if not len(first):
            return np.zeros(0, x1.dtype), np.zeros(0, x1.dtype)
        size = min(len(first), _pairs_in_tile(program, resolution, x1.dtype.itemsize))
        sides = [_all(program, samples, x) for x in (x1, x2)]
        nngp, ntk = np.empty(len(first), x1.dtype), np.empty(len(first), x1.dtype)

        def one(start: int) -> None:
            here = slice(start, min(start + size, len(first)))
            a, b = (
                jax.tree.map(lambda v, index=index: v[..., _filled(index[here], size)], side)
                for side, index in zip(sides, (first, second), strict=True)
            )
            for out, values in zip((nngp, ntk), _compiled(recursion.listed, program, samples, a, b), strict=True):
                out[here] = np.asarray(values)[: here.stop - here.start]

        _in_parallel(one, [(start,) for start in range(0, len(first), size)], x1.dtype)
        return nngp, ntk

    def traced(self, program: RotationSections, resolution: int, x1: Any, x2: Any = None) -> Pair:
        other = x1 if x2 is None else x2
        i, j = np.divmod(np.arange(len(x1) * len(other)), len(other))
        nngp, ntk = self.traced_listed(program, resolution, x1, other, i, j)
        return nngp.reshape(len(x1), len(other)), ntk.reshape(len(x1), len(other))

    def traced_listed(
        self, program: RotationSections, resolution: int, x1: Any, x2: Any, first: Any, second: Any
    ) -> Pair:
        """The pairs inside a JAX program: one tile after another, recomputed rather than stored for derivatives."""
        samples = samples_of(program, resolution, x1.dtype)
        count = len(first)
        size = min(count, _pairs_in_tile(program, resolution, x1.dtype.itemsize, _TRACED_ELEMENTS))
        index = [jnp.pad(jnp.asarray(i), (0, -count % size)).reshape(-1, size) for i in (first, second)]
        sides = [_prepare(program, samples, x) for x in (x1, x2)]

        def one(here: tuple[Any, Any]) -> tuple[Any, Any]:
            a, b = (jax.tree.map(lambda v, i=i: v[..., i], side) for side, i in zip(sides, here, strict=True))
            return recursion.listed(program, samples, a, b)

        nngp, ntk = jax.lax.map(jax.checkpoint(one), tuple(index))
        return nngp.reshape(-1)[:count], ntk.reshape(-1)[:count]

    def sample_values(self, program: RotationSections, r: int, x: np.ndarray) -> Pair:
        return measured.sample_values(program, r, x)

    def products_on_sphere(self, program: RotationSections, resolution: int, channels: int) -> int:
        points = field_points(program, resolution)
        s = sphere_resolution(program.bandlimit, resolution)
        windows = [min(op.coefficients.array.size, s) for op in program.sphere if isinstance(op, Zonal)]
        return int(points * (program.bandlimit**2 * channels + sum(4 * n * n for n in windows)))

    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes held beyond inputs and results: the signals in tiles, the quadrature, and a tile for every thread."""
        B, rows, columns = program.bandlimit, *tile_shape(program, resolution, n1, n2, itemsize)
        sides = (-(-n1 // rows) * rows + (0 if n2 is None else -(-n2 // columns) * columns)) * B * B * channels
        pairs, rotations, points = rows * columns, nodes(program, resolution), field_points(program, resolution)
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
        return (sides + samples + threads() * tile) * itemsize

    def piece(
        self, program: RotationSections, resolution: int, n1: int, n2: int | None, itemsize: int
    ) -> tuple[int, int]:
        return tile_shape(program, resolution, n1, n2, itemsize)

    def pieces(self, n1: int, n2: int | None, rows: int, columns: int) -> float:
        """Tiles of the kernel matrix that each thread computes."""
        down, across = -(-n1 // rows), -(-(n2 or n1) // columns)
        count = down * (down + 1) // 2 if n2 is None else down * across
        return -(-count // threads())
