"""Steerable programs: features in irreps of SO(2), O(2), SO(3) and O(3) on points, whose kernels are matrices.

For two inputs and one irrep there are K and Θ, (P, d, P', d): covariances of the components of one copy at all pairs
of points. Copies are independent, and so are irreps, because they have separate weights.

Programs run on one input with itself, for its variances, and on pairs of inputs.

Filters over points, maps at points and means: with weights N(0, 1) on each of B' equivariant kernels κ that end in an
irrep, and n input copies, f' = W/√(B' n) Σ w κ f, so that K' = W²/B' Σ_κ κ K κ'ᵀ, and Θ' = K' + W²/B' Σ_κ κ Θ κ'ᵀ.

Gates: E[σ(g)σ(g')] K and E[σσ'] Θ + E[σ̇σ̇'] Θ_0 ∘ K, the gates g being scalars, independent of what they multiply.
Sampled signals: s(x) = Σ_l h_l(x) · f_l is Gaussian, with covariance Σ_l h_l(x)ᵀ K_l h_l(x').

Norms, u ↦ u Σ_a c_a exp(-t_a |u|²), in closed form: under exp(-t|u|² - t'|v|²) a Gaussian stays one. With its blocks
Q, K, Q' and M = 1 + 2tQ, S = 1 + 2t'(Q' - 2t Kᵀ M⁻¹ K), its mass is (det M det S)^(-1/2), and its covariances
K~ = M⁻¹ K S⁻¹, Q~' = S⁻¹(Q' - 2t Kᵀ M⁻¹ K), Q~ = M⁻¹ Q - 2t' M⁻¹ K K~ᵀ. So E[φ(u)φ(v)ᵀ] = Σ c c' mass K~, and with
Dφ = e^(-t|u|²)(1 - 2t u uᵀ)
E[Dφ(u) Θ Dφ(v)ᵀ] = Σ c c' mass (Θ - 2t Q~Θ - 2t' ΘQ~' + 4tt' (Q~ΘQ~' + K~ΘᵀK~ + K~ tr(ΘᵀK~))).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.kernels.operations import DualActivation, Operation
from equitangents.kernels.program import ParallelBranches, Program
from equitangents.steerable import Features
from equitangents.steerable.angular import AngularKernel, all_coefficients, angular_kernels
from equitangents.steerable.features import SPACES, SteerableIrrep, trivial
from equitangents.steerable.harmonics import direction_harmonics, directions_and_lengths, rings, samples

Kernels = dict[tuple[SteerableIrrep, SteerableIrrep], tuple[AngularKernel, ...]]


@lru_cache(maxsize=256)
def filter_kernels(into: Features, out: Features, max_frequency: int | None) -> Kernels:
    """Angular kernels by (irrep out, irrep in); pairs without any are omitted."""
    found = {(b, a): angular_kernels(b, a, max_frequency) for b in out.irreps for a in into.irreps}
    return {pair: kernels for pair, kernels in found.items() if kernels}


class PointOperation(Operation):
    """An operation on kernels of features at points."""

    largest: ClassVar[float | None] = None  # the longest vectors that it holds for; None: all

    def values(self, space: int) -> int:
        """Number of activation-kernel values per pair of points, for groups of this space; 0 if linear."""
        return 0

    @property
    def angular_kernels(self) -> int:
        """The largest number of its kernels between two irreps, over all rings."""
        return 1

    def widest(self, space: int) -> int:
        """The most values per point and copy of a feature that it needs, in addition to its input."""
        return 0


@dataclass(frozen=True)
class Filter(PointOperation):
    """Sums over points by kernels of `rings` times angular parts: K' = W²/B Σ κ K κ'ᵀ (+ b² for scalars), B kernels."""

    into: Features
    out: Features
    radii: tuple[float, ...]
    width: float
    max_frequency: int | None
    W_var: float
    b_var: float

    @property
    def kernels(self) -> Kernels:
        """Its angular kernels, each combined with every ring."""
        return filter_kernels(self.into, self.out, self.max_frequency)

    @property
    def angular_kernels(self) -> int:
        """The largest number of kernels between two irreps, times the rings."""
        return max(map(len, self.kernels.values())) * len(self.radii)

    def products(self, points: int) -> int:
        """Multiply-adds of Σ κ K κ'ᵀ and Σ κ Θ κ'ᵀ."""
        total = 0
        for (out, into), kernels in self.kernels.items():
            a, b, count = out.dimension, into.dimension, len(kernels) * len(self.radii)
            total += 2 * count * points**3 * (a * b * b + a * a * b)
        return total

    def widest(self, space: int) -> int:
        """The dimension of the largest output irrep."""
        return max((kind.dimension for kind in self.out.irreps), default=0)


@dataclass(frozen=True)
class PointMap(PointOperation):
    """Equivariant maps at each point: the kernels of a `Filter` at distance 0."""

    into: Features
    out: Features
    W_var: float
    b_var: float


@dataclass(frozen=True)
class Gate(PointOperation):
    """Scalars through `scalars` (None: all are gates), other irreps times `gate` of their own scalar."""

    needs_variances: ClassVar[bool] = True
    into: Features
    out: Features
    scalars: DualActivation | None
    gate: DualActivation

    def values(self, space: int) -> int:
        """Two: one for the scalars, one for the gates."""
        return 2


@dataclass(frozen=True)
class Sampled(PointOperation):
    """`activation` at sampled directions of the signal Σ_l h_l · f_l, and back to its coefficients."""

    needs_variances: ClassVar[bool] = True
    irreps: tuple[SteerableIrrep, ...]
    activation: DualActivation
    resolution: int

    def values(self, space: int) -> int:
        """One for each pair of directions."""
        return self.widest(space) ** 2

    def widest(self, space: int) -> int:
        """Number of sampled directions, the most values per position."""
        return len(samples(space, self.resolution, 0).points)


@dataclass(frozen=True)
class Norm(PointOperation):
    """u ↦ u Σ_a c_a exp(-t_a |u|²) for `coefficients` c and `rates` t."""

    needs_variances: ClassVar[bool] = True
    coefficients: tuple[float, ...]
    rates: tuple[float, ...]
    largest: float | None = None  # type: ignore[misc]
    off: tuple[float, float] = (0.0, 0.0)  # what values and slopes of η are off by, at most, where it was fitted
    allowed: float = 0.0  # of that, relative to the root mean square of η

    def values(self, space: int) -> int:
        """One for each pair of terms."""
        return len(self.rates) ** 2


@dataclass(frozen=True)
class PointMean(PointOperation):
    """The mean over all points that exist."""


Nonlinear = Gate | Sampled | Norm
Op = Filter | PointMap | Nonlinear | PointMean


@dataclass(frozen=True)
class Points:
    """The space of `features` on `count` points, or of `whole` inputs (N, channels), which count as one point.

    `outputs`: the output features, of whole inputs, or with `field` on points.
    """

    count: int
    features: Features
    outputs: Features
    whole: bool = False
    field: bool = False

    @property
    def coordinates(self) -> int:
        """Number of leading channels that are coordinates."""
        return 0 if self.whole else self.features.space


SteerableProgram = Program[Points]


@dataclass(frozen=True)
class PointsSide:
    """One input: coordinates of its points (P, n), and their mask (P,), 1 for existing points or 0."""

    points: jax.Array
    present: jax.Array


class IrrepField(NamedTuple):
    """K and Θ of one irrep, (P, d, P', d); Θ is None before the first weights."""

    k: Any
    theta: Any


def _each(field: IrrepField, change: Callable[[Any], Any]) -> IrrepField:
    return IrrepField(*(None if f is None else change(f) for f in field))


Fields = dict[SteerableIrrep, IrrepField]
Variances = dict[SteerableIrrep, jax.Array]  # of the components of one copy at every point of one input, (P, d, d)


def start(features: Features, coordinates: int, x1: jax.Array, x2: jax.Array) -> Fields:
    """The mean over copies of f f'ᵀ for input features on the points, x (P, coordinates and channels)."""
    a, b = (features.split(x[:, coordinates:]) for x in (x1, x2))
    return {
        kind: IrrepField(jnp.einsum("ica,jcb->iajb", a[kind], b[kind], precision="highest") / n, None)
        for n, kind in features.entries
    }


def added(a: Fields, b: Fields) -> Fields:
    """The kernels of a sum of two independent fields of features."""
    return {kind: IrrepField(k + b[kind].k, theta + b[kind].theta) for kind, (k, theta) in a.items()}


def variances(fields: Fields) -> Variances:
    """The covariances at each point of an input with itself."""
    return {kind: jnp.einsum("iaib->iab", field.k) for kind, field in fields.items()}


def restricted(fields: Fields, one: PointsSide, other: PointsSide) -> Fields:
    """The kernels, set to zero at missing points."""
    both = one.present[:, None, None, None] * other.present[None, None, :, None]
    return {kind: _each(field, lambda f: f * both) for kind, field in fields.items()}


@lru_cache(maxsize=256)
def point_kernels(into: Features, out: Features) -> Kernels:
    """Maps that commute with the group, κ of frequency 0, by (irrep out, irrep in)."""
    return filter_kernels(into, out, 0)


def count(kernels: Kernels, out: SteerableIrrep) -> int:
    """Number of kernels that end in an irrep."""
    return sum(len(found) for (b, _), found in kernels.items() if b == out)


class Geometry(NamedTuple):
    """For all pairs of points i, j: harmonics of the direction of x_j - x_i (P, P, harmonics), and rings (P, P, R).

    If x_j = x_i there is no direction, and harmonics of frequencies ≥ 1 are zero, as κ(0) = ρ'(g) κ(0) ρ(g)ᵀ requires.
    """

    harmonics: jax.Array
    rings: ArrayLike
    largest: int


def geometry(points: ArrayLike, largest: int, radii: tuple[float, ...], width: float) -> Geometry:
    """Harmonics and rings for kernels of frequencies up to `largest`, at points (P, n)."""
    unit, length = directions_and_lengths(points[None, :, :] - points[:, None, :])
    first, *others = direction_harmonics(unit, largest)
    present = (length > 0).astype(points.dtype)[..., None]
    return Geometry(jnp.concatenate([first, *(h * present for h in others)], -1), rings(length, radii, width), largest)


def filter_matrices(kernels: tuple[AngularKernel, ...], at: Geometry) -> jax.Array:
    """κ(x_j - x_i) for all kernels times all rings: (K, R, P, d', P, d), i the first point, j the second."""
    coefficients = jnp.asarray(all_coefficients(kernels, at.largest), at.rings.dtype)
    angular = jnp.einsum("kabm,ijm->kijab", coefficients, at.harmonics, precision="highest")
    return jnp.einsum("kijab,ijr->kriajb", angular, at.rings, precision="highest")


def largest_frequency(kernels: Kernels) -> int:
    """The largest frequency of any kernel."""
    return max(k.frequency for found in kernels.values() for k in found)


def filtered(op: Filter, fields: Fields, one: PointsSide, other: PointsSide) -> Fields:
    """The kernels after a `Filter`."""
    kernels = op.kernels
    largest = largest_frequency(kernels)
    at1, at2 = (geometry(side.points, largest, op.radii, op.width) for side in (one, other))
    sums: dict[SteerableIrrep, list[IrrepField]] = {kind: [] for kind in op.out.irreps}
    for (out, into), found in kernels.items():
        left, right = filter_matrices(found, at1), filter_matrices(found, at2)
        sums[out].append(_each(fields[into], partial(_through, left, right)))
    return {kind: _affine(op, kind, parts, count(kernels, kind) * len(op.radii)) for kind, parts in sums.items()}


def mapped(op: PointMap, fields: Fields) -> Fields:
    """The kernels after a `PointMap`."""
    kernels = point_kernels(op.into, op.out)
    sums: dict[SteerableIrrep, list[IrrepField]] = {kind: [] for kind in op.out.irreps}
    for (out, into), found in kernels.items():
        maps = jnp.stack([jnp.asarray(k.coefficients[..., 0], fields[into].k.dtype) for k in found])
        sums[out].append(_each(fields[into], partial(_between, maps)))
    return {kind: _affine(op, kind, parts, count(kernels, kind)) for kind, parts in sums.items()}


def averaged(fields: Fields, one: PointsSide, other: PointsSide) -> Fields:
    """Means over the existing points, (1, d, 1, d)."""
    a, b = (side.present / jnp.maximum(jnp.sum(side.present), 1) for side in (one, other))
    return {kind: _each(field, lambda f: _mean(a, f, b)) for kind, field in fields.items()}


def _mean(a: ArrayLike, f: ArrayLike, b: ArrayLike) -> ArrayLike:
    return jnp.einsum("i,iajb,j->ab", a, f, b, precision="highest")[None, :, None, :]


def _between(maps: jax.Array, field: ArrayLike) -> ArrayLike:
    return jnp.einsum("kab,ibjd,kcd->iajc", maps, field, maps, precision="highest")


def _through(left: jax.Array, right: jax.Array, field: ArrayLike) -> ArrayLike:
    """Σ_κ κ F κ'ᵀ."""
    kernels, radii, p1, a, _, b = left.shape
    p2 = right.shape[2]
    flat = left.reshape((kernels * radii, p1 * a, p1 * b))
    half = jnp.einsum("kxm,my->xky", flat, field.reshape((p1 * b, p2 * b)), precision="highest")
    other = jnp.swapaxes(right.reshape((kernels * radii, p2 * a, p2 * b)), 0, 1)
    both = half.reshape((p1 * a, -1)) @ other.reshape((p2 * a, -1)).T
    return both.reshape((p1, a, p2, a))


def _affine(op: Filter | PointMap, kind: SteerableIrrep, parts: list[IrrepField], kernels: int) -> IrrepField:
    scale = op.W_var / kernels
    bias = op.b_var if kind.is_trivial else 0.0
    k = scale * sum(part.k for part in parts) + bias
    if parts[0].theta is None:
        return IrrepField(k, k)
    return IrrepField(k, k + scale * sum(part.theta for part in parts))


def gated(op: Gate, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Gate`."""
    number = trivial(op.into.group)
    k, theta = (f[:, 0, :, 0] for f in fields[number])
    q1, q2 = v1[number][:, 0, 0][:, None], v2[number][:, 0, 0][None, :]
    after: Fields = {}
    value, slope = (f[:, None, :, None] for f in op.gate.covariance(k, q1, q2))
    for kind in op.out.irreps:
        if kind == number:
            assert op.scalars is not None
            moved, rise = op.scalars.covariance(k, q1, q2)
            after[kind] = IrrepField(moved[:, None, :, None], (rise * theta)[:, None, :, None])
        else:
            own, tangent = fields[kind]
            after[kind] = IrrepField(value * own, value * tangent + slope * theta[:, None, :, None] * own)
    return after


def sampled(op: Sampled, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Sampled` nonlinearity."""
    dtype = fields[op.irreps[0]].k.dtype
    largest = max(kind.degree for kind in op.irreps)
    grid = samples(SPACES[op.irreps[0].group], op.resolution, largest)
    synthesis = {kind: jnp.asarray(grid.harmonics[kind.degree], dtype) for kind in op.irreps}
    analysis = {kind: jnp.asarray(grid.analysis[kind.degree], dtype) for kind in op.irreps}
    k, theta = (
        sum(
            jnp.einsum("sa,iajb,tb->isjt", h, fields[kind][part], h, precision="highest")
            for kind, h in synthesis.items()
        )
        for part in range(2)
    )
    q1, q2 = (
        sum(jnp.einsum("sa,iab,sb->is", h, v[kind], h, precision="highest") for kind, h in synthesis.items())
        for v in (v1, v2)
    )
    value, slope = op.activation.covariance(k, q1[:, :, None, None], q2[None, None])  # type: ignore[index]
    return {
        kind: IrrepField(
            *(jnp.einsum("as,isjt,bt->iajb", a, f, a, precision="highest") for f in (value, slope * theta))
        )
        for kind, a in analysis.items()
    }


def normed(op: Norm, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Norm`."""
    after: Fields = {}
    for kind, (k, theta) in fields.items():
        by_pair = (jnp.swapaxes(f, 1, 2) for f in (k, theta))
        moved = gaussian_sums(op.coefficients, op.rates, v1[kind], v2[kind], *by_pair)
        after[kind] = IrrepField(*(jnp.swapaxes(f, 1, 2) for f in moved))
    return after


def gaussian_sums(
    coefficients: tuple[float, ...],
    rates: tuple[float, ...],
    q1: jax.Array,
    q2: jax.Array,
    k: jax.Array,
    theta: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """(E[φφᵀ], E[Dφ Θ Dφᵀ]) for covariances q1 (P, d, d), q2 (P', d, d), k and Θ (P, P', d, d)."""
    pairs = list(itertools.product(zip(coefficients, rates, strict=True), repeat=2))
    nodes = np.array([(c1 * c2, t1, t2) for (c1, t1), (c2, t2) in pairs])

    def add(sums: tuple[jax.Array, jax.Array], node: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        moved, derivative = _one(node[1], node[2], q1, q2, k, theta)
        return (sums[0] + node[0] * moved, sums[1] + node[0] * derivative), None

    zero = jnp.zeros_like(k)
    return jax.lax.scan(jax.checkpoint(add), (zero, zero), jnp.asarray(nodes, k.dtype))[0]


def _one(
    t1: jax.Array, t2: jax.Array, q1: jax.Array, q2: jax.Array, k: jax.Array, theta: jax.Array
) -> tuple[jax.Array, jax.Array]:
    one = jnp.eye(k.shape[-1], dtype=k.dtype)
    size = k.shape[-1]
    tilted, det_m = _solve(one + 2 * t1 * q1[:, None], jnp.concatenate(jnp.broadcast_arrays(k, q1[:, None]), axis=-1))
    k_t, q1_t = tilted[..., :size], tilted[..., size:]
    q2_t = q2[None] - 2 * t1 * jnp.einsum("...ca,...cb->...ab", k, k_t)
    solved, det_s = _solve(one + 2 * t2 * q2_t, jnp.concatenate([jnp.swapaxes(k_t, -1, -2), q2_t], axis=-1))
    cross, after2 = jnp.swapaxes(solved[..., :size], -1, -2), solved[..., size:]
    after1 = q1_t - 2 * t2 * jnp.einsum("...ac,...bc->...ab", k_t, cross)
    mass = 1 / jnp.sqrt(det_m * det_s)[..., None, None]
    left, right = after1 @ theta, theta @ after2
    trace = jnp.sum(theta * cross, axis=(-1, -2))[..., None, None]
    fourth = left @ after2 + cross @ jnp.swapaxes(theta, -1, -2) @ cross + cross * trace
    return mass * cross, mass * (theta - 2 * t1 * left - 2 * t2 * right + 4 * t1 * t2 * fourth)


def _solve(matrix: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(matrix⁻¹ right, determinant) for symmetric matrices ≥ 1, by elimination in place."""
    size = matrix.shape[-1]
    batch = jnp.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    rows = jnp.concatenate([jnp.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (matrix, right)], axis=-1)
    determinant = jnp.ones(batch, rows.dtype)
    for i in range(size):
        pivot = rows[..., i, i]
        determinant = determinant * pivot
        row = rows[..., i, :] / pivot[..., None]
        rows = rows - rows[..., :, i, None] * row[..., None, :]
        rows = rows.at[..., i, :].set(row)
    return rows[..., size:], determinant


_Here = tuple[Fields, PointsSide, PointsSide]
_Dual = Callable[[Nonlinear, Fields], Fields]


def own(program: SteerableProgram, x: jax.Array, present: jax.Array) -> tuple[tuple[Variances, ...], Fields]:
    """(variances before every nonlinearity, final kernels) of one input with itself; x (P, channels), there (P,)."""
    side = PointsSide(x[:, : program.space.coordinates], present)
    found: list[Variances] = []

    def dual(op: Nonlinear, fields: Fields) -> Fields:
        found.append(variances(fields))
        return _nonlinear(op, fields, found[-1], found[-1])

    fields = restricted(start(program.space.features, program.space.coordinates, x, x), side, side)
    fields = _run(program.ops, (fields, side, side), dual)[0]
    return tuple(found), fields


def pair(
    program: SteerableProgram,
    one: tuple[jax.Array, jax.Array],
    other: tuple[jax.Array, jax.Array],
    v1: tuple[Variances, ...],
    v2: tuple[Variances, ...],
) -> Fields:
    """Final kernels of two inputs (x, there), with their variances before every nonlinearity."""
    a, b = (PointsSide(x[:, : program.space.coordinates], present) for x, present in (one, other))
    known = iter(zip(v1, v2, strict=True))
    fields = restricted(start(program.space.features, program.space.coordinates, one[0], other[0]), a, b)
    return _run(program.ops, (fields, a, b), lambda op, fields: _nonlinear(op, fields, *next(known)))[0]


def _run(ops: tuple[Any, ...], here: _Here, dual: _Dual) -> _Here:
    """The state after operations in order; branches run one after another."""
    several: tuple[_Here, ...] = (here,)
    for op in ops:
        several = _parallel(op, several, dual) if op.is_branching else (_step(op, *several[0], dual),)
    (last,) = several
    return last


def _parallel(op: ParallelBranches, several: tuple[_Here, ...], dual: _Dual) -> tuple[_Here, ...]:
    if op.branches:
        each = several * len(op.branches) if len(several) == 1 else several
        several = tuple(_run(branch, one, dual) for branch, one in zip(op.branches, each, strict=True))
    return (reduce(_sum, several),) if op.joined else several


def _sum(a: _Here, b: _Here) -> _Here:
    """The sum of two independent branches, at most one of which has a mean."""
    return added(a[0], b[0]), a[1], a[2]


def _step(op: Any, fields: Fields, one: PointsSide, other: PointsSide, dual: _Dual) -> _Here:
    if isinstance(op, PointMean):
        begin, end = (PointsSide(side.points[:1], side.present[:1] * 0 + 1) for side in (one, other))
        return averaged(fields, one, other), begin, end
    if op.needs_variances:
        after = dual(op, fields)
    else:
        after = filtered(op, fields, one, other) if isinstance(op, Filter) else mapped(op, fields)
    return restricted(after, one, other), one, other


_NONLINEAR: dict[type, Callable[..., Fields]] = {Gate: gated, Sampled: sampled, Norm: normed}


def _nonlinear(op: Nonlinear, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    return _NONLINEAR[type(op)](op, fields, v1, v2)
