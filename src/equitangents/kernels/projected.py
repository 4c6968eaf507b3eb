"""Readouts in a representation ρ: programs, their sums over group elements, and kernels.

y(f) = ∫ ρ(g) v N(f)(g) dg with v ~ N(0, 1), independent for every feature. As N(f)(g) = N(ρ_reg(g⁻¹)f)(e), the
kernels of y are transforms by ρ of those of the network that ends in Flatten:

    K(f, f') = ∫ ρ(q) k(f, ρ_reg(q) f') dq,   Θ likewise.

Sums Σ_q w(q) ρ(q) k(x, q x') run over elements q, for all pairs of two sets of inputs or each input with itself. Scalar
kernels k come from any engine: with the compiled one a readout of a finite group costs as much as a pool over the
group. The resolution of rotations is measured on a few of the signals. A block of high degree is a small part of the
kernel, so that errors are relative to the block's own diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.groups import MatrixGroup, so3
from equitangents.groups.representations import Representation
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.operations import FrozenArray
from equitangents.kernels.program import Positions, Program, flat
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations import (
    AS_ASKED,
    LADDER,
    Accuracy,
    Resolution,
    Sphere,
    closed_nodes,
    coarser,
    sample,
    search,
    surrogates,
)
from equitangents.kernels.structured import StructuredPositions
from equitangents.sphere import rotate

Move = Callable[[np.ndarray, Any], Any]
_SAME = 1e-9  # matrices of one element, in float64


@dataclass(frozen=True)
class GroupNodes:
    """`weighted` w(q) ρ(q), and `move(chosen, x)`, the moved inputs (chosen, N, …).

    The nodes are closed under inversion, so that sums of an invariant k are symmetric.
    """

    weighted: Float[np.ndarray, "nodes d d"]
    move: Move

    def __len__(self) -> int:
        return len(self.weighted)


@dataclass(frozen=True)
class PositionMoves:
    """A finite group that moves positions: element q maps x, (P, C), to x[sources[q]]; ρ(q) = matrices[q]."""

    sources: FrozenArray  # int32 (|G|, P)
    matrices: FrozenArray  # float64 (|G|, d, d)

    def nodes(self, resolution: int) -> GroupNodes:
        """All elements, whatever `resolution` is."""
        sources, matrices = self.sources.array, self.matrices.array

        def move(chosen: np.ndarray, x: ArrayLike) -> ArrayLike:
            flat = x.reshape((len(x), sources.shape[1], x.shape[-1]))
            moved = flat[:, sources[chosen]]  # (N, chosen, P, C)
            return moved.swapaxes(0, 1).reshape((len(chosen), *x.shape))

        return GroupNodes(matrices / len(matrices), move)

    def matches(self, action: Action, shape: tuple[int, ...], matrices: np.ndarray) -> bool:
        """Whether each generator of `action` moves inputs of `shape` as an element whose ρ is its matrix."""
        sources, rho = self.sources.array, self.matrices.array
        for g, matrix in zip(action.group.generators, matrices, strict=True):
            known = action.moves(g, shape)
            if known is None or not action.permutes_positions or len(known[0]) != sources.shape[1]:
                return False
            alike = np.flatnonzero((sources[:, known[0]] == np.arange(sources.shape[1])).all(axis=1))
            if not any(np.abs(rho[q] - matrix).max() <= _SAME for q in alike):
                return False
        return True


@dataclass(frozen=True)
class RotationMoves:
    """Rotations of signals on the sphere, sampled to `accuracy`."""

    group: RotationGroup | MatrixGroup
    bandlimit: int
    representation: Representation
    accuracy: Accuracy

    def nodes(self, resolution: int) -> GroupNodes:
        """All elements of a finite group of rotations, or the nodes of a quadrature at a resolution."""
        turns, _ = closed_nodes(self.group, resolution)
        return GroupNodes(_representation(self, resolution), lambda chosen, x: rotate(x, turns[chosen].astype(x.dtype)))


@dataclass(frozen=True)
class EquivariantOutputs:
    """The space of d equivariant outputs: kernels K(x, x') between all pairs are (N1, N2, d, d).

    The operations, on the space `flat`, give the scalar kernels k; `constant` (d, d) is the bias's contribution, the
    projection onto the invariant subspace.
    """

    flat: Positions | Sphere | StructuredPositions
    moves: PositionMoves | RotationMoves
    constant: FrozenArray

    @property
    def dimension(self) -> int:
        """d, the number of outputs."""
        return self.constant.array.shape[0]


@lru_cache(maxsize=8)
def _representation(moves: RotationMoves, resolution: int) -> np.ndarray:
    turns, weights = closed_nodes(moves.group, resolution)
    reflections = bool((np.linalg.det(turns) < 0).any())
    if hasattr(moves.group, "table"):
        return moves.representation.at(moves.group) * weights[:, None, None]
    return moves.representation.at_matrices(turns, reflections=reflections) * weights[:, None, None]


_NUMBERS = 1 << 22  # of one kernel, or of moved inputs, at a time
BLOCK = 32  # rows of a symmetric kernel below which all columns are computed
_BLOCKS = 8  # of rows, at most

KernelOf = Callable[[Any, Any], Kernels]


class Sums(NamedTuple):
    """NNGP and NTK of d outputs, and one of the scalar kernels in their sum."""

    nngp: Any
    ntk: Any
    term: Kernels


def rows_of(n: int) -> list[slice]:
    """Blocks of rows of a symmetric matrix, whose columns are computed from the block's first row on."""
    step = max(BLOCK, -(-n // _BLOCKS))
    return [slice(i, min(i + step, n)) for i in range(0, max(n, 1), step)]


def one_orbit(kernel: KernelOf, nodes: GroupNodes, x1: Any, x2: Any = None) -> Sums:
    """Σ_q w(q) ρ(q) k(x1, q x2) of an invariant k, (N1, N2, d, d); x2 None: x1 with itself, exactly symmetric."""
    if x2 is not None:
        return summed(kernel, nodes, range(len(nodes)), x1, x2)
    if precision.is_traced(x1):
        found = summed(kernel, nodes, range(len(nodes)), x1, x1)
        return Sums(symmetric(found.nngp), symmetric(found.ntk), found.term)
    n, d = len(x1), nodes.weighted.shape[1]
    full = np.empty((2, n, n, d, d))
    for rows in rows_of(n):
        found = summed(kernel, nodes, range(len(nodes)), x1[rows], x1[rows.start :])
        for out, k in zip(full, (found.nngp, found.ntk), strict=True):
            own = rows.stop - rows.start
            out[rows, rows] = symmetric(k[:, :own])
            out[rows, rows.stop :] = k[:, own:]
            out[rows.stop :, rows] = _mirrored(k[:, own:])
    return Sums(full[0], full[1], found.term)


def with_noise(kernel: KernelOf, nodes: GroupNodes, x: Any, _: None = None) -> Sums:
    """`one_orbit` of x with itself where inputs draw noise, which each shares with itself at the identity alone."""
    found, own, other = one_orbit(kernel, nodes, x), kernel(x, None), kernel(x, x)
    identity, same = np.eye(nodes.weighted.shape[1])[None] / len(nodes), np.eye(len(x))
    pairs = ((own.nngp, other.nngp), (own.ntk, other.ntk))
    surplus = (_weighted(((a - b) * same)[:, None], identity) for a, b in pairs)
    nngp, ntk = (k + added for k, added in zip(found[:2], surplus, strict=True))
    return Sums(nngp, ntk, found.term)


def orbit_sums(program: Program[Any], kernel: KernelOf, nodes: GroupNodes, x1: Any, x2: Any, own: bool) -> Sums:
    """Sums for x1 and x2 (None: x1 with itself); `own`: of each input of x1 with itself, (N, d, d), one by one."""
    noisy = (own or x2 is None) and any(op.draws_noise for op in flat(program.ops))
    run = with_noise if noisy else one_orbit
    if not own:
        return run(kernel, nodes, x1, x2)
    found = [run(kernel, nodes, x1[i : i + 1], None) for i in range(len(x1))]
    join = jnp.concatenate if precision.is_traced(found[0].ntk) else np.concatenate
    return Sums(join([k.nngp[0] for k in found]), join([k.ntk[0] for k in found]), found[-1].term)


def summed(kernel: KernelOf, nodes: GroupNodes, chosen: range, x1: Any, x2: Any) -> Sums:
    """Σ_q w(q) ρ(q) k(x1, q x2) over the `chosen` nodes, in blocks."""
    step = max(1, _NUMBERS // max(len(x1) * len(x2), x2.size, 1))
    total: list[Any] = [0.0, 0.0]
    for here in (np.array(chosen[i : i + step]) for i in range(0, len(chosen), step)):
        term = kernel(x1, nodes.move(here, x2).reshape((-1, *x2.shape[1:])))
        shape = (len(x1), len(here), len(x2))
        for i, k in enumerate((term.nngp, term.ntk)):
            total[i] = total[i] + _weighted(k.reshape(shape), nodes.weighted[here])
    return Sums(total[0], total[1], term)


def _weighted(k: Any, weights: np.ndarray) -> Any:
    """Σ_q w(q) k[i, q, j] as (N1, N2, d, d), in float64 unless traced."""
    if precision.is_traced(k):
        return jnp.einsum("nqm,qab->nmab", k, weights.astype(k.dtype), precision="highest")
    d = weights.shape[1]
    if d == 1:
        return np.einsum("nqm,q->nm", k, weights[:, 0, 0])[:, :, None, None]
    k = np.asarray(k, np.float64)
    return np.tensordot(k, weights.reshape(len(weights), d * d), axes=(1, 0)).reshape(len(k), k.shape[2], d, d)


def _mirrored(k: Any) -> Any:
    """K(x', x) from K(x, x'), (N1, N2, d, d)."""
    return k.transpose(1, 0, 3, 2)


def symmetric(k: Any) -> Any:
    """Mean of K(x, x') and the mirrored K(x', x)."""
    return (k + _mirrored(k)) / 2


_FINEST = 24  # 53,016 rotations
_SMALL = 1e-6  # of the kernel of numbers: blocks below that are not resolved any further


def resolve(
    moves: RotationMoves, kernel: Callable[[Any, Any], Kernels], x1: ArrayLike, x2: ArrayLike | None
) -> Resolution:
    """The lowest resolution at which the blocks of a few signals agree with a finer grid's within the tolerance."""
    if isinstance(moves.group, MatrixGroup):
        return Resolution(0, None, None)
    traced = precision.is_traced(x1) or precision.is_traced(x2)
    note = "resolution and error are those of random signals of unit variance" if traced else None
    if traced:
        signals = surrogates(moves.bandlimit, x1.shape[-1])
    else:
        signals = sample(*(np.asarray(x, np.float64) for x in (x1, x1 if x2 is None else x2)))
    both = np.concatenate([signals, *(rotate(signals, R) for R in so3(1).random(2))])

    @cache
    def at(r: int) -> np.ndarray:
        found = one_orbit(kernel, moves.nodes(r), signals, both)
        return np.stack([found.nngp, found.ntk])

    own = kernel(signals, signals)
    size = _SMALL * np.array([np.abs(np.diagonal(k)).max() for k in (np.asarray(own.nngp), np.asarray(own.ntk))])

    def error(coarse: int, fine: int) -> float:
        scale = np.einsum("viikk->vik", at(fine)[:, :, : len(signals)]).max(axis=(1, 2))
        difference = np.abs(at(coarse) - at(fine)).reshape(2, -1).max(axis=1)
        return float(np.max(difference / np.maximum(np.maximum(scale, size), 1e-300)))

    tolerance = max(moves.accuracy.tolerance, 64 * float(np.finfo(precision.working_dtype(x1, x2)).eps))
    if (r := moves.accuracy.resolution) is not None:
        return Resolution(r, error(coarser(r), r) if coarser(r) < r else None, AS_ASKED)
    found = search([r for r in LADDER if 2 * r > moves.bandlimit and r <= _FINEST], error, tolerance)
    return found if found.note else found._replace(note=note)


@lru_cache(maxsize=64)
def numbers(program: Program[EquivariantOutputs]) -> Program[Any]:
    """The program of the scalar kernels."""
    return Program(program.space.flat, program.ops)
