"""The equivariance error ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖, for every input and every g."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents._types import Numbers
from equitangents.actions.group_action import GroupAction
from equitangents.actions.named import ActionLike
from equitangents.errors import ShapeError
from equitangents.groups.representations import RepresentationLike
from equitangents.metrics.measure import (
    Bootstrap,
    Measure,
    check_points,
    checked_output_action,
    evaluate,
    moved_outputs,
    nodes_of,
    norms,
    ratio,
    weights_of,
)


@dataclass(frozen=True)
class Witness:
    """Where an error is largest: which input, which group element, and how large."""

    index: int
    element: int
    error: float


@dataclass(frozen=True, eq=False, repr=False)
class EquivarianceMeasure(Measure):
    """`errors` (|G|, N) for every element and input; `values` are their means over G, identity included.

    Of SO(2), SO(3) and O(3) the elements are the nodes of the quadrature, and means count them by its weights.
    """

    errors: np.ndarray

    @property
    def per_element(self) -> Float[np.ndarray, " elements"]:
        """The mean over inputs for every g, (|G|,)."""
        return self.errors.mean(axis=1)

    @property
    def worst(self) -> Witness:
        """The input and the element with the largest error."""
        g, i = np.unravel_index(int(np.argmax(self.errors)), self.errors.shape)
        return Witness(index=int(i), element=int(g), error=float(self.errors[g, i]))

    def quantiles(self, q: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """Quantiles over all elements and inputs; q between 0 and 1."""
        return np.quantile(self.errors, q, method="inverted_cdf")


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
    """How far f is from f(ρ_X(g)x) = ρ_Y(g)f(x), relative to ‖f(x)‖, Euclidean norms over all of an output's axes.

    `action` is ρ_X, or the name of a group ("C4"); `output_action` is ρ_Y, an action or a representation of the same
    group, and None means that f should be invariant. f maps a batch (N, …) to outputs (N, …), NumPy or JAX; outputs
    (N,) meet `output_action` as (N, 1), and fields as (N, *positions, outputs). 0/0 counts as 0, an error where
    f(x) = 0 as inf.

    >>> import numpy as np, equitangents as et
    >>> rot = et.actions.image_rotations(4)
    >>> et.metrics.equivariance_error(lambda x: x**2, rot, np.ones((3, 2, 2, 1)), output_action=rot).mean
    0.0
    """
    bootstrap = Bootstrap(confidence, resamples, seed)
    action, x = check_points(action, x)
    on_outputs = checked_output_action(output_action, action)
    y = evaluate("f", f, x)
    size = norms(y)
    errors = []
    for k, g in enumerate(nodes_of(action)):
        expected = y if on_outputs is None else moved_outputs(on_outputs, g, y)
        measured = evaluate("f", f, action(g, x))
        if measured.shape != y.shape:
            raise ShapeError(f"f turns shape {x.shape} into {y.shape}, and after element {k} into {measured.shape}")
        errors.append(ratio(norms(measured - expected), size))
    table = np.stack(errors)
    mean = np.average(table, axis=0, weights=weights_of(action))
    return EquivarianceMeasure("equivariance error", mean, bootstrap, table)
