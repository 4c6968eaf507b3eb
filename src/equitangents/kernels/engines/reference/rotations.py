"""Programs on rotations by the reference engine: at every rotation of a quadrature.

Signals have the layout (B², C, N), scaled so that K(Q) = c'ᵀ D(Q) c at the input. The constant part (l = 0) does not
depend on Q and is treated separately, so that constant signals have an exact distance.

Tiles of pairs run on one thread per core. A tile's working set is one ring of rotations, for as many pairs as stay in a
core's cache. Memory does not grow with the number of pairs except for the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import MemoryLimitError
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.angular import Both, both, covariance, of_covariance, vanishing
from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.engines.reference.execute import Moments, State, execute, field_moments
from equitangents.kernels.engines.reference.tile import after_affine, at_one_position
from equitangents.kernels.plans import has_dual, unrolled
from equitangents.kernels.program import Op
from equitangents.kernels.rotations import (
    Rings,
    RotationSections,
    nodes,
    prepared,
    products,
    ring_values,
    rings_of,
)
from equitangents.memory import threads


class Variances(NamedTuple):
    """Second moment and mean of one input's field, (P,)."""

    q: Any
    mean: Any


def moments(ops: tuple[Op, ...], before: Variances) -> Moments:
    """Moments before and after every operation."""
    return field_moments(unrolled(ops), before.q, before.mean, {})


def after(m: Moments) -> Variances:
    """The variances after the last layer."""
    return Variances(m.q[-1], m.mean[-1])


def run(ops: tuple[Op, ...], e: Any, theta: Any, m1: Moments, m2: Moments) -> tuple[Any, Any]:
    """(E, Θ) after `ops`."""
    steps = unrolled(ops)
    found = execute(steps, at_one_position(steps), State(e, theta), m1, m2)
    return found.e, found.theta


def variances(v1: Variances, v2: Variances) -> Both:
    """The variances of pairs."""
    return both(v1.q, v2.q)


def above_rounding(d: ArrayLike, total: ArrayLike) -> ArrayLike:
    """The distance D, set to zero below the rounding of `total`; derivatives pass through."""
    noise = jnp.where(d <= 16 * jnp.finfo(d.dtype).eps * total, d, 0)
    return d - jax.lax.stop_gradient(noise)


class RotationSide(NamedTuple):
    """Signals of one side of a tile, (B², C, N), and their variances after the readout if needed."""

    c: Any
    pooled: Variances | None


def scaled(program: RotationSections, x: Any) -> Any:
    """Signals (N, B², C) as (B², C, N), scaled for the input kernel."""
    norm = 4 * jnp.pi * x.shape[-1]
    return jnp.moveaxis(x, 0, -1) / jnp.sqrt(jnp.asarray(norm, x.dtype))


def prepare(program: RotationSections, samples: Rings, x: ArrayLike) -> RotationSide:
    """Signals (N, B², C) as a side, with moments."""
    c = scaled(program, x)
    if not has_dual(program.vector):
        return RotationSide(c, None)
    k, _, mean = pooled(program, samples, c, c)
    return RotationSide(c, Variances(k, mean))


def of_pairs(program: RotationSections, samples: Rings, a: RotationSide, b: RotationSide) -> tuple[Any, Any]:
    """(NNGP, NTK) of the pairs (a_p, b_p), each (P,)."""
    k, theta, _ = pooled(program, samples, a.c, b.c)
    if not has_dual(program.vector):
        return after_affine(program.vector, k, theta)
    assert a.pooled is not None
    assert b.pooled is not None
    e = of_covariance(k, variances(a.pooled, b.pooled))
    m1, m2 = moments(program.vector, a.pooled), moments(program.vector, b.pooled)
    e, theta = run(program.vector, e, theta, m1, m2)
    return covariance(e, variances(after(m1), after(m2))), theta


def pooled(program: RotationSections, samples: Rings, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """(K, Θ, means of the first) of the pairs of a and b, (B², C, P), after pooling, each (P,)."""
    v1, v2 = _variance(a), _variance(b)
    at = variances(v1, v2)
    m1, m2 = moments(program.field, v1), moments(program.field, v2)
    e, theta = _haar_mean(program, samples, a, b, m1, m2, at)
    v1, v2 = after(m1), after(m2)
    return covariance(e, variances(v1, v2)), theta, v1.mean


def _distance(a: Any, b: Any, at: Both) -> Any:
    """Squared distances of coefficients (rows, C, P) of equal variance, summed over channels, (rows, P)."""
    return jnp.sum(at.gap(a, b) ** 2, axis=1)


def _haar_mean(program: RotationSections, rings: Any, a: Any, b: Any, m1: Any, m2: Any, at: Both) -> tuple[Any, Any]:
    pairs = a.shape[-1]
    shared, scanned = prepared(rings, products(a, b, program.bandlimit))
    constant = _distance(a[:1], b[:1], at)[0]
    total = at.a**2 * _variance(a[1:]).q + at.b**2 * _variance(b[1:]).q

    def add(sums: tuple[Any, Any], ring: dict[str, Any]) -> tuple[tuple[Any, Any], None]:
        k = ring_values(rings, shared, ring, pairs)
        e = vanishing(constant + above_rounding(total - 2 * k, total), at)
        e, theta = run(program.field, e, jnp.zeros_like(e), m1, m2)
        weights = ring["weights"][:, None]
        return (sums[0] + jnp.sum(weights * e, axis=0), sums[1] + jnp.sum(weights * theta, axis=0)), None

    zero = jnp.zeros((pairs,), a.dtype)
    (e, theta), _ = jax.lax.scan(jax.checkpoint(add), (zero, zero), scanned)
    return e, theta


def _variance(c: Any) -> Variances:
    q = jnp.sum(c * c, axis=(0, 1))
    return Variances(q, jnp.zeros_like(q))


_TILE_ELEMENTS = 1 << 15  # numbers in one field of a tile: a ring's rotations times pairs
_TRACED_ELEMENTS = 1 << 20
_MEMORY_LIMIT = 4 << 30
_FIELDS = 12  # fields alive at once, at most


def samples_of(program: RotationSections, resolution: int, dtype: np.dtype) -> Rings:
    """The quadrature's arrays in this precision, on the device."""
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), rings_of(program.bandlimit, program.group, resolution))


def pairs_in_tile(program: RotationSections, resolution: int, itemsize: int, elements: int = _TILE_ELEMENTS) -> int:
    """Number of pairs in a tile; raises MemoryLimitError if even one pair is too large."""
    ring = (2 * resolution - 1) ** 2 if isinstance(program.group, RotationGroup) else program.group.order
    each = max(ring, program.bandlimit**3)
    tables = resolution * (2 * program.bandlimit) ** 3
    needed = (each * _FIELDS + tables) * itemsize
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError(
            "one pair of signals", needed, _MEMORY_LIMIT, "lower the bandlimit, or raise SphereLift's tolerance"
        )
    return max(1, elements // each)


_compiled = jax.jit(of_pairs, static_argnums=0)
_compiled_side = jax.jit(prepare, static_argnums=0)


def _prepared(program: RotationSections, samples: Any, x: np.ndarray, size: int) -> RotationSide:
    """All signals in one array on the host, from which tiles gather; moments are computed for `size` at a time."""
    size = min(len(x), size) if has_dual(program.vector) else len(x)
    padded = np.zeros((-(-len(x) // size) * size, *x.shape[1:]), x.dtype)
    padded[: len(x)] = x
    parts = [_compiled_side(program, samples, padded[i : i + size]) for i in range(0, len(padded), size)]
    return jax.tree.map(lambda *v: np.concatenate(v, axis=-1), *parts)


def _at(side: RotationSide, index: Any) -> RotationSide:
    return jax.tree.map(lambda v: v[..., index], side)


def _in_parallel(one: Callable[[int], None], starts: Sequence[int], dtype: np.dtype) -> None:
    """Run one(start) for every tile, on one thread per core, since tiles are too small for several threads."""

    def run_one(start: int) -> None:
        with precision.scope(dtype):  # which holds for the thread that enters it
            one(start)

    if len(starts) == 1 or threads() == 1:
        list(map(run_one, starts))
    else:
        with ThreadPoolExecutor(threads()) as pool:
            list(pool.map(run_one, starts))  # what fails leaves out those that are not begun


def _inputs_of(pair: np.ndarray, n1: int, n2: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The inputs (i, j) of numbered pairs; n2 None: i <= j < n1, with rows i and about n1 - i - 1 combined into one."""
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
        paired: bool = False,
        any_norms: bool = False,
    ) -> Pair:
        n1, n2 = len(x1), len(x1 if x2 is None else x2)
        shape = (n1,) if paired else (n1, n2)
        nngp, ntk = np.empty(shape, x1.dtype), np.empty(shape, x1.dtype)
        if not nngp.size:
            return nngp, ntk
        samples = samples_of(program, resolution, x1.dtype)
        pairs = pairs_in_tile(program, resolution, x1.dtype.itemsize)
        first = _prepared(program, samples, x1, pairs)
        second = first if x2 is None else _prepared(program, samples, x2, pairs)
        mirrored = not paired and x2 is None
        count = n1 * (n1 + 1) // 2 if mirrored else nngp.size
        size = min(pairs, count)

        def tile(start: int) -> None:
            here = np.minimum(np.arange(start, start + size), count - 1)
            i, j = (here, here) if paired else _inputs_of(here, n1, None if x2 is None else n2)
            found = _compiled(program, samples, _at(first, i), _at(second, j))
            for out, values in zip((nngp, ntk), map(np.asarray, found), strict=True):
                out[here if paired else (i, j)] = values
                if mirrored:
                    out[j, i] = values

        _in_parallel(tile, range(0, count, size), x1.dtype)
        return nngp, ntk

    def traced(self, program: RotationSections, resolution: int, x1: Any, x2: Any = None, paired: bool = False) -> Pair:
        """As `kernels`, one tile after another; tiles are recomputed rather than stored for derivatives."""
        samples = samples_of(program, resolution, x1.dtype)
        other = x1 if x2 is None else x2
        shape = (len(x1),) if paired else (len(x1), len(other))
        i, j = (np.arange(len(x1)),) * 2 if paired else np.indices(shape).reshape(2, -1)
        size = min(len(i), pairs_in_tile(program, resolution, x1.dtype.itemsize, _TRACED_ELEMENTS))
        index = tuple(jnp.pad(jnp.asarray(v), (0, -len(i) % size)).reshape(-1, size) for v in (i, j))
        sides = [prepare(program, samples, x) for x in (x1, other)]

        def one(here: tuple[Any, Any]) -> Pair:
            return of_pairs(program, samples, *map(_at, sides, here))

        found = jax.lax.map(jax.checkpoint(one), index)
        nngp, ntk = (values.reshape(-1)[: len(i)].reshape(shape) for values in found)
        return nngp, ntk

    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes in addition to inputs and results: the signals in tiles, the quadrature, and a tile per thread."""
        B, pairs = program.bandlimit, pairs_in_tile(program, resolution, itemsize)
        signals = (n1 + (n2 or 0)) * B * B * channels
        rotations = nodes(program, resolution)
        if not resolution:
            samples = rotations * B**3 * 4 // 3
            tile = pairs * (2 * B**3 + rotations * _FIELDS)
        else:
            ring, rings, side = (2 * resolution - 1) ** 2, rotations // (2 * resolution - 1) ** 2, 2 * B - 1
            samples = rings * side**2 * 2 * (B - 1) + rotations
            tile = pairs * (2 * side**2 * (rings + 2 * B) + ring * _FIELDS)
        return (signals + samples + threads() * (tile + 2 * pairs * B * B * channels)) * itemsize
