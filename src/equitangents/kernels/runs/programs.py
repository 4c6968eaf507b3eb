"""Kernels of programs: on positions, with kernel fields, here; on other spaces by the other modules.

Chooses an engine, checks memory, and prepares inputs.

Inputs of very different norm are computed such that they keep their digits (`scales`).

Nearly parallel inputs before a kink lose digits if a compiled engine has no scaling: in networks with a smooth
nonlinearity or layer normalisation, before the kink or after it; nearly opposite ones in all that have windows. A bias
or a smooth nonlinearity leaves these a small angle θ, which the kink reads. D and the variances hold θ² to the rounding
ε D/√(q1 q2), so that the error of θ is that over θ. Pairs of inputs whose error may be above `TARGET` are recomputed in
double precision; those for which it is still above, by the reference engine, which computes with the angle. Positions
that are parallel in inputs that are not keep an error of √ε.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.kernels import scales
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.engines import Engine, EngineChoice, choose
from equitangents.kernels.engines.protocol import Plan
from equitangents.kernels.engines.select import REFERENCE
from equitangents.kernels.plans import plan as plan_of
from equitangents.kernels.program import Positions, Program
from equitangents.kernels.projected import EquivariantOutputs, RotationMoves, numbers, orbit_sums, resolve
from equitangents.kernels.result import (
    READOUT,
    KernelField,
    Kernels,
    Part,
    check_field,
    check_result,
    result,
    result_at,
)
from equitangents.kernels.rotations import Resolution, Sphere
from equitangents.kernels.runs import rotations, steerable, structured
from equitangents.kernels.scales import Law, Values, has_bias, law_of, unit_bias, with_biases, with_derivatives_of
from equitangents.kernels.steerable import Points
from equitangents.kernels.structured import StructuredPositions
from equitangents.memory import check_fits
from equitangents.structured import Inputs

_LITTLE = 1 << 20  # bytes that any process has which runs this: to ask the system takes as long as so small a kernel


def on_positions(
    program: Program,
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    engine: str | None = None,
    part: Part | None = None,
    own: bool = False,
) -> Kernels | KernelField:
    """`Kernels` of `program` between inputs x1, (N1, *positions, C), and x2 (None: x1 with itself).

    With `part` the `KernelField` at these pairs of positions. `own`: of each input of x1 with itself, each (N,) or
    (N, *part.tail), at the cost of N pairs. NumPy arrays give NumPy arrays in their own precision. JAX arrays,
    also traced ones, give JAX arrays, and are differentiable. Raises MemoryLimitError if the result cannot fit in
    memory.
    """
    dtype = precision.working_dtype(x1, x2)
    traced = precision.is_traced(x1) or precision.is_traced(x2)
    if own and traced:  # one input after another
        run = partial(on_positions, program, engine=engine, part=part)
        at = (slice(None), 0, slice(None), 0) if part is not None and part.crossed else (slice(None), 0, 0)
        return jax.tree.map(lambda k: k[at], jax.lax.map(lambda one: run(one[None]), x1))
    n2 = 1 if own else len(x1 if x2 is None else x2)
    if part is not None and not traced:
        check_field(part, len(x1), n2, dtype, 0)
    # Fields of traced inputs are the reference engine's, so that they have derivatives.
    choice = EngineChoice(REFERENCE) if traced and part is not None else choose(program, engine, dtype, part)
    chosen = choice.engine
    plan, law, backends, doubt = _prepared(program, chosen, x1.shape[-1], dtype, part, own)
    notes = (*plan.notes, *choice.notes)
    if not (own if part is None else traced):
        _check_memory(program, chosen, x1, x2, n2, dtype, part)
    nngp: ArrayLike
    ntk: ArrayLike
    with precision.scope(dtype):
        if traced:
            nngp, ntk = _traced(chosen, program, x1, x2, dtype, part)
        else:
            arrays = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            nngp, ntk, added = scales.all_pairs(law, backends, *arrays, part or READOUT, own)
            notes = (*notes, *added)
            if doubt is not None:
                nngp, ntk, mended = _mend(
                    doubt, partial(_of_pairs, program, chosen, doubt, *arrays), *arrays, nngp, ntk
                )
                if mended:
                    notes = (*notes, f"{mended} pairs of nearly parallel or opposite inputs in double precision")
        facts = {"engine": chosen.name, "form": plan.form, "notes": notes}
        return result_at((x1, x2), nngp, ntk, part, between=not own, **facts)


_RUNS: dict[type, Callable[..., Any]] = {
    Positions: on_positions,
    StructuredPositions: structured.compute,
    Points: steerable.compute,
    Sphere: rotations.compute,
}
_CHOICES: dict[type, Callable[..., EngineChoice]] = {
    StructuredPositions: structured.choice_of,
    Points: steerable.choice_of,
    Sphere: rotations.choice_of,
}


def compute(
    program: Program[Any],
    x1: Inputs,
    x2: Inputs | None = None,
    engine: str | None = None,
    part: Part | None = None,
    own: bool = False,
) -> Any:
    """`Kernels` between x1 and x2 (None: x1 with itself), each (N1, N2); with `part` the `KernelField` there.

    `own`: of each input of x1 with itself, each (N,), or (N, *part.tail). For d equivariant outputs kernels are
    (N1, N2, d, d) and (N, d, d).
    """
    if isinstance(program.space, EquivariantOutputs):
        return _equivariant_outputs(program, x1, x2, engine, own)
    return _RUNS[type(program.space)](program, x1, x2, engine, part, own)


def engine_for(program: Program[Any], dtype: DType) -> str:
    """The name of the engine that will compute kernels of inputs of `dtype` here."""
    if isinstance(program.space, EquivariantOutputs):
        return engine_for(numbers(program), dtype)
    if isinstance(program.space, Positions):
        return choose(program, None, dtype).engine.name
    name: str = _CHOICES[type(program.space)](program, None).engine.name
    return name


def _equivariant_outputs(
    program: Program[EquivariantOutputs], x1: Any, x2: Any, engine: str | None, own: bool
) -> Kernels:
    """NNGP and NTK between x1 and x2 (None: x1 with itself, at half the cost), each (N1, N2, d, d).

    `own`: of each input of x1 with itself, each (N, d, d).
    """
    flat, dtype, d = numbers(program), precision.working_dtype(x1, x2), program.space.dimension
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    check_result(x1, x2, dtype, 0)
    check_fits(
        f"a kernel of {n1} × {n2} inputs and {d} × {d} outputs",
        4 * 8 * n1 * n2 * d * d,
        "compute fewer inputs at a time",
    )
    kernel = lambda a, b: compute(flat, a, b, engine)
    moves, found = program.space.moves, Resolution(0, None, None)
    if isinstance(moves, RotationMoves):
        found = resolve(moves, kernel, x1, x2)
    nodes = moves.nodes(found.value)
    sums = orbit_sums(flat, kernel, nodes, x1, x2, own)
    nngp, ntk = (k + program.space.constant.array for k in (sums.nngp, sums.ntk))
    with precision.scope(dtype):
        nngp, ntk = nngp.astype(dtype), ntk.astype(dtype)
    return result(
        (x1, x2),
        nngp,
        ntk,
        engine=sums.term.engine,
        form=sums.term.form,
        notes=(*sums.term.notes, *(() if found.note is None else (found.note,))),
        error_estimate=found.error,
        resolution=found.value or None,
    )


def _check_memory(
    program: Program, engine: Engine, x1: ArrayLike, x2: ArrayLike | None, n2: int, dtype: np.dtype, part: Part | None
) -> None:
    """Raise MemoryLimitError if a run does not fit in memory."""
    sizes = x1.shape[-1], len(x1), n2, dtype.itemsize
    if part is not None:
        working = engine.working_bytes(program, *sizes, part)
        check_field(part, len(x1), n2, dtype, working, any(isinstance(x, jax.Array) for x in (x1, x2)))
        return
    working = engine.working_bytes(program, *sizes)
    if working + 4 * len(x1) * n2 * dtype.itemsize > _LITTLE:
        check_result(x1, x2, dtype, working)


@lru_cache(maxsize=256)
def _prepared(
    program: Program, engine: Engine, channels: int, dtype: np.dtype, part: Part | None, own: bool
) -> tuple[Plan, Law, scales.Backends, bool | None]:
    """Data for all calls of a program on an engine, independent of inputs and process state.

    The last entry is `parallel_too`, for an engine that may lose small angles and computes at no higher precision.
    """
    plan = engine.plan(program) if part is None else engine.field_plan(program, part).plan
    keeps = engine.carries_angles or own or part is not None
    doubt = None if keeps else parallel_too(program)
    if doubt is not None and engine.computed_in(program, channels, dtype.name) != dtype.name:
        doubt = None
    return plan, law_of(program), _backends(program, engine, part, own), doubt


def _of_pairs(
    program: Program,
    engine: Engine,
    parallel: bool,
    x1: np.ndarray,
    x2: np.ndarray | None,
    first: np.ndarray,
    second: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), (P,), of pairs of input indices, in double precision: by the same engine for single-precision
    inputs, if it then resolves their angle.
    """
    a, b = x1[first].astype(np.float64), (x1 if x2 is None else x2)[second].astype(np.float64)
    nngp, ntk = np.full(len(a), np.nan), np.full(len(a), np.nan)
    left = np.ones(len(a), bool)
    with precision.scope(np.float64):
        if x1.dtype == np.float32 and engine.obstacle(program, np.float64) is None:
            f, g = (x.reshape((len(x), -1)) for x in (a, b))
            left = _is_near(f, _norms(f), g, _norms(g), parallel, _rounding(np.float64, np.float32))
            backends = _backends(program, engine, None, own=False)
            for i in np.unique(first[~left]):
                here = np.flatnonzero((first == i) & ~left)
                *values, _ = scales.all_pairs(law_of(program), backends, a[here[:1]], b[here])
                nngp[here], ntk[here] = (of_pairs[0] for of_pairs in values)
        nngp[left], ntk[left] = REFERENCE.listed(program, a[left], b[left])
    return nngp, ntk


def _backends(program: Program, engine: Engine, part: Part | None, own: bool) -> scales.Backends:
    """Functions for kernels of NumPy arrays: by an engine, in their own precision, and by the reference engine."""
    leaves_out = part is None and engine.leaves_out(program)
    able = engine if engine.any_norms else REFERENCE
    of_part = () if part is None else (part,)

    def own_kernels(x: np.ndarray, factor: float = 1) -> scales.Pair:
        with precision.scope(x.dtype):
            return engine.diagonal(program if factor == 1 else with_biases(program, factor), x, *of_part)

    def any_norms(x1: np.ndarray, x2: np.ndarray | None, factor: float) -> scales.Pair:
        return able.kernels(program if factor == 1 else with_biases(program, factor), x1, x2, part, any_norms=True)

    return scales.Backends(
        engine=(lambda x, _: own_kernels(x)) if own else lambda x1, x2: engine.kernels(program, x1, x2, *of_part),
        any_norms=(lambda x, _, factor: own_kernels(x, factor)) if own else any_norms,
        checked=engine.checks_kernels and not leaves_out and not own,
        beyond=partial(REFERENCE.listed, program) if leaves_out else None,
    )


def _traced(
    engine: Engine, program: Program, x1: ArrayLike, x2: ArrayLike | None, dtype: DType, part: Part | None
) -> Values:
    """Kernels of traced inputs, or their field; scales are known only when the program runs."""

    def by_angles(x1: ArrayLike, x2: ArrayLike | None = None) -> Values:
        run = lambda a, b: REFERENCE.traced(program, a, b, part)
        return scales.traced_pairs(law_of(program), run, x1, x2)

    def compiled(x1: ArrayLike, x2: ArrayLike | None = None) -> Values:
        found = engine.traced(program, x1, x2)
        return scales.where_missing(found, lambda: by_angles(x1, x2)) if engine.leaves_out(program) else found

    run = by_angles if engine.differentiable else with_derivatives_of(by_angles, compiled)
    return run(*(x.astype(dtype) for x in (x1, x2) if x is not None))


Pairs = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

TARGET = {"float32": 2e-6, "float64": 3e-14}  # of angles
_ERRORS = 3  # roundings that D has gathered
_ROWS = 1 << 18  # entries of a block of cosines
_PAIRS = 1 << 20  # products of entries at a time
_ROUGH = 1e-5  # of cosines in single precision
_RANGE = 1e-60, 1e60  # of mean squares: beyond, their products leave the range of doubles


def _mend(
    parallel: bool, again: Pairs, x1: np.ndarray, x2: np.ndarray | None, nngp: Any, ntk: Any
) -> tuple[Any, Any, int]:
    """(NNGP, NTK, number of pairs), nearly opposite pairs recomputed, and with `parallel` nearly parallel ones, too.

    `again(i, j)` recomputes pairs from both inputs' indices (P,).
    """
    if not len(x1) or (x2 is not None and not len(x2)):
        return nngp, ntk, 0
    found = 0
    for i, j in _near(x1, x2, parallel):
        if not len(i):
            continue
        if not found:
            nngp, ntk = np.array(nngp), np.array(ntk)
        found += len(i)
        k, theta = again(i, j)
        known = np.isfinite(k) & np.isfinite(theta)
        for out, values in ((nngp, k), (ntk, theta)):
            out[i[known], j[known]] = values[known]
            if x2 is None:
                out[j[known], i[known]] = values[known]
    return nngp, ntk, found


@lru_cache(maxsize=256)
def parallel_too(program: Program) -> bool | None:
    """Whether parallel inputs may lose digits as well as opposite ones, for an engine with scaling of whole networks.

    None: neither may.
    """
    steps = plan_of(program)
    dense = steps.form == "offsets" and not steps.last.steps and steps.single and len(set(steps.labels.array)) == 1
    ops = steps.steps
    kinks = [n for n, op in enumerate(ops) if op.nonlinearity is not None and traits_of(op.nonlinearity).bent]
    before = ops[: max(kinks, default=0)]
    biased = any(map(has_bias, before))
    curved = [n for n, op in enumerate(ops) if op.nonlinearity is not None and traits_of(op.nonlinearity).curved]
    mixed = bool(kinks and curved)
    behind = mixed and kinks[0] < curved[-1]  # then inputs are not taken at norm 1
    fixed_bias = unit_bias(ops) is not None
    if not (biased or mixed) or (dense and fixed_bias):
        return None
    return (biased or dense or behind) and not fixed_bias


def _near(x1: np.ndarray, x2: np.ndarray | None, parallel: bool = True) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield index arrays (i, j) of nearly parallel pairs, in blocks; i < j if x2 is None.

    Only nearly opposite ones, unless `parallel`. Vectors of norm 1 at the distance B have the cosine 1 - B²/2, which is
    first checked in single precision.
    """
    x1 = x1.reshape((len(x1), -1))
    x2 = x1 if (symmetric := x2 is None) else x2.reshape((len(x2), -1))
    norms1 = _norms(x1)
    norms2 = norms1 if symmetric else _norms(x2)
    if not norms1.any() or not norms2.any():
        return
    ratio = min(norms1[norms1 > 0].min() / norms2.max(), norms2[norms2 > 0].min() / norms1.max())
    rounding = _rounding(x1.dtype)
    least, most = (1 - _angle(ratio, sign, rounding) ** 2 / 2 - _ROUGH for sign in (1, -1))
    units1 = _units(x1, norms1)
    units2 = units1 if symmetric else _units(x2, norms2)
    rows, products = max(1, _ROWS // len(x2)), max(1, _PAIRS // x1.shape[1])
    for at in range(0, len(x1), rows):
        after = at if symmetric else 0
        cosines = units1[at : at + rows] @ units2[after:].T
        near = cosines <= -most
        if parallel:
            near |= cosines >= least
        i, j = np.nonzero(np.triu(near, 1) if symmetric else near)
        for part in range(0, len(i), products):
            a, b = i[part : part + products] + at, j[part : part + products] + after
            close = _is_near(x1[a], norms1[a], x2[b], norms2[b], parallel, rounding)
            yield a[close], b[close]


def _is_near(
    f: np.ndarray, norms1: np.ndarray, g: np.ndarray, norms2: np.ndarray, parallel: bool, rounding: float
) -> np.ndarray:
    """Mask of pairs of rows whose rounding of D over the angle exceeds the target; false where D is exactly 0."""
    both = (norms1 > 0) & (norms2 > 0)
    one, other = (np.where(both, norms, 1) for norms in (norms1, norms2))
    f, g = (np.asarray(x, np.float64) / norms[:, None] for x, norms in ((f, one), (g, other)))
    sign = np.where(np.einsum("pc,pc->p", f, g) < 0, -1.0, 1.0)
    angle = np.linalg.norm(f - sign[:, None] * g, axis=1)
    return both & (angle < _angle(one / other, sign, rounding)) & (parallel | (sign < 0))


def _norms(x: np.ndarray) -> np.ndarray:
    """Norms of rows; 0 for inputs that are out of range."""
    square = np.einsum("nc,nc->n", x, x, dtype=np.float64)
    usable = (square > _RANGE[0]) & (square < _RANGE[1])
    return np.where(usable, np.sqrt(np.where(usable, square, 1)), 0)


def _units(x: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Vectors of norm 1 in single precision, 0 for zero norms."""
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.asarray(x * scale[:, None], np.float32)


def _angle(ratio: Any, sign: Any, rounding: float) -> Any:
    """The angle below which rounding matters, for this ratio of norms, parallel (`sign` 1) or opposite (-1)."""
    return rounding * (ratio + 1 / ratio - 2 * sign)  # times D/√(q1 q2)


@lru_cache(maxsize=4)
def _rounding(dtype: DType, of: DType | None = None) -> float:
    """Rounding of D in `dtype`, over the target for angles in the precision `of` (default: `dtype`)."""
    return _ERRORS * float(np.finfo(dtype).eps) / TARGET[np.dtype(of or dtype).name] / 4
