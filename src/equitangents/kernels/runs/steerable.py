"""Kernels of steerable programs: in batches of pairs of inputs, on the reference engine, in double precision.

If all outputs are invariant scalars, kernels are (N1, N2), of one of them; otherwise (N1, N2, D, D) of all D outputs,
with K(gx, g'x') = ρ(g) K(x, x') ρ(g')ᵀ. For programs that end on points they are fields, between components at
points.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import InvalidArgumentError, MemoryLimitError
from equitangents.kernels.engines import REFERENCE, EngineChoice, choose_where
from equitangents.kernels.program import flat
from equitangents.kernels.result import KernelField, Kernels, Part, check_field, check_result, field_bytes, result_at
from equitangents.kernels.scales import any_traced, cast
from equitangents.kernels.steerable import Fields, Norm, SteerableProgram, Variances, pair
from equitangents.kernels.steerable import own as own_fields
from equitangents.steerable.features import trivial
from equitangents.steerable.gaussian_sum import mean_square
from equitangents.structured import Inputs

WHY = "features of steerable networks have matrices for kernels, over all pairs of points"
_MEMORY = 256 << 20  # bytes for the pairs that run at once
_MEMORY_LIMIT = 4 << 30  # bytes for one pair
_MOST = 64  # pairs at once
_DEVIATIONS = 5.0  # how many root mean square norms of a vector a fitted function has to hold for

_Side = tuple[jax.Array, jax.Array]  # inputs (N, P, channels), and which of their points exist (N, P)
_Known = tuple[Variances, ...]  # before every nonlinearity, of every input
_Sample = tuple[_Side, _Known]  # inputs with the numbers of each input


def compute(
    program: SteerableProgram,
    x1: Inputs,
    x2: Inputs | None = None,
    engine: str | None = None,
    part: Part | None = None,
    own: bool = False,
) -> Kernels | KernelField:
    """`Kernels` between x1 and x2 (None: x1 with itself), arrays (N, P, channels) or Masked.

    With `part` the `KernelField` at these pairs of components at points. `own`: of each input of x1 with itself, (N,)
    or (N, D, D), or (N, *part.tail).
    """
    choice, dtype = choice_of(program, engine), precision.working_dtype(x1, x2)
    shown: dict[str, Any] = {"engine": choice.engine.name, "form": "pairs", "notes": choice.notes, "between": not own}
    inputs: tuple[Any, ...] = (x1,) if x2 is None else (x1, x2)
    if program.space.whole:  # features of whole inputs, (N, channels), are those of one point
        inputs = tuple(x[:, None] for x in inputs)
    leaves = jax.tree.leaves(inputs)
    if any_traced(*inputs):
        with precision.scope(dtype):
            sides = [_typed(x, dtype) for x in inputs]
            of_each = jax.vmap(lambda a, m: _block(program, own_fields(program, a, m)[1]), 0, 1)
            traced = of_each(*sides[0]) if own else _traced_blocks(program, sides)
            nngp, ntk = (_picked(part, v) for v in traced)
            return result_at(leaves, nngp, ntk, part, **shown)
    n1, n2 = len(x1), 1 if own else len(inputs[-1])
    working = working_bytes(program, max(x.shape[1] for x in inputs))
    if part is not None:
        check_field(part, n1, n2, dtype, working + 2 * field_bytes(part, n1, n2, 8), copied=True)
    elif not own:
        check_result(x1, x2, dtype, working + 4 * 8 * n1 * n2 * outputs(program) ** 2)
    with precision.scope(np.float64):
        sides = [_typed(x, np.float64) for x in inputs]
        known = [_known_variances(program, *side) for side in sides]
        first, second = np.triu_indices(n1) if x2 is None else np.indices((n1, n2)).reshape(2, -1)
        if own:
            first = second = np.arange(n1)
        blocks = _of_pairs(program, (sides[0], sides[-1]), (known[0], known[-1]), first, second, part)
    found = blocks
    if not own:
        found = np.empty((2, n1, n2, *blocks.shape[2:]))
        found[:, first, second] = blocks
        if x2 is None:
            found[:, second, first] = _transposed(blocks)
            diagonal = np.arange(n1)
            blocks_ii = found[:, diagonal, diagonal]
            found[:, diagonal, diagonal] = (blocks_ii + _transposed(blocks_ii)) / 2
    nngp, ntk = cast(dtype, found[0], found[1], (getattr(x, "x", x) for x in inputs))
    return result_at(leaves, nngp, ntk, part, **shown)


def _transposed(blocks: np.ndarray) -> np.ndarray:
    """K(x', x) from K(x, x'), for scalars (2, pairs) and (2, pairs, M), or for matrices (2, pairs, D, D)."""
    return blocks if blocks.ndim < 4 else np.swapaxes(blocks, -1, -2)


def _picked(part: Part | None, blocks: ArrayLike) -> ArrayLike:
    """The wanted pairs of blocks (…, P, P'): (…, *tail)."""
    if part is None or part.kind == "all":
        return blocks
    first, second = part.positions()
    return blocks[..., first, second]


def outputs(program: SteerableProgram) -> int:
    """The size D of the kernel's matrices; 1 if outputs are invariant scalars."""
    found = program.space.outputs
    return 1 if set(found.irreps) == {trivial(found.group)} else found.dimension


def working_bytes(program: SteerableProgram, points: int) -> int:
    """Bytes for the pairs that run at once; raises MemoryLimitError if one pair is too large."""
    one = _pair_bytes(program, points)
    if one > _MEMORY_LIMIT:
        raise MemoryLimitError("one pair of inputs", one, _MEMORY_LIMIT, "take fewer points, irreps or rings")
    return max(one, min(_MEMORY, _MOST * one))


def _pair_bytes(program: SteerableProgram, points: int) -> int:
    widest = max(kind.dimension for kind in program.space.features.irreps)
    kernels, branches = 1, 0
    for op in flat(program.ops):
        if op.is_branching:
            branches += 1 if op.branches and op.joined else len(op.branches)
            continue
        widest = max(widest, op.widest(program.space.features.space))
        kernels = max(kernels, op.angular_kernels)
    ends = 4 * (outputs(program) * points) ** 2 if program.space.field else 0
    return 8 * ((points * widest) ** 2 * (3 * kernels + 2 * branches + 6) + ends)


def choice_of(program: SteerableProgram, engine: str | None) -> EngineChoice:
    """The reference engine, and a note that explains the choice."""
    return EngineChoice(REFERENCE, choose_where(lambda e: None if e is REFERENCE else WHY, engine).notes or (WHY,))


def _typed(x: Any, dtype: DType) -> _Side:
    """(x (N, P, channels), mask of existing points (N, P))."""
    values = jnp.asarray(getattr(x, "x", x)).astype(dtype)
    mask = getattr(x, "mask", None)
    return values, jnp.ones(values.shape[:2], dtype) if mask is None else jnp.asarray(mask).astype(dtype)


def _known_variances(program: SteerableProgram, x: jax.Array, present: jax.Array) -> _Known:
    """Variances before every nonlinearity, for every input."""
    batches = _batches(len(x), _at_once(program, x.shape[1], len(x)))
    parts = [_compiled_own(program, x[rows], present[rows]) for rows in batches]
    known = jax.tree.map(lambda *v: jnp.concatenate(v)[: len(x)], *parts)
    _check_norms(program, known)
    return known


def _check_norms(program: SteerableProgram, known: _Known) -> None:
    """Raise InvalidArgumentError if vectors are longer than the fitted range of the function of their norm."""
    nonlinear = [op for op in flat(program.ops) if op.needs_variances and not op.held]
    for op, found in zip(nonlinear, known, strict=True):
        if op.largest is None:
            continue
        for kind, v in found.items():
            longest = float(np.sqrt(np.trace(np.asarray(v), axis1=-2, axis2=-1).max(initial=0.0)))
            if not _DEVIATIONS * longest <= op.largest:
                raise InvalidArgumentError(
                    "largest",
                    op.largest,
                    f"{_DEVIATIONS * longest:.2g} or more, for features of root mean square norm {longest:.2g}",
                    "or scale the layer before NormNonlinearity by W_std",
                )
            _check_fit(op, kind, np.asarray(v))


def _check_fit(op: Norm, kind: Any, v: np.ndarray) -> None:
    """Raise InvalidArgumentError if the function of the norm was not fitted accurately enough for such short vectors.

    With errors of η of at most ε and of its slope of at most ε', the error of E[η²] is at most 2 min(ε, ε' ρ) √E[η²]
    plus the square of the minimum, for vectors of root mean square norm ρ.
    """
    norms = np.sqrt(np.trace(v, axis1=-2, axis2=-1).astype(np.float64))
    off, size = 2 * np.minimum(op.off[0], op.off[1] * norms), mean_square(op.coefficients, op.rates, v)
    with np.errstate(invalid="ignore"):
        close = off <= op.allowed * np.sqrt(size)
    if not close.all():
        raise InvalidArgumentError(
            "features",
            float(norms[~close].min()),
            "longer ones",
            "give NormNonlinearity a lower tolerance, or scale the layer before it by W_std",
            verb="have a root mean square norm of",
        )


def _of_pairs(
    program: SteerableProgram,
    sides: tuple[_Side, _Side],
    known: tuple[_Known, _Known],
    first: np.ndarray,
    second: np.ndarray,
    part: Part | None,
) -> np.ndarray:
    """NNGP and NTK of the pairs (x1[first], x2[second]), (2, pairs), or a part of (2, pairs, D, D)."""
    parts = []
    for rows in _batches(len(first), _at_once(program, max(side[0].shape[1] for side in sides), len(first))):
        chosen = [
            jax.tree.map(lambda v, i=index[rows]: v[i], side)
            for side, index in zip(zip(sides, known, strict=True), (first, second), strict=True)
        ]
        parts.append(_picked(part, np.asarray(_compiled_pairs(program, *chosen))))
    return np.concatenate(parts, axis=1)[:, : len(first)]


def _batches(count: int, step: int) -> list[np.ndarray]:
    """Indices in batches of `step`, the last padded with its last index, so that equal shapes compile once."""
    return [np.minimum(np.arange(i, i + step), count - 1) for i in range(0, count, step)]


def _at_once(program: SteerableProgram, points: int, count: int) -> int:
    """Number of pairs, of `count`, that run at once: a power of two, so that few programs are compiled."""
    most = min(_MOST, max(1, _MEMORY // _pair_bytes(program, points)))
    return min(1 << (int(most).bit_length() - 1), 1 << (count - 1).bit_length())


@partial(jax.jit, static_argnums=0)
def _compiled_own(program: SteerableProgram, x: jax.Array, present: jax.Array) -> _Known:
    return jax.vmap(lambda a, m: own_fields(program, a, m)[0])(x, present)


@partial(jax.jit, static_argnums=0)
def _compiled_pairs(program: SteerableProgram, one: _Sample, other: _Sample) -> jax.Array:
    def run(a: _Sample, b: _Sample) -> jax.Array:
        return _block(program, pair(program, a[0], b[0], a[1], b[1]))

    return jax.vmap(run, in_axes=0, out_axes=1)(one, other)


def _traced_blocks(program: SteerableProgram, sides: list[_Side]) -> jax.Array:
    """(2, N1, N2) or (2, N1, N2, D, D) inside a JAX program."""
    known = [jax.vmap(lambda a, m: own_fields(program, a, m)[0])(*side) for side in sides]
    a, b = (sides[0], known[0]), (sides[-1], known[-1])

    def one(first: _Sample) -> jax.Array:
        return jax.vmap(lambda other: _block(program, pair(program, first[0], other[0], first[1], other[1])), 0, 1)(b)

    return jax.vmap(one, 0, 1)(a)


def _block(program: SteerableProgram, fields: Fields) -> jax.Array:
    """NNGP and NTK of one pair, (2,) or (2, D, D): every copy of an irrep has the same block; other entries are zero.

    For a field (2, P, P) or (2, P D, P D), point by point.
    """
    if program.space.field:
        return jnp.stack([_at_points(program, fields, part) for part in range(2)])
    if outputs(program) == 1:
        k, theta = fields[trivial(program.space.outputs.group)]
        return jnp.stack([k[0, 0, 0, 0], theta[0, 0, 0, 0]])
    sides = []
    for part in range(2):
        blocks = [fields[kind][part][0, :, 0, :] for n, kind in program.space.outputs.entries for _ in range(n)]
        sides.append(jax.scipy.linalg.block_diag(*blocks))
    return jnp.stack(sides)


def _at_points(program: SteerableProgram, fields: Fields, part: int) -> jax.Array:
    """K or Θ between all points and components."""
    if outputs(program) == 1:
        return fields[trivial(program.space.outputs.group)][part][:, 0, :, 0]
    first = fields[program.space.outputs.irreps[0]][part]
    size = program.space.outputs.dimension
    found = jnp.zeros((first.shape[0], size, first.shape[2], size), first.dtype)
    for kind, _, at in program.space.outputs.parts():
        for start in range(at.start, at.stop, kind.dimension):
            here = slice(start, start + kind.dimension)
            found = found.at[:, here, :, here].set(fields[kind][part])
    return found.reshape((first.shape[0] * size, first.shape[2] * size))
