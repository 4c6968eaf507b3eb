"""Kernels of networks on rotation groups: all pairs of two sets of signals, or a list of pairs, in tiles.

A tile's working set is one ring of rotations for so many pairs that it stays in a core's cache; several threads work on
tiles side by side. Memory does not grow with the number of pairs beyond the result.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.errors import InvalidArgumentError, MemoryLimitError
from equitangents.groups import RotationGroup
from equitangents.kernels.engines.cpu.library import threads
from equitangents.kernels.engines.select import engine_name
from equitangents.kernels.plan import has_dual
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations import tile
from equitangents.kernels.rotations.fields import Sphere, sphere_samples
from equitangents.kernels.rotations.pointwise import Variances, after, covariance, moments, run
from equitangents.kernels.rotations.program import RotationProgram
from equitangents.kernels.rotations.resolution import (
    LADDER,
    LADDER_OF_FIELDS,
    Resolution,
    choose,
    sample_pairs,
    surrogates,
)
from equitangents.kernels.rotations.rings import Rings, node_values, rings_of

_TILE_ELEMENTS = 1 << 15  # numbers in one field of a tile: a ring's rotations (or a sphere's points) times pairs
_TRACED_ELEMENTS = 1 << 20
_MEMORY_LIMIT = 4 << 30
_FIELDS = 12
_CHUNK = 1 << 13  # rotations at a time while a resolution is measured


def compute(program: RotationProgram, x1: Any, x2: Any = None, engine: str | None = None) -> Kernels:
    """Kernels between signals x1, (N1, B², C), and x2 (None: x1 with itself, at half the cost), each (N1, N2)."""
    _check_engine(engine)
    dtype = precision.working_dtype(x1, x2)
    found = resolve(program, x1, x2)
    with precision.scope(dtype):
        if any(precision.is_traced(x) for x in (x1, x2)):
            other = x1 if x2 is None else x2
            i, j = np.divmod(np.arange(len(x1) * len(other)), len(other))
            values = _traced(program, found.value, jnp.asarray(x1, dtype), jnp.asarray(other, dtype), i, j)
            nngp, ntk = (v.reshape(len(x1), len(other)) for v in values)
        else:
            nngp, ntk = _blocks(
                program, found.value, np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            )
        return _result(nngp, ntk, found, x1, x2)


def compute_diagonal(program: RotationProgram, x: Any, engine: str | None = None) -> Kernels:
    """Kernels of each signal with itself, (N,)."""
    return compute_pairs(program, x, x, np.arange(len(x)), np.arange(len(x)), engine)


def compute_pairs(
    program: RotationProgram, x1: Any, x2: Any, first: Any, second: Any, engine: str | None = None
) -> Kernels:
    """Kernels of the pairs (x1[first[p]], x2[second[p]]), each (P,)."""
    _check_engine(engine)
    dtype = precision.working_dtype(x1, x2)
    found = resolve(program, x1, x2)
    with precision.scope(dtype):
        if any(precision.is_traced(x) for x in (x1, x2)):
            nngp, ntk = _traced(program, found.value, jnp.asarray(x1, dtype), jnp.asarray(x2, dtype), first, second)
        else:
            nngp, ntk = _listed(program, found.value, np.asarray(x1, dtype), np.asarray(x2, dtype), first, second)
        return _result(nngp, ntk, found, x1, x2)


def _check_engine(engine: str | None) -> None:
    if engine is not None and engine_name(engine) != "reference":
        raise InvalidArgumentError(f"engine is {engine!r}; networks on rotations run on 'reference' alone")


def _result(nngp: Any, ntk: Any, found: Resolution, *inputs: Any) -> Kernels:
    if any(isinstance(x, jax.Array) for x in inputs):
        nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    notes = () if found.note is None else (found.note,)
    return Kernels(nngp, ntk, "reference", "rotations", notes, found.error, found.value or None)


# resolution ---------------------------------------------------------------------------


def resolve(program: RotationProgram, x1: Any, x2: Any = None) -> Resolution:
    """The resolution for these signals; for traced ones it is measured on random signals, and the result says so."""
    if not program.is_sampled:
        return Resolution(0, None, None)
    traced = [x for x in (x1, x2) if precision.is_traced(x)]
    if traced and program.accuracy.resolution is not None:
        return Resolution(
            program.accuracy.resolution, None, "as asked for; the error is not measured on traced signals"
        )
    dtype = precision.working_dtype(x1, x2)
    least = 64 * float(np.finfo(dtype).eps)
    if traced:
        return _resolve_for_surrogates(program, x1.shape[-1], least)
    a, b = sample_pairs(np.asarray(x1, np.float64), np.asarray(x1 if x2 is None else x2, np.float64))
    return _measured(program, a, b, least)


@lru_cache(maxsize=64)
def _resolve_for_surrogates(program: RotationProgram, channels: int, least: float) -> Resolution:
    x = surrogates(program.bandlimit, channels)
    found = _measured(program, *sample_pairs(x, x), least)
    return found._replace(note="resolution and error are those of random signals of unit variance")


def _measured(program: RotationProgram, a: np.ndarray, b: np.ndarray, least: float) -> Resolution:
    ladder: tuple[int, ...] = LADDER_OF_FIELDS if program.sphere else LADDER
    start = (program.bandlimit + 1) // 2
    ladder = tuple(r for r in ladder if r >= start)
    with precision.scope(np.float64), jax.ensure_compile_time_eval():  # also while something else is traced
        return choose(program.accuracy, ladder, lambda r: _sample_values(program, r, a, b), least)


def _sample_values(program: RotationProgram, r: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K, Θ) after the readout, in float64; one compiled function serves all resolutions."""
    c1, c2 = (np.array(tile.scaled(program, x)) for x in (a, b))
    if program.sphere:
        nngp, ntk = _readout(program, _samples(program, r, np.dtype(np.float64)), c1, c2)
        return np.asarray(nngp), np.asarray(ntk)
    q1, q2 = (np.sum(c * c, axis=(0, 1)) for c in (c1, c2))
    k, weights = node_values(rings_of(program.bandlimit, program.group, r), c1, c2, program.bandlimit)
    constant = np.sum((c1[0] - c2[0]) ** 2, axis=0)
    directional = sum(np.sum(c[1:] ** 2, axis=(0, 1)) for c in (c1, c2))
    d = np.maximum(directional - 2 * k, 0) + constant
    totals = np.zeros((2, d.shape[1]))
    for start in range(0, len(d), _CHUNK):
        part = np.zeros((_CHUNK, d.shape[1]))
        part[: len(d) - start] = d[start : start + _CHUNK]
        w = np.zeros(_CHUNK)
        w[: len(d) - start] = weights[start : start + _CHUNK]
        totals += np.asarray(_weighted(program, part, w, q1, q2))
    return totals[0], totals[1]


@partial(jax.jit, static_argnums=0)
def _weighted(program: RotationProgram, d: Any, weights: Any, q1: Any, q2: Any) -> Any:
    m1, m2 = (moments(program.field, Variances(q, jnp.zeros_like(q))) for q in (q1, q2))
    d, theta = run(program.field, d, jnp.zeros_like(d), m1, m2)
    return jnp.stack([weights @ covariance(d, after(m1), after(m2)), weights @ theta])


@partial(jax.jit, static_argnums=0)
def _readout(program: RotationProgram, samples: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return tile.readout(program, samples, a, b, False)[:2]


def _samples(program: RotationProgram, resolution: int, dtype: np.dtype) -> Rings | Sphere:
    """The quadrature's arrays in a precision, on the device."""
    if program.sphere:
        found: Rings | Sphere = sphere_samples(program, resolution)
    elif program.readout == "flatten":
        found = Rings({}, {})
    else:
        found = rings_of(program.bandlimit, program.group, resolution)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), found)


# tiles --------------------------------------------------------------------------------


def _pairs_in_tile(program: RotationProgram, resolution: int, itemsize: int, elements: int = _TILE_ELEMENTS) -> int:
    """How many pairs one tile holds; raises MemoryLimitError where even one is too large."""
    if program.sphere:
        s = max(resolution, 2 * program.bandlimit - 1)
        each = s * (2 * s - 1)
    elif isinstance(program.group, RotationGroup):
        each = max((2 * resolution - 1) ** 2, program.bandlimit**3)
    else:
        each = max(64, program.bandlimit**3)
    if each * _FIELDS * itemsize > _MEMORY_LIMIT:
        raise MemoryLimitError(
            f"one pair of signals of bandlimit {program.bandlimit} needs {each * _FIELDS * itemsize / 2**30:.1f} GiB "
            f"at resolution {resolution}; lower the bandlimit, or raise SphereLift's tolerance"
        )
    return max(1, elements // each)


@partial(jax.jit, static_argnums=0)
def _prepare(program: RotationProgram, samples: Any, x: Any) -> tile.Side:
    return tile.prepare(program, samples, tile.scaled(program, x))


@partial(jax.jit, static_argnums=0)
def _block(program: RotationProgram, samples: Any, a: tile.Side, b: tile.Side) -> tuple[Any, Any]:
    return tile.block(program, samples, a, b)


@partial(jax.jit, static_argnums=0)
def _list(program: RotationProgram, samples: Any, a: tile.Side, b: tile.Side) -> tuple[Any, Any]:
    return tile.listed(program, samples, a, b)


def _sides(program: RotationProgram, samples: Any, x: np.ndarray, size: int) -> list[tile.Side]:
    """Signals in blocks of equal size, the last filled up with zeros."""
    padded = np.zeros((-(-len(x) // size) * size, *x.shape[1:]), x.dtype)
    padded[: len(x)] = x
    return [_prepare(program, samples, padded[i : i + size]) for i in range(0, len(padded), size)]


def _blocks(
    program: RotationProgram, resolution: int, x1: np.ndarray, x2: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    samples = _samples(program, resolution, x1.dtype)
    n1, n2 = len(x1), len(x1) if x2 is None else len(x2)
    pairs = _pairs_in_tile(program, resolution, x1.dtype.itemsize)
    rows = min(n1, max(1, int(pairs**0.5)))
    columns = rows if x2 is None else min(n2, max(1, pairs // rows))
    sides1 = _sides(program, samples, x1, rows)
    sides2 = sides1 if x2 is None else _sides(program, samples, x2, columns)
    nngp, ntk = np.empty((n1, n2), x1.dtype), np.empty((n1, n2), x1.dtype)

    def one(i: int, j: int) -> None:
        r, c = slice(i * rows, min((i + 1) * rows, n1)), slice(j * columns, min((j + 1) * columns, n2))
        for out, values in zip((nngp, ntk), _block(program, samples, sides1[i], sides2[j]), strict=True):
            part = np.asarray(values)[: r.stop - r.start, : c.stop - c.start]
            out[r, c] = (part + part.T) / 2 if x2 is None and i == j else part
            if x2 is None and j > i:
                out[c, r] = part.T

    _in_parallel(
        one, [(i, j) for i in range(len(sides1)) for j in range(i if x2 is None else 0, len(sides2))], x1.dtype
    )
    return nngp, ntk


def _listed(
    program: RotationProgram, resolution: int, x1: np.ndarray, x2: np.ndarray, first: Any, second: Any
) -> tuple[np.ndarray, np.ndarray]:
    samples = _samples(program, resolution, x1.dtype)
    first, second = np.asarray(first), np.asarray(second)
    size = min(len(first), _pairs_in_tile(program, resolution, x1.dtype.itemsize))
    sides = [_all(program, samples, x) for x in (x1, x2)]
    nngp, ntk = np.empty(len(first), x1.dtype), np.empty(len(first), x1.dtype)

    def one(start: int) -> None:
        here = slice(start, min(start + size, len(first)))
        a, b = (
            jax.tree.map(lambda v, index=index: v[..., _filled(index[here], size)], side)
            for side, index in zip(sides, (first, second), strict=True)
        )
        for out, values in zip((nngp, ntk), _list(program, samples, a, b), strict=True):
            out[here] = np.asarray(values)[: here.stop - here.start]

    _in_parallel(one, [(start,) for start in range(0, len(first), size)], x1.dtype)
    return nngp, ntk


def _all(program: RotationProgram, samples: Any, x: np.ndarray) -> tile.Side:
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


def _traced(program: RotationProgram, resolution: int, x1: Any, x2: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """The pairs inside a JAX program: one tile after another, recomputed rather than stored for derivatives."""
    samples = _samples(program, resolution, x1.dtype)
    count = len(first)
    size = min(count, _pairs_in_tile(program, resolution, x1.dtype.itemsize, _TRACED_ELEMENTS))
    index = [jnp.pad(jnp.asarray(i), (0, -count % size)).reshape(-1, size) for i in (first, second)]
    sides = [tile.prepare(program, samples, tile.scaled(program, x)) for x in (x1, x2)]

    def one(here: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = (jax.tree.map(lambda v, i=i: v[..., i], side) for side, i in zip(sides, here, strict=True))
        return tile.listed(program, samples, a, b)

    nngp, ntk = jax.lax.map(jax.checkpoint(one), tuple(index))
    return nngp.reshape(-1)[:count], ntk.reshape(-1)[:count]
