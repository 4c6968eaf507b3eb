"""The model along orbits: errors ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖/‖f(x)‖, and the signal g ↦ ρ_Y(g)⁻¹f(ρ_X(g)x).

An equivariant function's signal is constant. One pass over the data, every batch along its whole orbit, so that
splines are filtered once and no orbit is kept but those of `kept` rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from equitangents.actions.vectors import LastAxisPermutation
from equitangents.audit.contract.leaf_actions import LeafAction, Wrapped
from equitangents.audit.contract.trees import Inputs
from equitangents.audit.measure.task import Task, batches, check_same_shapes, flattened, pulled_back
from equitangents.errors import ShapeError
from equitangents.metrics.measure import norms, ratio

_KEPT_NUMBERS = 2**24


@dataclass(frozen=True, eq=False)
class Orbits:
    """What one pass over the inputs gave; E elements, N inputs, the identity first in signals."""

    errors: Float[np.ndarray, "E N"]
    """Relative errors, the largest over the outputs."""
    by_output: Float[np.ndarray, "outputs N"]
    """Means over elements, for every output alone."""
    violations: Float[np.ndarray, "E N"]
    """Norms ‖f(ρ(g)x) − ρ(g)f(x)‖ over all outputs."""
    sizes: Float[np.ndarray, " N"]
    """Norms ‖f(x)‖ over all outputs."""
    kept: Int[np.ndarray, " K"]
    """Rows of `signals`."""
    signals: Float[np.ndarray, "E1 K D"]
    """ρ(g)⁻¹f(ρ(g)x), outputs side by side, for the kept rows."""
    actions: list[LeafAction | None]
    output_shapes: list[tuple[int, ...]]
    output_names: list[str]
    dtype: np.dtype
    probabilities: bool
    """Whether the first output is a probability distribution in every row."""

    classes: bool
    """Whether the first output is a vector of class scores."""

    @property
    def scores(self) -> np.ndarray | None:
        """The first output's signal (E + 1, K, classes), if it is a vector of class scores."""
        return self.signals[:, :, : self.output_shapes[0][0]] if self.classes else None


def measure_orbits(task: Task, x: Inputs | None = None) -> Orbits:
    """One pass over x (the task's own inputs if none are given)."""
    x = task.x if x is None else x
    contract, symmetry, elements = task.contract, task.contract.symmetry, task.elements
    E, N = len(elements), x.n
    inverses = [symmetry.inverse(g) for g in elements]
    errors, violations, sizes = np.empty((E, N)), np.empty((E, N)), np.empty(N)
    by_output = signals = actions = first = None
    kept = np.arange(N)
    for rows in batches(N, task.step):
        part = x.subset(rows)
        y = task.batch(part)
        if first is None or by_output is None or signals is None or actions is None:
            first, actions = y, task.output_actions(y)
            by_output = np.zeros((len(y.leaves), N))
            width = flattened(y.leaves).shape[1]
            kept = _kept_rows(N, (E + 1) * width, task.seed)
            signals = np.empty((E + 1, len(kept), width))
        sizes[rows] = norms(flattened(y.leaves))
        here = np.searchsorted(kept, rows[0]), np.searchsorted(kept, rows[-1] + 1)
        chosen = kept[here[0] : here[1]] - rows[0]
        signals[0, here[0] : here[1]] = flattened(y.leaves)[chosen]
        for k, moved in enumerate(contract.orbit(elements, part.leaves)):
            z = task.batch(x.replaced(moved))
            check_same_shapes(y, z, symmetry.label(elements[k]))
            expected = [v if a is None else _acted(a, elements[k], v) for a, v in zip(actions, y.leaves, strict=True)]
            separate = [ratio(norms(a - b), norms(c)) for a, b, c in zip(z.leaves, expected, y.leaves, strict=True)]
            errors[k, rows] = np.max(separate, axis=0)
            by_output[:, rows] += np.array(separate) / E
            violations[k, rows] = norms(flattened(z.leaves) - flattened(expected))
            if len(chosen):
                back = pulled_back(actions, inverses[k], [v[chosen] for v in z.leaves])
                signals[k + 1, here[0] : here[1]] = flattened(back)
    assert first is not None
    assert actions is not None
    assert by_output is not None
    assert signals is not None
    return Orbits(
        errors=errors,
        by_output=by_output,
        violations=violations,
        sizes=sizes,
        kept=kept,
        signals=signals,
        actions=actions,
        output_shapes=[y.shape[1:] for y in first.leaves],
        output_names=_names(len(first.leaves)),
        dtype=first.dtype,
        probabilities=_are_distributions(first.leaves[0]),
        classes=not task.regression and _are_scores(first.leaves[0], actions[0]),
    )


def relative_std(signals: Float[np.ndarray, "E1 K D"]) -> Float[np.ndarray, " K"]:
    """‖std over the orbit‖ / ‖mean over the orbit‖, the identity included."""
    deviations = signals - signals[0]  # about one of the points, so that of a constant they are exactly 0
    mean = signals[0] + deviations.mean(axis=0)
    return ratio(norms(deviations.std(axis=0)), norms(mean))


def _acted(action: LeafAction, g: object, y: np.ndarray) -> np.ndarray:
    moved = action.act(g, y)
    if moved.shape != y.shape:
        raise ShapeError(f"output_action turns shape {y.shape} into {moved.shape}; it must keep the shape")
    return moved


def _kept_rows(n: int, numbers_each: int, seed: int) -> np.ndarray:
    count = max(min(n, 8), min(n, _KEPT_NUMBERS // max(numbers_each, 1)))
    return np.arange(n) if count >= n else np.sort(np.random.default_rng(seed).choice(n, count, replace=False))


def _are_distributions(y: np.ndarray) -> bool:
    if y.ndim != 2 or y.shape[1] < 2 or y.min() < 0:
        return False
    return bool(np.abs(y.sum(axis=1) - 1).max() < 1e-3)


def _are_scores(y: np.ndarray, action: LeafAction | None) -> bool:
    """At least two numbers that stay, or change places, when inputs move; an argmax of vectors means nothing."""
    permutes = isinstance(action, Wrapped) and isinstance(action.action, LastAxisPermutation)
    return y.ndim == 2 and y.shape[1] >= 2 and (action is None or permutes)


def _names(count: int) -> list[str]:
    return ["f(x)"] if count == 1 else [f"output {i}" for i in range(count)]
