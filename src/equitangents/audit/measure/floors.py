"""The error that an equivariant model would show all the same: interpolation, rounding, and the model's own noise.

Interpolation, for elements that resample:
  round trip   ‖f(ρ(g⁻¹)ρ(g)x) − f(x)‖ / ‖f(x)‖, what turning forth and back does to f
  reference    ‖f(ρ(g)x) − f(ρ′(g)x)‖ / ‖f(x)‖, ρ′ with splines of order 5 in place of 3
Rounding: the model against itself in double precision; else what inputs changed by one rounding do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.audit.adapters.model import Answer
from equitangents.audit.adapters.outputs import chosen
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.trees import Inputs, Shared
from equitangents.audit.measure.task import Task, check_same_shapes, eps, relative
from equitangents.audit.report.sections import FloatFloor
from equitangents.errors import EquitangentsError

ROWS = 64
FACTOR = 2.0
"""An error up to this many floors is explained by them."""
UNINFORMATIVE = 0.25
"""A floor above this hides too much for a model to be called equivariant."""
_CHANCE = 1000.0  # roundings by which two evaluations may differ: parallel sums on accelerators do
_PERTURBATION_FACTOR = 8.0  # layers round their sums, too, not only their inputs


@dataclass(frozen=True, eq=False)
class Floors:
    """Floors on some rows: (E, n) tables, nan where an element is exact or there is no reference."""

    round_trip: Float[np.ndarray, "E n"]
    reference: Float[np.ndarray, "E n"]
    rounding: FloatFloor
    noise: float
    deterministic: bool
    batch_independent: bool

    @property
    def of_elements(self) -> Float[np.ndarray, " E"]:
        """The floor of every element: the larger resampling floor, two roundings, and the noise."""
        return self.table.mean(axis=1)

    @property
    def table(self) -> Float[np.ndarray, "E n"]:
        """The same for every row."""
        resampled = np.fmax(np.nan_to_num(self.round_trip), np.nan_to_num(self.reference))
        return resampled + self.always

    @property
    def always(self) -> float:
        """What is there without interpolation: two roundings and the noise."""
        return 2 * self.rounding.value + self.noise


def measure_floors(task: Task, x: Inputs, actions: list[LeafAction | None]) -> Floors:
    """Floors on inputs x, `ROWS` of them at most."""
    x = x.subset(np.arange(min(x.n, ROWS)))
    y = task.evaluate(x)
    tolerance = _CHANCE * eps(y.dtype)
    backwards = np.arange(x.n)[::-1]
    reversed_y = task.evaluate(x.subset(backwards))
    mixing = float(np.mean(relative([v[backwards] for v in reversed_y.leaves], y.leaves)))
    # the same outputs in another order: neither chance nor the rest of the batch matters, and once more tells nothing
    same = mixing <= tolerance
    noise = 0.0 if same else float(np.mean(relative(task.evaluate(x).leaves, y.leaves)))
    deterministic = noise <= tolerance
    rounding = float_floor(task, x, y, deterministic)
    round_trip, reference = resampling(task, x, y, actions)
    return Floors(
        round_trip=round_trip,
        reference=reference,
        rounding=rounding,
        noise=0.0 if deterministic else noise,
        deterministic=deterministic,
        batch_independent=mixing <= tolerance or not deterministic,
    )


def unmeasured_floors(task: Task, dtype: np.dtype) -> Floors:
    """What stands in for floors of an audit that was stopped before them: rounding alone, assumed."""
    none = np.full((len(task.elements), 1), np.nan)
    rounding = FloatFloor(_PERTURBATION_FACTOR * eps(dtype), "none")
    return Floors(none, none, rounding, noise=0.0, deterministic=True, batch_independent=True)


def resampling(
    task: Task, x: Inputs, y: Answer, actions: list[LeafAction | None]
) -> tuple[Float[np.ndarray, "E n"], Float[np.ndarray, "E n"]]:
    """(round trip, reference) for every element and row of x; nan for exact elements."""
    contract, symmetry = task.contract, task.contract.symmetry
    round_trip = np.full((len(task.elements), x.n), np.nan)
    reference = round_trip.copy()
    better = contract.more_accurate()
    for k, g in enumerate(task.elements):
        inexact_outputs = [a for a in actions if a is not None and not a.moves_exactly(g)]
        if contract.moves_exactly(g) and not inexact_outputs:
            continue
        moved = contract.move(g, x.leaves)
        back = task.evaluate(x.replaced(contract.move(symmetry.inverse(g), moved)))
        check_same_shapes(y, back, symmetry.label(g))
        round_trip[k] = relative(back.leaves, y.leaves)
        if inexact_outputs:
            there = [
                v if a is None else a.act(symmetry.inverse(g), a.act(g, v))
                for a, v in zip(actions, y.leaves, strict=True)
            ]
            round_trip[k] += relative(there, y.leaves)
        if better is not None and not contract.moves_exactly(g):
            plain, fine = task.evaluate(x.replaced(moved)), task.evaluate(x.replaced(better.move(g, x.leaves)))
            reference[k] = relative(fine.leaves, plain.leaves, y.leaves)
    return round_trip, reference


def float_floor(task: Task, x: Inputs, y: Answer, deterministic: bool) -> FloatFloor:
    """What rounding does to the outputs for x, relative to their norms, mean over inputs."""
    unit = eps(y.dtype)
    if not deterministic:  # chance would be taken for rounding
        return FloatFloor(_PERTURBATION_FACTOR * unit, "none")
    if y.dtype != np.float64:
        double = task.model.double()
        if double is not None:
            wide = [a if isinstance(a, Shared) or a.dtype.kind != "f" else a.astype(np.float64) for a in x.leaves]
            exact = _attempt(task, x.replaced(wide), lambda x: chosen(double(x), task.model.select))
            if exact is not None and exact.dtype == np.float64:
                return FloatFloor(max(float(np.mean(relative(y.leaves, exact.leaves))), unit), "float64")
    if not any(not isinstance(a, Shared) and a.dtype.kind == "f" for a in x.leaves):
        return FloatFloor(_PERTURBATION_FACTOR * unit, "none")
    rng = np.random.default_rng(task.seed)
    shaken = []
    for a in x.leaves:
        if isinstance(a, Shared) or a.dtype.kind != "f":
            shaken.append(a)
        else:
            step = max(unit, float(np.finfo(a.dtype).eps))
            shaken.append((a * (1 + step * rng.choice([-1.0, 1.0], a.shape))).astype(a.dtype))
    response = float(np.mean(relative(task.evaluate(x.replaced(shaken)).leaves, y.leaves)))
    return FloatFloor(_PERTURBATION_FACTOR * (response + unit), "perturbation")


def _attempt(task: Task, x: Inputs, run: object) -> Answer | None:
    """The outputs in double precision, or None where the model does not take it."""
    try:
        return task.evaluate(x, run)  # type: ignore[arg-type]
    except EquitangentsError:
        raise
    except Exception:  # whatever a foreign model raises over a dtype
        return None
