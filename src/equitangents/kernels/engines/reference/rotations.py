"""Programs on rotations by the reference engine: at every rotation of a quadrature.

Of networks whose first windows are narrower than the sphere, fields on it: at each relative rotation Q a squared
distance D(y) = (1/C) Σ_c (a f(y) - f'(Qy)/a)² is a field on the sphere, with one a for each pair (see
`kernels.angular`). Windows multiply its harmonic coefficients, and those of the variance fields q1(y) and q2(Qy), which
nonlinearities need.

Signals are laid out (B², C, N), scaled so that K(Q) = c'ᵀ D(Q) c at the input. The constant part (l = 0) does not
depend on Q and is kept apart, so that signals without directions are at an exact distance.

Tiles of pairs run on as many threads as there are cores. A tile's working set is one ring of rotations for so many
pairs that it stays in a core's cache. Memory does not grow with the number of pairs beyond the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import MemoryLimitError
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels import angular
from equitangents.kernels.angular import Both, both, covariance, moved, of_covariance, vanishing
from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.engines.reference.execute import Moments, State, execute, field_moments
from equitangents.kernels.engines.reference.tile import after_affine, at_one_position
from equitangents.kernels.operations import Affine
from equitangents.kernels.plans import has_dual, unrolled
from equitangents.kernels.program import Op
from equitangents.kernels.rotations import (
    Rings,
    RotationSections,
    SphereOp,
    Zonal,
    field_points,
    nodes,
    prepared,
    products,
    ring_values,
    rings_of,
    sphere_resolution,
)
from equitangents.memory import threads
from equitangents.sphere import degrees, gauss_legendre
from equitangents.sphere.harmonics import polynomials

_HIGHEST = jax.lax.Precision.HIGHEST
BATCH = 16  # rotations at a time
_NEAR = 2.0  # of |log2 a|, up to which distances are corrected for what samples miss


class Sphere(NamedTuple):
    """Points y (S, 3) of a grid with weights that sum to 1, their harmonics (S, s²), and rotations with weights.

    Rotations come in batches, (batches, size, 3, 3), the last filled up with weights of zero.
    """

    points: Any
    weights: Any
    basis: Any
    rotations: Any
    rotation_weights: Any


@lru_cache(maxsize=16)
def sphere_samples(program: RotationSections, resolution: int) -> Sphere:
    """The samples at a resolution, in NumPy and float64; without pooling the identity is the only rotation."""
    s = sphere_resolution(program.bandlimit, resolution)
    grid = gauss_legendre(s)
    points = grid.points.reshape(-1, 3)
    rotations, weights = np.eye(3)[None], np.ones(1)
    if program.readout == "pool":
        assert isinstance(program.group, RotationGroup)
        sampled = RotationGroup(resolution, program.group.reflections)
        rotations, weights = sampled.matrices, sampled.weights
    batches = -(-len(weights) // BATCH)
    size = -(-len(weights) // batches)
    missing = batches * size - len(weights)
    rotations = np.concatenate([rotations, np.broadcast_to(np.eye(3), (missing, 3, 3))]).reshape(batches, size, 3, 3)
    each = np.concatenate([weights, np.zeros(missing)]).reshape(batches, size)
    return Sphere(points, grid.weights.ravel() / (4 * np.pi), polynomials(points, s), rotations, each)


def _walk(ops: tuple[SphereOp, ...], q: Any, window: Callable[[int, Zonal, Any], Any]) -> Moments:
    """Follow a variance field, (S, P); `window(i, op, q)` is its mean over the window of operation i."""
    found = Moments([q], [jnp.zeros_like(q)])
    for i, op in enumerate(ops):
        if isinstance(op, Zonal):
            q, mean = window(i, op, q), jnp.zeros_like(q)
        else:
            step = field_moments((op,), q, found.mean[-1], {})
            q, mean = step.q[-1], step.mean[-1]
        found.q.append(q)
        found.mean.append(mean)
    return found


def _coefficients(samples: Sphere, op: Zonal, field: Any) -> Any:
    """Harmonic coefficients (n², P) of the mean of a field (S, P) over a window."""
    n = min(op.coefficients.array.size, int(samples.basis.shape[1] ** 0.5 + 0.5))
    factors = 4 * np.pi * op.coefficients.array[degrees(n)]
    transform = samples.basis[:, : n * n] * samples.weights[:, None] * factors.astype(field.dtype)
    return jnp.matmul(transform.T, field, precision=_HIGHEST)


def _values(basis: Any, coefficients: Any) -> Any:
    return jnp.matmul(basis[:, : coefficients.shape[0]], coefficients, precision=_HIGHEST)


def sphere_angles(program: RotationSections, samples: Sphere, a: Any, b: Any) -> tuple[Any, Any, Variances, Variances]:
    """(E, Θ, variances of both) after the readout for the pairs of a and b, (B², C, P) scaled by 1/√C."""
    ops = program.sphere
    count, channels, pairs = a.shape
    f, f2 = (_values(samples.basis, x.reshape(count, -1)).reshape(-1, channels, pairs) for x in (a, b))
    kept: dict[int, Any] = {}

    def at_rest(i: int, op: Zonal, q: Any) -> Any:
        kept[i] = _coefficients(samples, op, q)
        return _values(samples.basis, kept[i])

    walk1 = _walk(ops, jnp.sum(f * f, axis=1), lambda i, op, q: _values(samples.basis, _coefficients(samples, op, q)))
    walk2 = _walk(ops, jnp.sum(f2 * f2, axis=1), at_rest)
    v1, v2 = (Variances(samples.weights @ w.q[-1], samples.weights @ w.mean[-1]) for w in (walk1, walk2))
    m1, m2, to = moments(program.field, v1), moments(program.field, v2), variances(v1, v2)
    size = max([program.bandlimit, *(int(c.shape[0] ** 0.5 + 0.5) for c in kept.values())])

    def at(R: Any) -> tuple[Any, Any]:
        turned = polynomials(jnp.matmul(samples.points, R.T, precision=_HIGHEST), size)
        other = _values(turned, b.reshape(count, -1)).reshape(-1, channels, pairs)
        q2 = _walk(ops, jnp.sum(other * other, axis=1), lambda i, op, q: _values(turned, kept[i])).q
        pairs_at = [both(*q) for q in zip(walk1.q, q2, strict=True)]
        first, second = (v[:, None] for v in pairs_at[0].to)
        start = angular.vanishing(jnp.sum((first * f - second * other) ** 2, axis=1), pairs_at[0])
        e, theta = _run(ops, samples, start, pairs_at)
        sampled = _as_plain(to.to, to.q2 - samples.weights @ pairs_at[-1].q2)
        e = angular.vanishing(samples.weights @ moved(e, pairs_at[-1], to.to) + sampled, to)
        return run(program.field, e, samples.weights @ theta, m1, m2)

    def add(sums: tuple[Any, Any], batch: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
        e, theta = jax.vmap(at)(batch[0])
        return (sums[0] + batch[1] @ e, sums[1] + batch[1] @ theta), None

    zero = jnp.zeros((pairs,), a.dtype)
    batches = (samples.rotations, samples.rotation_weights)
    (e, theta), _ = jax.lax.scan(jax.checkpoint(add), (zero, zero), batches)
    return e, theta, after(m1), after(m2)


def _run(ops: tuple[SphereOp, ...], samples: Sphere, e: Any, at: list[Both]) -> tuple[Any, Any]:
    """(E, Θ) on the sphere after `ops`, each (S, P); `at` are the variances before each, and after the last."""
    theta = jnp.zeros_like(e)
    for op, before, behind in zip(ops, at, at[1:], strict=False):
        if isinstance(op, Zonal):
            common = both(*(samples.weights @ q for q in (before.q1, before.q2))).to
            fields = jnp.concatenate([moved(e, before, common), theta, before.q2], axis=1)
            distance, theta, q2 = jnp.split(_values(samples.basis, _coefficients(samples, op, fields)), 3, axis=1)
            e = angular.angle_left(distance + _as_plain(common, behind.q2 - q2), behind, common)
        elif isinstance(op, Affine):
            e = angular.affine(op, e, before, behind)
            theta = angular.covariance(e, behind) + op.W_var * theta
        else:
            e, slope = angular.dual(op.activation, e, before, behind)
            theta = theta * slope
    return e, theta


def _as_plain(to: tuple[Any, Any], error: Any) -> Any:
    """What a distance of a·f and g/a is corrected by, so that samples are taken of f and g as other engines take them.

    `error` is what a mean of q2 over turned samples misses of that over those at rest: it enters K halved from the
    distance of f and g, and divided by a² from this one. Beyond a ratio of deviations of 16, a of 4, whose products the
    former does not resolve, it is left as it is; it is no more than what the resolution leaves open.
    """
    a, b = to
    return jnp.where(jnp.abs(jnp.log2(a)) <= _NEAR, (b**2 - 1) * error, 0)


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
    """The distance D, where it is below the rounding of `total` set to zero; derivatives pass through."""
    noise = jnp.where(d <= 16 * jnp.finfo(d.dtype).eps * total, d, 0)
    return d - jax.lax.stop_gradient(noise)


class Side(NamedTuple):
    """Signals of one side of a tile, (B², C, N), and their variances after the readout where these are needed."""

    c: Any
    pooled: Variances | None


def scaled(program: RotationSections, x: Any) -> Any:
    """Signals (N, B², C) as (B², C, N), scaled for the input kernel; for fields on the sphere without 1/4π."""
    norm = x.shape[-1] if program.sphere else 4 * jnp.pi * x.shape[-1]
    return jnp.moveaxis(x, 0, -1) / jnp.sqrt(jnp.asarray(norm, x.dtype))


def prepare(program: RotationSections, samples: Rings | Sphere, x: ArrayLike) -> Side:
    """Moments of signals (N, B², C)."""
    c = scaled(program, x)
    if not has_dual(program.vector):
        return Side(c, None)
    k, _, _, mean = readout(program, samples, c, c)
    return Side(c, Variances(k, mean))


def of_pairs(program: RotationSections, samples: Rings | Sphere, a: Side, b: Side) -> tuple[Any, Any]:
    """(NNGP, NTK) of the pairs (a_p, b_p), each (P,)."""
    k, theta, e, _ = readout(program, samples, a.c, b.c)
    if not has_dual(program.vector):
        return after_affine(program.vector, k, theta)
    assert a.pooled is not None
    assert b.pooled is not None
    if program.readout == "pool":
        e = of_covariance(k, variances(a.pooled, b.pooled))
    m1, m2 = moments(program.vector, a.pooled), moments(program.vector, b.pooled)
    e, theta = run(program.vector, e, theta, m1, m2)
    return covariance(e, variances(after(m1), after(m2))), theta


def readout(program: RotationSections, samples: Rings | Sphere, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """(K, Θ, E, means of the first) of the pairs of a and b, (B², C, P), after pooling or flattening, each (P,).

    E is that of the readout only after flattening.
    """
    if isinstance(samples, Sphere):
        e, theta, v1, v2 = sphere_angles(program, samples, a, b)
        return covariance(e, variances(v1, v2)), theta, e, v1.mean
    v1, v2 = _variance(a), _variance(b)
    at = variances(v1, v2)
    m1, m2 = moments(program.field, v1), moments(program.field, v2)
    v1, v2 = after(m1), after(m2)
    if program.readout == "flatten":
        e = vanishing(_distance(a, b, at).sum(axis=0), at)
        e, theta = run(program.field, e, jnp.zeros_like(e), m1, m2)
    else:
        e, theta = _haar_mean(program, samples, a, b, m1, m2, at)
    return covariance(e, variances(v1, v2)), theta, e, v1.mean


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


_compiled = jax.jit(of_pairs, static_argnums=0)
_compiled_side = jax.jit(prepare, static_argnums=0)


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
        list(map(run_one, starts))
    else:
        with ThreadPoolExecutor(threads()) as pool:
            list(pool.map(run_one, starts))  # what fails leaves out those that are not begun


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
        """One tile after another, recomputed rather than stored for derivatives."""
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
