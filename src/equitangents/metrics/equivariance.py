"""Measures of a function's equivariance, and the distance of two functions: a number for every input, by calling them.

equivariance error        ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖, for every input and every g
orbit same predictions    #{g : argmax f(ρ(g)x) = argmax f(x)}, |G| is perfect
relative orbit std        ‖std_g f(ρ(g)x)‖ / ‖mean_g f(ρ(g)x)‖, 0 is perfect
S-Dist(A₁, A₂)            E_x |E_θ A₁(x) − E_θ A₂(x)|², of the mean predictions of two learning algorithms

f(x) is f(ρ(e)x): the mask of an action holds for unmoved inputs, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from equitangents._types import ArrayLike, Element, Numbers, Tree
from equitangents.actions.action import GroupAction, is_infinite
from equitangents.actions.kinds import ActionLike
from equitangents.errors import ShapeError
from equitangents.groups.group import GroupMap
from equitangents.groups.representations import RepresentationLike
from equitangents.metrics.measure import (
    BootstrapSettings,
    Measure,
    carried_back,
    check_points,
    evaluate,
    moved_outputs,
    nodes_of,
    norms,
    ratio,
    weights_of,
)
from equitangents.metrics.on_orbits import relative_deviation
from equitangents.validation import check_array


@dataclass(frozen=True)
class Witness:
    """The largest error: its input, its group element, and its value."""

    index: int
    element: int
    error: float


@dataclass(frozen=True, eq=False, repr=False)
class EquivarianceMeasure(Measure):
    """`errors` (|G|, N) for every element and input; `values` are their means over G, including the identity.

    For SO(2), SO(3) and O(3) the elements are the quadrature's nodes, and means use its weights.
    """

    errors: np.ndarray

    @property
    def worst(self) -> Witness:
        """The input and the element with the largest error."""
        g, i = np.unravel_index(int(np.argmax(self.errors)), self.errors.shape)
        return Witness(index=int(i), element=int(g), error=float(self.errors[g, i]))


def equivariance_error(
    f: Callable[[Any], Any],
    action: ActionLike,
    x: Numbers,
    output_action: GroupAction | RepresentationLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> EquivarianceMeasure:
    """Relative equivariance error ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖/‖f(x)‖, Euclidean norms over all of an output's axes.

    `action` is ρ_X, or the name of a group ("C4"); `output_action` is ρ_Y, an action or a representation of the same
    group; None means that f should be invariant. f maps a batch (N, …) to outputs (N, …), NumPy or JAX;
    `output_action` acts on outputs (N,) as (N, 1), and on fields as (N, *positions, outputs). 0/0 counts as 0, an error
    with f(x) = 0 as inf.

    >>> import numpy as np, equitangents as et
    >>> rot = et.actions.image_rotations(4)
    >>> et.metrics.equivariance_error(lambda x: x**2, rot, np.ones((3, 2, 2, 1)), output_action=rot).mean
    0.0
    """
    bootstrap = BootstrapSettings(confidence, resamples, seed)
    action, x, on_outputs = check_points(action, x, output_action)
    y = evaluate("f", f, action(action.group.identity, x))
    size = norms(y)
    errors = []
    for k, g in enumerate(nodes_of(action)):
        expected = y if on_outputs is None else moved_outputs(on_outputs, g, y)
        measured = evaluate("f", f, action(g, x))
        if measured.shape != y.shape:
            raise ShapeError(
                "f",
                measured.shape,
                y.shape,
                "keep the shape of outputs under elements",
                verb="gives moved inputs the shape",
                at=k,
            )
        errors.append(ratio(norms(measured - expected), size))
    table = np.stack(errors)
    mean = np.average(table, axis=0, weights=weights_of(action))
    return EquivarianceMeasure("equivariance error", mean, bootstrap, table)


def orbit_same_predictions(
    f: Callable[[Any], Tree],
    action: ActionLike,
    x: Numbers,
    output_action: GroupAction | RepresentationLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Measure:
    """For each input the number of g ∈ G, including the identity, that preserve the predicted class: from 1 to |G|.

    f: batch of inputs to class scores (N, K), K ≥ 2, NumPy or JAX; the predicted class is the argmax (the first of
    equals). x: inputs (N, …) for `action`, which may be the name of a group ("C4"). Raises ShapeError if f has a single
    output. For SO(3) and O(3) it is the fraction of the group, between 0 and 1, by quadrature.

    With `output_action`, ρ_Y of the same group, scores at f(ρ(g)x) are first transformed by ρ_Y(g)⁻¹. So f may have a
    score for every position, (N, *positions, K); the number is then the mean over positions.

    Source: Gerken & Kessel 2024, arXiv 2403.03103, section 6.

    >>> import numpy as np, equitangents as et
    >>> x = np.arange(8.0).reshape(2, 2, 2, 1)
    >>> left_or_right = lambda x: x.sum((1, 3))
    >>> et.metrics.orbit_same_predictions(left_or_right, et.actions.image_rotations(4), x).values.tolist()
    [2.0, 2.0]
    """
    bootstrap = BootstrapSettings(confidence, resamples, seed)
    action, x, on_outputs = check_points(action, x, output_action)
    reference = _predicted_class(f, action(action.group.identity, x), None, on_outputs)
    continuous = is_infinite(action)
    nodes = nodes_of(action)
    counts = weights_of(action) if continuous else np.ones(len(nodes))
    changed = np.zeros(len(x))  # so that no change is exactly the whole group, however its weights add up
    for g, count in zip(nodes, counts, strict=True):
        differs = reference != _predicted_class(f, action(g, x), g, on_outputs)
        changed += count * differs.reshape(len(x), -1).mean(axis=1)
    same = (1.0 if continuous else len(nodes)) - changed
    bounds = (0.0, 1.0) if continuous else (1.0, float(len(nodes)))
    name = "orbit same predictions" + (", share of the group" if continuous else "")
    return Measure(name, same, bootstrap, bounds=bounds)


def relative_orbit_std(
    f: Callable[[Any], Tree],
    action: ActionLike,
    x: Numbers,
    output_action: GroupAction | RepresentationLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Measure:
    """For each input the standard deviation of f over the orbit, relative to the mean of f over the orbit.

    Standard deviations are those of the full orbit (divided by |G|, not |G| − 1). For vector outputs: the norm of the
    components' standard deviations over the norm of the mean vector. 0/0 counts as 0; a nonzero deviation about a mean
    of exactly 0 as inf. For SO(3) and O(3) mean and standard deviation are quadratures over the group's nodes.

    With `output_action`, ρ_Y of the same group, outputs at ρ(g)x are first transformed by ρ_Y(g)⁻¹: the result measures
    the violation of f(ρ(g)x) = ρ_Y(g)f(x), also for fields (N, *positions, K) and vectors.

    f: batch of inputs to outputs (N,) or (N, …), NumPy or JAX. Source: arXiv 2403.03103, section 6.
    """
    bootstrap = BootstrapSettings(confidence, resamples, seed)
    action, x, on_outputs = check_points(action, x, output_action)
    orbit = np.stack([carried_back(on_outputs, g, evaluate("f", f, action(g, x))) for g in nodes_of(action)])
    relative = relative_deviation(orbit.reshape(len(orbit), len(x), -1), weights_of(action))
    return Measure("relative orbit std", relative, bootstrap)


def _predicted_class(
    f: Callable[[Any], Tree], x: ArrayLike, g: Element, output_action: GroupMap | None
) -> Int[np.ndarray, " N *positions"]:
    """Classes predicted by f at x, which ρ(g) has moved (None: not); scores are first transformed by ρ_Y(g)⁻¹."""
    scores = evaluate("f", f, x)
    fields = output_action is not None and scores.ndim > 2
    if (scores.ndim != 2 and not fields) or scores.shape[-1] < 2:
        raise ShapeError(
            "f",
            scores.shape,
            "class scores (N, K) with K ≥ 2, or with an output_action (N, *positions, K)",
            "for the sign of one output give np.stack([-y, y], axis=-1); for regression use relative_orbit_std",
            verb="gives shape",
        )
    return np.argmax(scores if g is None else carried_back(output_action, g, scores), axis=-1)


def s_dist(
    f1: Callable[[Any], Any],
    f2: Callable[[Any], Any],
    x: Numbers,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Measure:
    """|f1(x) − f2(x)|² for every input, summed over outputs; f1 and f2 are the algorithms' mean predictors.

    A finite ensemble's mean carries the noise of its members, which adds the sum of both variances of the mean.

    Source: Xiao & Pennington 2022, arXiv 2207.04612, equations S15 and S16.

    >>> import numpy as np
    >>> float(s_dist(lambda x: x, lambda x: x + 1, np.zeros((4, 3))))
    3.0
    """
    bootstrap = BootstrapSettings(confidence, resamples, seed)
    x = check_array("x", x)
    y1, y2 = evaluate("f1", f1, x), evaluate("f2", f2, x)
    if y1.shape != y2.shape:
        raise ShapeError("f2", y2.shape, y1.shape, "the shape that f1 gives", verb="gives shape")
    return Measure("S-Dist", np.sum((y1 - y2).reshape(len(y1), -1) ** 2, axis=1), bootstrap)
