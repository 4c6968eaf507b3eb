"""Readouts in a representation ρ: programs, their sums over group elements, and kernels.

y(f) = ∫ ρ(g) v N(f)(g) dg with v ~ N(0, 1), independent for every feature. As N(f)(g) = N(ρ_reg(g⁻¹)f)(e), the
kernels of y are those of the network that ends in Flatten, moved and weighed by ρ:

    K(f, f') = ∫ ρ(q) k(f, ρ_reg(q) f') dq,   Θ likewise.

Sums Σ_q w(q) ρ(q) k(x, q x') are over elements q, for all pairs of two sets of inputs or each with itself. Kernels k of
numbers are of any engine: for the compiled one a readout of a finite group costs what a pool over the group costs. How
finely rotations are sampled is measured on a few of the signals. A block of high degree is a small part of the kernel,
so errors are relative to the block's own diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.groups import MatrixGroup, so3
from equitangents.groups.representations import Representation
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.cost import KernelCost, repeated
from equitangents.kernels.fields import check_result
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.program import Positions, Program
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
from equitangents.kernels.runs.scaling import result
from equitangents.kernels.structured import StructuredPositions
from equitangents.memory import check_fits
from equitangents.sphere import rotate

Move = Callable[[np.ndarray, Any], Any]
_SAME = 1e-9  # matrices of one element, in float64


@dataclass(frozen=True)
class Nodes:
    """`weighted` w(q) ρ(q), and `move(chosen, x)`, the moved inputs (chosen, N, …).

    `inverses`: the number of each q⁻¹; None where the nodes are not closed under inversion.
    """

    weighted: Float[np.ndarray, "nodes d d"]
    inverses: Int[np.ndarray, " nodes"] | None
    move: Move

    def __len__(self) -> int:
        return len(self.weighted)

    def half(self) -> tuple[np.ndarray, np.ndarray]:
        """(one of each pair q, q⁻¹, its weight: 2, or 1 where they are one): enough for a symmetric problem."""
        everything = np.arange(len(self))
        if self.inverses is None:
            return everything, np.ones(len(self))
        chosen = np.flatnonzero(everything <= self.inverses)
        return chosen, np.where(self.inverses[chosen] == chosen, 1.0, 2.0)


@dataclass(frozen=True)
class PositionMoves:
    """A finite group that moves positions: element q takes x, (P, C), to x[sources[q]], and is ρ(q) = matrices[q]."""

    sources: FrozenArray  # int32 (|G|, P)
    matrices: FrozenArray  # float64 (|G|, d, d)
    inverses: FrozenArray  # int32 (|G|,)

    def nodes(self, resolution: int) -> Nodes:
        """All elements, whatever the resolution."""
        sources, matrices = self.sources.array, self.matrices.array

        def move(chosen: np.ndarray, x: ArrayLike) -> ArrayLike:
            flat = x.reshape((len(x), sources.shape[1], x.shape[-1]))
            moved = flat[:, sources[chosen]]  # (N, chosen, P, C)
            return moved.swapaxes(0, 1).reshape((len(chosen), *x.shape))

        return Nodes(matrices / len(matrices), self.inverses.array, move)

    def turn(self, action: Action, shape: tuple[int, ...], matrices: np.ndarray) -> bool:
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

    def nodes(self, resolution: int) -> Nodes:
        """All elements of a finite group of rotations, or the nodes of a quadrature at a resolution."""
        turns, _, inverses = closed_nodes(self.group, resolution)
        return Nodes(
            _representation(self, resolution), inverses, lambda chosen, x: rotate(x, turns[chosen].astype(x.dtype))
        )


@dataclass(frozen=True)
class EquivariantOutputs:
    """The space of d equivariant outputs: kernels K(x, x') between all pairs are (N1, N2, d, d).

    The operations, on the space `flat`, give the kernels k of numbers; `constant` (d, d) is what the bias adds, the
    projection onto what no element moves.
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
    turns, weights, _ = closed_nodes(moves.group, resolution)
    reflections = bool((np.linalg.det(turns) < 0).any())
    if hasattr(moves.group, "table"):
        return moves.representation.at(moves.group) * weights[:, None, None]
    return moves.representation.at_matrices(turns, reflections=reflections) * weights[:, None, None]


_NUMBERS = 1 << 22  # of one kernel, or of moved inputs, at a time

KernelOf = Callable[[Any, Any], Kernels]


class Sums(NamedTuple):
    """NNGP and NTK of d outputs, and one of the kernels that they were summed from."""

    nngp: Any
    ntk: Any
    term: Kernels


def all_pairs(kernel: KernelOf, nodes: Nodes, x1: Any, x2: Any = None) -> Sums:
    """(N1, N2, d, d); x2 None: x1 with itself, at half the cost, exactly symmetric."""
    chosen, factor = nodes.half() if x2 is None else (np.arange(len(nodes)), np.ones(len(nodes)))
    second = x1 if x2 is None else x2
    total, term = None, None
    for part in _chunks(len(chosen), len(x1) * len(second), second.size):
        here = chosen[part]
        moved = nodes.move(here, second)
        term = kernel(x1, moved.reshape((-1, *second.shape[1:])))
        shape = (len(x1), len(here), len(second))
        weights = nodes.weighted[here] * factor[part, None, None]
        added = [_weighted(k.reshape(shape), weights) for k in (term.nngp, term.ntk)]
        total = added if total is None else [a + b for a, b in zip(total, added, strict=True)]
    assert total is not None
    assert term is not None
    if x2 is None:
        total = [(k + k.transpose(1, 0, 3, 2)) / 2 for k in total]
    return Sums(total[0], total[1], term)


def diagonal(own: Callable[[Any], Sums], x: Any) -> Sums:
    """(N, d, d): each input with itself, one after another, by `own` of (1, ...)."""
    found = [own(x[i : i + 1]) for i in range(len(x))]
    join = jnp.concatenate if precision.is_traced(found[0].ntk) else np.concatenate
    return Sums(join([k.nngp[0] for k in found]), join([k.ntk[0] for k in found]), found[-1].term)


def _weighted(k: Any, weights: np.ndarray) -> Any:
    """Σ_q w(q) k[i, q, j] as (N1, N2, d, d), in float64 unless traced."""
    if precision.is_traced(k):
        return jnp.einsum("nqm,qab->nmab", k, weights.astype(k.dtype), precision="highest")
    d = weights.shape[1]
    k = np.asarray(k, np.float64)
    return np.tensordot(k, weights.reshape(len(weights), d * d), axes=(1, 0)).reshape(len(k), k.shape[2], d, d)


def _chunks(count: int, pairs: int, numbers: int) -> list[slice]:
    step = max(1, _NUMBERS // max(pairs, numbers, 1))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


_FINEST = 24  # 53,016 rotations
_SMALL = 1e-6  # of the kernel of numbers: blocks below that are not resolved any further


def resolve(
    moves: RotationMoves, kernel: Callable[[Any, Any], Kernels], x1: ArrayLike, x2: ArrayLike | None
) -> Resolution:
    """The lowest resolution at which the blocks of a few signals are within the tolerance of those of a finer grid."""
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
        found = all_pairs(kernel, moves.nodes(r), signals, both)
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


_TYPICAL = 8  # the resolution that costs are given for where signals are not known

Base = Callable[..., Kernels]


def compute(
    base: Base, program: Program[EquivariantOutputs], x1: Any, x2: Any = None, engine: str | None = None
) -> Kernels:
    """NNGP and NTK between x1 and x2 (None: x1 with itself, at half the cost), each (N1, N2, d, d)."""
    return _compute(base, program, x1, x2, engine, lambda kernel, nodes: all_pairs(kernel, nodes, x1, x2))


def compute_diagonal(base: Base, program: Program[EquivariantOutputs], x: Any, engine: str | None = None) -> Kernels:
    """NNGP and NTK of each input with itself, each (N, d, d)."""
    return _compute(
        base, program, x, None, engine, lambda kernel, nodes: diagonal(lambda one: all_pairs(kernel, nodes, one), x)
    )


def kernel_cost(
    base_cost: Callable[..., KernelCost],
    program: Program[EquivariantOutputs],
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
) -> KernelCost:
    """The cost of the kernels of numbers for every element, or for a quadrature of SO(3) at a typical resolution."""
    moves = program.space.moves
    typical = moves.accuracy.resolution if isinstance(moves, RotationMoves) else None
    one = base_cost(numbers(program), channels, n1, n2, dtype, engine)
    whole = repeated([(one, len(moves.nodes(typical or _TYPICAL)))], 0)
    return replace(whole, output_bytes=whole.output_bytes * program.space.dimension**2)


def _compute(
    base: Base,
    program: Program[EquivariantOutputs],
    x1: Any,
    x2: Any,
    engine: str | None,
    run: Callable[[KernelOf, Nodes], Sums],
) -> Kernels:
    flat = numbers(program)
    kernel = lambda a, b: base(flat, a, b, engine)
    dtype = precision.working_dtype(x1, x2)
    _check_memory(program, x1, x2)
    nodes, found = _nodes(program, kernel, x1, x2)
    sums = run(kernel, nodes)
    nngp, ntk = (k + program.space.constant.array for k in (sums.nngp, sums.ntk))
    if any(precision.is_traced(x) for x in (x1, x2)):
        with precision.scope(dtype):
            nngp, ntk = nngp.astype(dtype), ntk.astype(dtype)
    else:
        nngp, ntk = np.asarray(nngp, dtype), np.asarray(ntk, dtype)
    facts: dict[str, Any] = {"engine": sums.term.engine, "form": sums.term.form, "notes": sums.term.notes}
    if found is not None:
        facts |= {"error_estimate": found.error, "resolution": found.value or None}
        facts["notes"] += () if found.note is None else (found.note,)
    return result((x1, x2), nngp, ntk, **facts)


@lru_cache(maxsize=64)
def numbers(program: Program[EquivariantOutputs]) -> Program[Any]:
    """The program of the kernels of numbers."""
    return Program(program.space.flat, program.ops)


def _nodes(program: Program[EquivariantOutputs], kernel: KernelOf, x1: Any, x2: Any) -> tuple[Nodes, Resolution | None]:
    moves = program.space.moves
    if isinstance(moves, PositionMoves):
        return moves.nodes(0), None
    found = resolve(moves, kernel, x1, x2)
    return moves.nodes(found.value), found


def _check_memory(program: Program[EquivariantOutputs], x1: Any, x2: Any) -> None:
    n1, n2, d = len(x1), len(x1 if x2 is None else x2), program.space.dimension
    check_result(x1, x2, precision.working_dtype(x1, x2), 0)
    check_fits(
        f"a kernel of {n1} × {n2} inputs and {d} × {d} outputs",
        4 * 8 * n1 * n2 * d * d,
        "compute fewer inputs at a time",
    )
