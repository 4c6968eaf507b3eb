"""Programs of networks on rotation groups.

Lifted to rotations R, R', the kernel of two signals on the sphere depends only on the relative rotation Q = R'R⁻¹.
Windows are full and keep it, nonlinearities act at each Q, pooling averages over all. Source: arXiv 2406.06504.

Sampling of rotations: kernels at the nodes of a quadrature, ring after ring, and the resolution needed.

K(Q) = c'ᵀ D(Q) c / (4πC). With Euler angles Q = R_z(α) R_y(β) R_z(γ) the azimuths separate: for each β, K is a
trigonometric polynomial in α and γ whose coefficients are sums over l of d^l(β) times products of coefficients; two
small Fourier transforms evaluate it. A ring is the set of nodes with one β. Cost per pair: about 4 B⁴ + nodes × B
multiplications, for any number of channels. Group means that must keep kernels symmetric use rotations closed under
inversion (`closed_nodes`).

K(Q) of band-limited signals is band-limited, but a nonlinearity of it is not: the error of the Haar mean falls with the
resolution at a rate that depends on the nonlinearity, on the signals' size, and most of all on their similarity (the
angle of a signal with itself has a kink at Q = 1). So a sample of pairs, including signals with themselves, is computed
at growing resolution until it agrees with a grid at least one and a half times as fine.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.errors import NetworkError
from equitangents.groups import MatrixGroup
from equitangents.groups.rotation_group import RotationGroup, euler_grid, from_euler_angles
from equitangents.groups.rotations_of_space import random_rotations
from equitangents.kernels.operations import Affine, Dual, Flattening, HashedOnce, Operation
from equitangents.kernels.program import Op, ParallelBranches, Positions, Program
from equitangents.sphere import degrees, rotate
from equitangents.sphere.transforms import wigner


@dataclass(frozen=True)
class FullMean(Operation):
    """Mean over a window of all rotations, or the whole sphere, which leaves the kernel at each Q unchanged."""

    is_window: ClassVar[bool] = True
    is_total: ClassVar[bool] = True


@dataclass(frozen=True)
class HaarMean(Operation):
    """Average over the group: the mean over all relative rotations Q."""

    is_pool: ClassVar[bool] = True


@dataclass(frozen=True)
class Accuracy:
    """Sampling of integrals over rotations: to an error of `tolerance`, or at `resolution` if it is set."""

    tolerance: float
    resolution: int | None = None


RotationOp = Op | FullMean | HaarMean


@dataclass(frozen=True)
class Sphere:
    """The space of signals of `bandlimit` on the sphere, lifted to a group of rotations, and the required accuracy.

    Its programs have operations on rotations, a `HaarMean`, and operations on vectors.
    """

    on_rotations: ClassVar[bool] = True
    bandlimit: int
    group: RotationGroup | MatrixGroup
    accuracy: Accuracy

    def program(self, shape: tuple[int, ...], ops: tuple[Any, ...]) -> Program[Any]:
        """The program of the lowered layers `ops`; raises NetworkError for layers without a rule on rotations.

        A network that ends in a Flatten needs only Q = 1: it is the network on the coefficients as vectors.
        """
        end = next((i for i, op in enumerate(ops) if op.is_pool), len(ops))
        if end == len(ops):
            raise NetworkError(
                "the network ends on rotations, so its kernel is a field; end it with GroupPool or Flatten"
            )
        if any(op.has_rates for op in ops):
            raise NetworkError("layers after a SphereLift have the NTK parametrisation only")
        readout = ops[end]
        if readout.positions_after(1) != 1:
            raise NetworkError("pooling over a subgroup of the rotations has no kernel here; use GroupPool()")
        field, vector = (_checked(_without_windows(part)) for part in (ops[:end], ops[end + 1 :]))
        if not readout.is_diagonal:
            return Program(self, (*field, HaarMean(), *vector))
        first = field[0].affine.scaled(self.bandlimit**2 / (4 * np.pi), 1.0)
        return Program(Positions((self.bandlimit**2,)), (Flattening(), first, *field[1:], *vector))


@dataclass(frozen=True)
class RotationSections(HashedOnce):
    """A program on rotations in executable form: `field` at each relative rotation Q, `vector` after the readout."""

    bandlimit: int
    group: RotationGroup | MatrixGroup
    field: tuple[Op, ...]
    vector: tuple[Op, ...]
    accuracy: Accuracy

    __hash__ = HashedOnce.__hash__

    @property
    def is_sampled(self) -> bool:
        """Whether the mean over rotations is an inexact quadrature."""
        return isinstance(self.group, RotationGroup)


@lru_cache(maxsize=256)
def sections(program: Program[Sphere]) -> RotationSections:
    """The field and vector sections of a program on rotations."""
    space, ops = program.space, program.ops
    end = next(i for i, op in enumerate(ops) if op.is_pool)
    return RotationSections(space.bandlimit, space.group, ops[:end], ops[end + 1 :], space.accuracy)


def _without_windows(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(op.with_held(_without_windows) for op in ops if not (op.is_window or op.is_pool))


def _checked(ops: tuple[Any, ...]) -> tuple[Op, ...]:
    for op in ops:
        if not isinstance(op, Affine | Dual | ParallelBranches):
            raise NetworkError("operation", type(op), "one with a rule on rotations", verb="is")
    return ops


def nodes(program: RotationSections, resolution: int) -> int:
    """Number of relative rotations at which the recursion runs."""
    if not resolution:
        return program.group.order
    return resolution * (2 * resolution - 1) ** 2 * (2 if getattr(program.group, "reflections", False) else 1)


_HIGHEST = jax.lax.Precision.HIGHEST


class Rings(NamedTuple):
    """Arrays of a quadrature; those in `scanned` have one entry per ring along their first axis."""

    fixed: dict[str, Any]
    scanned: dict[str, Any]


def products(a: ArrayLike, b: ArrayLike, bandlimit: int) -> list[Any]:
    """Σ_c b_{m'c} a_{mc} for each degree l ≥ 1, (2l + 1, 2l + 1, *pairs), rows m' and columns m.

    a, b: (B², C, *pairs), where the pairs' axes broadcast.
    """
    found = []
    for l in range(1, bandlimit):
        here = slice(l * l, (l + 1) ** 2)
        found.append(jnp.sum(b[here, None] * a[None, here], axis=2))
    return found


@lru_cache(maxsize=32)
def euler_rings(bandlimit: int, resolution: int, reflections: bool) -> Rings:
    """Rings of SO(3) or O(3), as NumPy arrays in float64; reflections have separate rings."""
    azimuths, cosine, weights = euler_grid(resolution)
    L = bandlimit - 1
    k = np.arange(-L, L + 1)
    trigonometric = np.where(k >= 0, np.cos(np.outer(azimuths, k)), np.sin(np.outer(azimuths, -k)))
    angles = np.stack([0 * cosine, np.arccos(cosine), 0 * cosine], axis=-1)
    d = wigner(from_euler_angles(angles), bandlimit)
    side = 2 * L + 1
    own = np.zeros((resolution, side, side, bandlimit))
    flipped = np.zeros_like(own)
    row, column = np.meshgrid(k, k, indexing="ij")
    for l in range(1, bandlimit):
        r, c = (x[(np.abs(row) <= l) & (np.abs(column) <= l)].reshape(2 * l + 1, -1) for x in (row, column))
        inner = slice(L - l, L + l + 1)
        own[:, inner, inner, l] = np.where(c >= 0, 1, -1) * d[l][:, l + np.abs(r), l + np.abs(c)]
        both = (r != 0) & (c != 0)
        flipped[:, inner, inner, l] = np.where(r > 0, 1, -1) * np.where(both, d[l][:, l - np.abs(r), l - np.abs(c)], 0)
    mixing = np.concatenate([own[..., 1:], flipped[..., 1:]], axis=-1).reshape(resolution, side * side, -1)
    weights = np.repeat(weights[:, None] / len(azimuths) ** 2, len(azimuths) ** 2, axis=1)
    if reflections:
        parity = np.tile((-1.0) ** np.arange(1, bandlimit), 2)
        mixing, weights = np.concatenate([mixing, mixing * parity]), np.concatenate([weights, weights]) / 2
    return Rings({"azimuths": trigonometric}, {"mixing": mixing, "weights": weights})


@lru_cache(maxsize=32)
def listed_rings(bandlimit: int, group: MatrixGroup) -> Rings:
    """A finite group of rotations, with all elements in one ring."""
    blocks = (d.reshape(group.order, -1) for d in wigner(group.matrices, bandlimit)[1:])
    matrices = np.concatenate([np.zeros((group.order, 0)), *blocks], axis=1)
    return Rings({}, {"matrices": matrices[None], "weights": np.asarray(group.weights, np.float64)[None]})


def rings_of(bandlimit: int, group: RotationGroup | MatrixGroup, resolution: int) -> Rings:
    """The rings of a group; `resolution` applies to sampled groups."""
    if isinstance(group, RotationGroup):
        return euler_rings(bandlimit, resolution, group.reflections)
    return listed_rings(bandlimit, group)


def prepared(rings: Rings, m: list[Any]) -> tuple[Any, dict[str, Any]]:
    """(data shared by all rings, data per ring, which is scanned), from the products `m`, (2l + 1, 2l + 1, P)."""
    if not m:
        return None, {"weights": rings.scanned["weights"]}
    pairs = m[0].shape[-1]
    if "matrices" in rings.scanned:
        return jnp.concatenate([x.reshape(-1, pairs) for x in m]), rings.scanned
    L = len(m)
    padded = jnp.stack([jnp.pad(x, ((L - l, L - l), (L - l, L - l), (0, 0))) for l, x in enumerate(m, start=1)], axis=2)
    both = jnp.concatenate([padded, padded[::-1, ::-1]], axis=2).reshape((2 * L + 1) ** 2, 2 * L, pairs)
    mixed = jnp.einsum("rks,ksp->rkp", rings.scanned["mixing"], both, precision=_HIGHEST)
    return None, {"mixed": mixed, "weights": rings.scanned["weights"]}


def ring_values(rings: Rings, shared: Any, ring: dict[str, Any], pairs: int) -> Any:
    """Σ_l≥1 c'ᵀ D(Q) c at the nodes of one ring, (nodes, P)."""
    if "mixed" in ring:
        t = rings.fixed["azimuths"]
        n, side = t.shape
        x = jnp.matmul(t, ring["mixed"].reshape(side, side * pairs), precision=_HIGHEST).reshape(n, side, pairs)
        return jnp.einsum("gk,akp->agp", t, x, precision=_HIGHEST).reshape(n * n, pairs)
    if "matrices" in ring:
        return jnp.matmul(ring["matrices"], shared, precision=_HIGHEST)
    return jnp.zeros((ring["weights"].shape[0], pairs), ring["weights"].dtype)


@lru_cache(maxsize=16)
def closed_nodes(group: RotationGroup | MatrixGroup, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """Rotations (nodes, 3, 3), closed under inversion, and weights (nodes,), which sum to 1.

    All elements of a finite group; for SO(3) and O(3) the Euler grid with γ = π − α for the nodes of α.
    """
    if isinstance(group, MatrixGroup):
        turns, weights = np.asarray(group.matrices, np.float64), np.asarray(group.weights, np.float64)
        return turns, weights
    azimuth, cosine, weight = euler_grid(resolution)
    alpha, beta, gamma = np.meshgrid(azimuth, np.arccos(cosine), np.pi - azimuth, indexing="ij")
    turns = from_euler_angles(np.stack([alpha, beta, gamma], axis=-1).reshape(-1, 3))
    weights = np.broadcast_to(weight[:, None] / len(azimuth) ** 2, alpha.shape).ravel()
    if group.reflections:
        turns, weights = np.concatenate([turns, -turns]), np.concatenate([weights, weights]) / 2
    return turns, weights


logger = logging.getLogger("equitangents")

LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)
AS_ASKED = "resolution as set"
_FINER = 1.5  # how much finer the grid is that errors are measured against
_COARSEST_FINER = 4  # the grid for errors of resolution 1, which has no coarser one
_SIGNALS = 4  # in a sample
_SIDES = 4  # from which each of them is seen


class Resolution(NamedTuple):
    """Nodes in cos β, the error measured there relative to √(K(x,x) K(x',x')), and notes for the result."""

    value: int
    error: float | None
    note: str | None


Values = tuple[np.ndarray, np.ndarray]


def sampled_for(net: Any, x: Callable[[], Any]) -> Any:
    """A kernel with its sampling of rotations fixed at the resolution for inputs x(); unchanged if it samples none."""
    return net.sampled_for(x()) if getattr(net, "samples_rotations", False) else net


def sample(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """Signals for measuring resolution: the largest, the steepest, the roughest for its size, and some others.

    Signals with a large constant part are exact on any grid, so that size is not enough to find difficult ones.
    """
    x = np.concatenate([x1, x2])
    l = degrees(round(x.shape[1] ** 0.5))
    power = (x**2).sum(axis=2)
    size, slope = power.sum(axis=1), power @ (l * (l + 1.0))
    rough = np.divide(slope, size, out=np.zeros_like(size), where=size > 0)
    hardest = [int(np.argmax(by)) for by in (size, slope, rough)]
    others = [0, len(x) - 1, *np.argsort(-slope, kind="stable").tolist()]
    return x[sorted(list(dict.fromkeys([*hardest, *others]))[:_SIGNALS])]


def from_several_sides(x: np.ndarray) -> np.ndarray:
    """Signals, and their copies under fixed rotations.

    The error of a mean over the grid depends on the signals' orientation, up to fivefold, and a kernel sees them in
    any orientation. Only for means over all rotations, which are rotation-invariant.
    """
    turns = random_rotations(_SIDES - 1, np.random.default_rng(7))
    return np.concatenate([x, *(rotate(x, R) for R in turns)])


def pairs_of(x: np.ndarray, turns: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of n signals with themselves, with rotated copies, and with the next signal."""
    turned = [rotate(x, R) for R in turns]
    return np.concatenate([x] * (len(turns) + 2)), np.concatenate([x, *turned, np.roll(x, 1, axis=0)])


def rotation_to_node(resolution: int) -> np.ndarray:
    """The rotation after which a signal meets itself at the worst place of a grid over relative rotations.

    Grids are densest around the identity, where a signal meets itself. It meets a rotated copy elsewhere: at worst at a
    node of the middle ring, whose cell is the largest. Only for means over all rotations, which are rotation-invariant.
    """
    azimuths, cosine, _ = euler_grid(resolution)
    return _rotation(azimuths[-1], cosine[resolution // 2])


def rotation_between_nodes(resolution: int) -> np.ndarray:
    """A rotation to the middle of a cell, where means come out too small, not too large.

    The signal and its copy then have a non-zero angle, which nonlinearities after the mean see; at a node it is zero.
    """
    azimuths, cosine, _ = euler_grid(resolution)
    middle = resolution // 2
    return _rotation(azimuths[-1] + np.pi / len(azimuths), (cosine[middle] + (cosine[middle - 1] if middle else 1)) / 2)


def _rotation(azimuth: float, cosine: float) -> np.ndarray:
    return from_euler_angles(np.array((azimuth, np.arccos(cosine), azimuth)))


def surrogates(bandlimit: int, channels: int) -> np.ndarray:
    """Random signals of unit variance, in place of signals that are not known yet."""
    return np.random.default_rng(0).normal(size=(_SIGNALS, bandlimit**2, channels)) * np.sqrt(4 * np.pi) / bandlimit


def choose(
    accuracy: Accuracy, ladder: tuple[int, ...], values: Callable[[int], Values], n: int, least: float
) -> Resolution:
    """The lowest resolution whose error is within the tolerance, or within rounding, `least`.

    `values(r)`: NNGP and NTK of the pairs of n signals at resolution r.
    """
    at = functools.cache(values)
    error = lambda coarse, fine: difference(at(coarse), at(fine), n)
    if accuracy.resolution is not None:
        r = accuracy.resolution
        if r == 1:
            return Resolution(r, error(1, _COARSEST_FINER), AS_ASKED)
        return Resolution(r, error(coarser(r), r), f"{AS_ASKED}; the error is that of a coarser one")
    found = search(ladder, error, max(accuracy.tolerance, least))
    if found.note is None and found.error is not None and found.error > accuracy.tolerance:
        note = f"the tolerance {accuracy.tolerance:.1e} is below the precision's own, {least:.1e}, which was taken"
        return found._replace(note=note)
    return found


def coarser(resolution: int) -> int:
    """A coarser resolution, two thirds of the requested one, for comparison."""
    return max(1, int(resolution / _FINER))


def search(ladder: Sequence[int], error: Callable[[int, int], float], tolerance: float) -> Resolution:
    """The lowest resolution of a ladder whose `error(r, finer)`, against one half as fine again, is within `tolerance`.

    If none is, the finest comparable one, with a note and a warning; if none can be compared, the first, with infinite
    error.
    """
    last, missed = ladder[0], float("inf")
    for r in ladder:
        finer = next((s for s in ladder if s >= _FINER * r), None)
        if finer is None:
            break
        last, missed = r, error(r, finer)
        if missed <= tolerance:
            return Resolution(r, missed, None)
    note = f"the tolerance {tolerance:.1e} is not reached"
    logger.warning("integrals over rotations: %s; the error is about %.1e", note, missed)
    return Resolution(last, missed, note)


def difference(coarse: Values, fine: Values, n: int) -> float:
    """Largest error of the coarser values of `pairs_of` n signals, relative to the kernels of signals with themselves.

    A signal with its rotated copies has the kernel of the signal with itself.
    """
    errors = [0.0]
    for a, b in zip(coarse, fine, strict=True):
        own, root = b[:n], np.sqrt(np.abs(b[:n]))
        same = len(b) // n - 1
        scale = np.concatenate([np.tile(root * root, same), root * np.roll(root, 1)])
        error = np.abs(a - np.concatenate([np.tile(own, same), b[same * n :]]))
        errors.append((error / np.maximum(scale, 1e-12 * scale.max() + 1e-300)).max())
    return float(np.max(errors))  # NaN if any is
