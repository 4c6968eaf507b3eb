"""Programs on rotations by the reference engine: the resolution that is needed, and tiles of pairs.

The resolution is measured in float64, on a few signals. Tiles are run on as many threads as there are cores.

A tile's working set is one ring of rotations for so many pairs that it stays in a core's cache. Memory does not grow
with the number of pairs beyond the result.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import MemoryLimitError
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.angular import PLAIN, angle_left, both, covariance
from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.engines.reference.rotations import recursion
from equitangents.kernels.engines.reference.rotations.recursion import (
    BATCH,
    Sphere,
    Variances,
    after,
    moments,
    run,
    sphere_samples,
    variances,
)
from equitangents.kernels.fields import MATRIX
from equitangents.kernels.plans.plan import has_dual
from equitangents.kernels.rotations.program import RotationSections, Zonal, field_points, nodes, sphere_resolution
from equitangents.kernels.rotations.sampling import (
    LADDER,
    LADDER_OF_FIELDS,
    Resolution,
    Rings,
    choose,
    from_several_sides,
    node_values,
    pairs_of,
    rings_of,
    sample,
    surrogates,
    turn_between_nodes,
    turn_to_node,
)
from equitangents.kernels.scales import divided, law_of, norms
from equitangents.kernels.threads import threads

_CHUNK = 1 << 13  # rotations at a time

SampleValues = Callable[[RotationSections, int, np.ndarray], tuple[np.ndarray, np.ndarray]]


def resolve(program: RotationSections, x1: ArrayLike, x2: ArrayLike | None, values: SampleValues) -> Resolution:
    """The resolution for these signals; for traced ones measured on random signals, as notes say.

    `values(program, r, x)` are (NNGP, NTK) of the `turned_pairs` of a few signals x by one of the engines, in float64;
    without nonlinearities after the readout, (K, Θ) there.
    """
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
        return _resolve_for_surrogates(program, x1.shape[-1], least, values)
    few = sample(*(np.asarray(x, np.float64) for x in (x1, x1 if x2 is None else x2)))
    return _measured(program, _comparable(program, few), least, values)


def _comparable(program: RotationSections, x: np.ndarray) -> np.ndarray:
    """Signals whose distances resolve their products: of unit scale, where the kernel just follows that.

    Else the smallest are raised to 1e-8 of the largest, where networks are linear in them, or do not feel them.
    """
    logarithms = norms(x)
    if not np.isfinite(logarithms).any():
        return x
    law = law_of(program)
    exponents = np.floor(np.where(np.isfinite(logarithms), logarithms, 0)).astype(np.int64)
    if law.homogeneous and not law.biased:
        return divided(x, exponents, np.float64)
    return divided(x, np.minimum(exponents - (exponents[np.isfinite(logarithms)].max() - 26), 0), np.float64)


@lru_cache(maxsize=64)
def _resolve_for_surrogates(program: RotationSections, channels: int, least: float, values: SampleValues) -> Resolution:
    found = _measured(program, surrogates(program.bandlimit, channels), least, values)
    return found._replace(note="resolution and error are those of random signals of unit variance")


def _measured(program: RotationSections, x: np.ndarray, least: float, values: SampleValues) -> Resolution:
    ladder: tuple[int, ...] = LADDER_OF_FIELDS if program.sphere else LADDER
    start = (program.bandlimit + 1) // 2
    ladder = tuple(r for r in ladder if r >= start)
    if program.readout == "pool":
        x = from_several_sides(x)
    with precision.scope(np.float64), jax.ensure_compile_time_eval():  # also while something else is traced
        return choose(program.accuracy, ladder, lambda r: values(program, r, x), len(x), least)


def _turns(program: RotationSections, r: int) -> tuple[np.ndarray, ...]:
    """Turns that leave what is computed as it is, and change the error at resolution r."""
    if program.readout == "flatten":  # which every turn changes
        return (np.eye(3),)
    return (turn_to_node(r), turn_between_nodes(r)) if has_dual(program.vector) else (turn_to_node(r),)


def turned_pairs(program: RotationSections, r: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of signals whose kernels show the error at a resolution."""
    return pairs_of(x, _turns(program, r))


def sample_values(program: RotationSections, r: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Samples for `resolve`, by the reference engine.

    Nonlinearities after the readout may magnify errors: under ReLU the angle of a signal with its turned copy is the
    root of their kernel's error.
    """
    a, b = turned_pairs(program, r, x)
    if not has_dual(program.vector):
        nngp, ntk, *_ = _sample_values(program, r, a, b)
        return nngp, ntk
    n, pairs = len(x), len(a)
    turned = b[n:-n]  # whose kernels with themselves are wanted, too
    k, theta, e, mean = _sample_values(program, r, np.concatenate([a, turned]), np.concatenate([b, turned]))
    first = (np.tile(v[:n], pairs // n) for v in (k, mean))
    second = (np.concatenate([v[:n], v[pairs:], np.roll(v[:n], 1)]) for v in (k, mean))
    nngp, ntk = _tail(program, k[:pairs], theta[:pairs], e[:pairs], tuple(first), tuple(second))
    return np.asarray(nngp), np.asarray(ntk)


@partial(jax.jit, static_argnums=0)
def _tail(
    program: RotationSections, k: ArrayLike, theta: ArrayLike, e: ArrayLike, first: ArrayLike, second: ArrayLike
) -> tuple[Any, Any]:
    return recursion.after_readout(program, k, theta, e, Variances(*first), Variances(*second))


def _sample_values(program: RotationSections, r: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """(K, Θ, E, mean of the first) after the readout, in float64; one compiled function serves all resolutions."""
    c1, c2 = (np.array(recursion.scaled(program, x)) for x in (a, b))
    if program.sphere:
        return tuple(map(np.asarray, _readout(program, samples_of(program, r, np.dtype(np.float64)), c1, c2)))
    q1, q2 = (np.sum(c * c, axis=(0, 1)) for c in (c1, c2))
    k, weights = node_values(rings_of(program.bandlimit, program.group, r), c1, c2, program.bandlimit)
    constant = np.sum((c1[0] - c2[0]) ** 2, axis=0)
    directional = sum(np.sum(c[1:] ** 2, axis=(0, 1)) for c in (c1, c2))
    d = np.maximum(directional - 2 * k, 0) + constant
    totals = np.zeros((3, d.shape[1]))
    for start in range(0, len(d), _CHUNK):
        part = np.zeros((_CHUNK, d.shape[1]))
        part[: len(d) - start] = d[start : start + _CHUNK]
        w = np.zeros(_CHUNK)
        w[: len(d) - start] = weights[start : start + _CHUNK]
        totals += np.asarray(_weighted(program, part, w, q1, q2))
    return *totals, np.asarray(_means(program, q1))


@partial(jax.jit, static_argnums=0)
def _weighted(program: RotationSections, d: ArrayLike, weights: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    m1, m2 = (moments(program.field, Variances(q, jnp.zeros_like(q))) for q in (q1, q2))
    e = angle_left(d, both(q1, q2), PLAIN)
    e, theta = run(program.field, e, jnp.zeros_like(e), m1, m2)
    return jnp.stack([weights @ covariance(e, variances(after(m1), after(m2))), weights @ theta, weights @ e])


@partial(jax.jit, static_argnums=0)
def _means(program: RotationSections, q: ArrayLike) -> ArrayLike:
    return after(moments(program.field, Variances(q, jnp.zeros_like(q)))).mean


@partial(jax.jit, static_argnums=0)
def _readout(program: RotationSections, samples: Any, a: ArrayLike, b: ArrayLike) -> tuple[Any, ...]:
    found = recursion.readout(program, samples, a, b, False)
    return found.k, found.theta, found.e, found.first.mean


def samples_of(program: RotationSections, resolution: int, dtype: np.dtype) -> Rings | Sphere:
    """The quadrature's arrays in a precision, on the device."""
    if program.sphere:
        found: Rings | Sphere = sphere_samples(program, resolution)
    elif program.readout == "flatten":
        found = Rings({}, {})
    else:
        found = rings_of(program.bandlimit, program.group, resolution)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), found)


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

    def kernels(
        self,
        program: RotationSections,
        resolution: int,
        x1: np.ndarray,
        x2: np.ndarray | None,
        any_norms: bool = False,
    ) -> Pair:
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
        self,
        program: RotationSections,
        resolution: int,
        x1: np.ndarray,
        x2: np.ndarray,
        first: Any,
        second: Any,
        any_norms: bool = False,
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
        return sample_values(program, r, x)

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
