"""Noise floors, the error that an equivariant model would show: interpolation, rounding, and the model's own noise.

Interpolation, for elements that resample:
  round trip   ‖f(ρ(g⁻¹)ρ(g)x) − f(x)‖ / ‖f(x)‖, the change of f by a rotation and its inverse
  reference    ‖f(ρ(g)x) − f(ρ′(g)x)‖ / ‖f(x)‖, ρ′ with splines of order 5 in place of 3
Rounding: the model against itself in double precision; else what inputs changed by one rounding do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from equitangents.audit.adapters.model import Answer, chosen
from equitangents.audit.contract.leaf_actions import Actions
from equitangents.audit.contract.trees import InputLeaves
from equitangents.audit.measure.task import AuditTask, check_same_shapes, eps
from equitangents.audit.report.sections import FloatFloor
from equitangents.errors import EquitangentsError
from equitangents.metrics.measure import ratio

ROWS = 64
UNINFORMATIVE = 0.1
"""A noise floor above this hides clear violations, so that nothing is decided."""
ROUNDING = 1e-3
"""Rounding above this hides violations, so that nothing is decided."""
_SINGLE = float(np.finfo(np.float32).eps)
_SMOOTH = 1e-3  # a smooth function changes less than this by one rounding in single precision
_WIDE: dict[str, Any] = {"f": np.float64, "c": np.complex128}
_DROWNED = 0.2
_LARGE = 2**14  # numbers per input, above which few inputs are evaluated in double precision
_FEW, _FEW_QUICK = 8, 4
_FINE, _BENT = 2.0**-28, 0.25  # double precision follows a change so fine, and one twice as large, in proportion
_MEASURED = 8  # inputs whose mean rounding represents that of other inputs
_CHANCE = 1000.0  # roundings by which two evaluations may differ, as parallel sums on accelerators do
_TIMES = 4  # copies of the inputs, each changed by one rounding
PERTURBATION = 8.0  # layers round their sums as well as their inputs


@dataclass(frozen=True, eq=False)
class OutputNoiseFloors:
    """Noise floors of each output on some rows, as norms; class numbers count 1 where they differ."""

    resampled: Float[np.ndarray, "outputs E n"]
    """The larger of round trip and reference; 0 for exact elements."""
    sizes: Float[np.ndarray, "outputs n"]
    """‖f(x)‖, to which relative floors are relative."""
    rounding: Float[np.ndarray, "outputs n"]
    twice: Float[np.ndarray, "outputs n"]
    """Difference of two evaluations; 0 for deterministic models."""
    drowned: Bool[np.ndarray, " outputs"]
    """Whether rounding changes the output of most inputs by a large part of its size."""
    rows: Int[np.ndarray, " n"]
    """Rows of the sample that they were measured on."""
    float_floor: FloatFloor
    noise: float
    """The mean of `twice`, relative to outputs."""
    deterministic: bool
    batch_independent: bool

    @property
    def always(self) -> Float[np.ndarray, "outputs n"]:
        """The floor without interpolation: two roundings and the noise."""
        return 2 * self.rounding + self.twice

    @property
    def roundings(self) -> Float[np.ndarray, " outputs"]:
        """Root mean square rounding of every output."""
        return np.sqrt(np.mean(self.rounding**2, axis=1))

    @property
    def of_elements(self) -> Float[np.ndarray, " E"]:
        """Relative noise floor of every element: resampling, two roundings and the noise, mean over rows."""
        resampled = np.max(ratio(self.resampled, self.sizes[:, None]), axis=0).mean(axis=1)
        return resampled + 2 * self.float_floor.value + self.noise


def measure_floors(task: AuditTask, actions: Actions, most: int = ROWS) -> OutputNoiseFloors:
    """Noise floors on at most `most` of the task's inputs."""
    rows = task.rows(most)
    x = task.x.subset(rows)
    y = task.evaluate(x)
    sizes = actions.sizes(y.leaves)
    relative = lambda a: float(np.mean(np.max(ratio(a, sizes), axis=0)))
    tolerance = _CHANCE * eps(y.dtype)
    backwards = np.arange(x.n)[::-1]
    twice = actions.differences([v[backwards] for v in task.evaluate(x.subset(backwards)).leaves], y.leaves)
    mixing = relative(twice)
    # the same outputs in another order: neither chance nor the rest of the batch matters
    if not mixing <= tolerance:
        twice = actions.differences(task.evaluate(x).leaves, y.leaves)
    noise = relative(twice)
    deterministic = noise <= tolerance
    method, response, rounding = rounding_of(task, x, y, sizes, deterministic, actions)
    return OutputNoiseFloors(
        resampled=resampling(task, x, y, actions),
        sizes=sizes,
        rounding=rounding,
        twice=np.zeros_like(twice) if deterministic else twice,
        drowned=_drowned(response, sizes),
        rows=rows,
        float_floor=FloatFloor(relative(rounding), method),
        noise=0.0 if deterministic else noise,
        deterministic=deterministic,
        batch_independent=mixing <= tolerance or not deterministic,
    )


def resampling(task: AuditTask, x: InputLeaves, y: Answer, actions: Actions) -> Float[np.ndarray, "outputs E n"]:
    """The larger of round trip and reference for every output, element and row of x, as norms; 0 for exact elements."""
    contract, group = task.contract, task.contract.group
    errors = np.zeros((len(y.leaves), len(task.elements), x.n))
    better = contract.more_accurate()
    for k, g in enumerate(task.elements):
        exact, exact_outputs = contract.inputs.moves_exactly(g), actions.moves_exactly(g)
        if exact and exact_outputs:
            continue
        moved = contract.move(g, x)
        back = task.evaluate(contract.move(group.inverse(g), moved))
        check_same_shapes(y, back, contract.label(g))
        errors[:, k] = actions.differences(back.leaves, y.leaves)
        if not exact_outputs:
            there = actions.act(group.inverse(g), actions.act(g, y.leaves))
            errors[:, k] += actions.differences(there, y.leaves)
        if better is not None and not exact:
            fine, plain = task.evaluate(better.move(g, x)), task.evaluate(moved)
            errors[:, k] = np.maximum(errors[:, k], actions.differences(fine.leaves, plain.leaves))
    return errors


def rounding_of(
    task: AuditTask, x: InputLeaves, y: Answer, sizes: np.ndarray, deterministic: bool, actions: Actions
) -> tuple[Literal["float64", "perturbation", "none"], np.ndarray, Float[np.ndarray, "outputs n"]]:
    """(method, observed change of every output for x by rounding, its upper estimate), as norms."""
    unit = eps(y.dtype)
    exact = double_of(task, x, actions, y.dtype) if deterministic and y.dtype != np.float64 else None
    if exact is not None:
        few = len(exact[0].leaves[0])
        seen = actions.differences([v[:few] for v in y.leaves], exact[0].leaves)
        share = np.mean(ratio(seen, sizes[:, :few]), axis=1, keepdims=True)
        response = np.concatenate([seen, share * sizes[:, few:]], axis=1)
        whole = np.sqrt(np.mean(response**2, axis=1, keepdims=True))
        least = unit * sizes if response.shape[1] < _MEASURED or not response.any() else whole
        return "float64", response, np.maximum(response, least)
    # for a random model, chance would be taken for rounding
    if not deterministic or not any(a.dtype.kind in _WIDE for a in x.batches):
        return "none", 0.0 * sizes, PERTURBATION * unit * sizes
    response = actions.differences(task.evaluate(_shaken(x, unit, task.settings.seed)).leaves, y.leaves)
    if unit < _SINGLE and not response.any():  # perhaps computed in single precision, whatever the returned type
        coarse = actions.differences(task.evaluate(_shaken(x, _SINGLE, task.settings.seed)).leaves, y.leaves)
        jumps = ratio(coarse, sizes).mean(axis=1) > _SMOOTH  # as a tree does where an input lies on a threshold
        response = np.where((jumps & ~_drowned(coarse, sizes))[:, None], 0.0, coarse)
    return "perturbation", response, PERTURBATION * (response + unit * sizes)


def jitter(task: AuditTask, x: InputLeaves, actions: Actions) -> Float[np.ndarray, "outputs n"]:
    """Largest difference of outputs for inputs that are changed by one rounding, as norms.

    Unlike `rounding_of` it leaves out f(x): a value that f takes at a single point is not rounding.
    """
    unit = eps(task.evaluate(x).dtype)
    ys = [task.evaluate(_shaken(x, unit, task.settings.seed + s)).leaves for s in range(_TIMES)]
    return np.max([actions.differences(a, b) for i, a in enumerate(ys) for b in ys[:i]], axis=0)


def in_double(task: AuditTask, x: InputLeaves) -> int:
    """Number of inputs evaluated in double precision: few large ones, which take ten times as long or more."""
    numbers = sum(a[:1].size for a in x.batches)
    return min(x.n, x.n if numbers <= _LARGE else _FEW_QUICK if task.settings.quick else _FEW)


def widened(x: InputLeaves) -> InputLeaves:
    """x in double precision."""
    return x.mapped(lambda a: a.astype(_WIDE.get(a.dtype.kind, a.dtype)))


def double_of(
    task: AuditTask, x: InputLeaves, actions: Actions, dtype: np.dtype
) -> tuple[Answer, Callable[[Any], Any]] | None:
    """(outputs of the first inputs in double precision, the function that computes them).

    None if the model cannot be cast, or rounds to a narrower type inside.
    """
    x = x.subset(np.arange(in_double(task, x)))
    double = task.model.double() if dtype != np.float64 else task.model.run
    if double is None:
        return None
    run = lambda x: chosen(double(x), task.model.select)
    wide = widened(x)
    exact = _attempt(task, wide, run)
    if exact is None or exact.dtype != np.float64:
        return None
    # as many inputs as before, for which the model is compiled: half of them, changed by one step and by two
    count = max(x.n, 2)
    half = count // 2
    rows, steps = np.arange(count) % half, _FINE * np.where(np.arange(count) < half, 1.0, 2.0)
    signs = np.random.default_rng(task.settings.seed)

    def change(a: np.ndarray) -> np.ndarray:
        if a.dtype.kind not in _WIDE:
            return a[rows]
        v = a[:half] * signs.choice([-1.0, 1.0], a[:half].shape)
        return a[rows] + steps.reshape(-1, *(1,) * (a.ndim - 1)) * v[rows]

    changed = _attempt(task, wide.mapped(change), run)
    if changed is None:
        return None
    here, once, twice = ([v[part] for v in leaves] for leaves, part in (
        (exact.leaves, slice(half)), (changed.leaves, slice(half)), (changed.leaves, slice(half, 2 * half))
    ))  # fmt: skip
    whole = actions.differences(twice, here)
    bent = actions.differences(twice, [2 * a - b for a, b in zip(once, here, strict=True)])
    fine = [
        row.any() and np.median(off[row] / by[row]) <= _BENT
        for off, by, row in zip(bent, whole, whole > 0, strict=True)
    ]
    return (exact, run) if all(fine) else None


def _drowned(response: Float[np.ndarray, "outputs n"], sizes: Float[np.ndarray, "outputs n"]) -> np.ndarray:
    """Whether the middle input's output is changed by `_DROWNED` of its size, or is 0."""
    return np.median(np.where(sizes > 0, ratio(response, sizes), 1.0), axis=1) >= _DROWNED


def _shaken(x: InputLeaves, unit: float, seed: int) -> InputLeaves:
    """x with every number changed by one rounding, up or down."""
    rng = np.random.default_rng(seed)

    def shaken(a: np.ndarray) -> np.ndarray:
        if a.dtype.kind not in _WIDE:
            return a
        step = max(unit, float(np.finfo(a.dtype).eps))
        return (a * (1 + step * rng.choice([-1.0, 1.0], a.shape))).astype(a.dtype)

    return x.mapped(shaken)


def _attempt(task: AuditTask, x: InputLeaves, run: object) -> Answer | None:
    """The outputs in double precision, or None if the model does not accept it."""
    try:
        return task.evaluate(x, run)  # type: ignore[arg-type]
    except EquitangentsError:
        raise
    except Exception:  # whatever a foreign model raises over a dtype
        return None
