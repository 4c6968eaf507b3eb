"""Orbits as arrays: inputs {ρ(g)x} in one batch, and measures of invariance. The group is the axis before inputs.

The measures are those of `equitangents.metrics`, but take recorded outputs in place of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from equitangents import actions
from equitangents.actions import Action

SQUARE_GROUPS: dict[str, Callable[[], Action]] = {
    "C4": partial(actions.image_rotations, 4),
    "D4": partial(actions.image_dihedral, 4),
}


def orbit_batch(action: Action, x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "order_n ..."]:
    """All ρ(g)x as one batch of |G|·N inputs, g slowest."""
    return np.asarray(action.orbit(x)).reshape(-1, *x.shape[1:])


def moved_each(
    action: Action, elements: Int[np.ndarray, " n"], x: Float[np.ndarray, "n ..."]
) -> Float[np.ndarray, "n ..."]:
    """Move input i by the group element `elements[i]`."""
    moved = np.array(x)
    for g in np.unique(elements):
        moved[elements == g] = np.asarray(action(int(g), x[elements == g]))
    return moved


def there_and_back(action: Action, x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "order_n ..."]:
    """All ρ(g)⁻¹ρ(g)x in the order of `orbit_batch`; the difference from x is the error of resampling."""
    return np.concatenate([np.asarray(action(action.group.inverse(g), action(g, x))) for g in action.group])


def by_element(action: Action, y: Float[np.ndarray, "... order_n k"]) -> Float[np.ndarray, "... order n k"]:
    """Reshape predictions on `orbit_batch` so that the group is an axis."""
    order = action.group.order
    return y.reshape(*y.shape[:-2], order, y.shape[-2] // order, y.shape[-1])


def deviations(action: Action, y: Float[np.ndarray, "... order n"]) -> Float[np.ndarray, "... others n"]:
    """f(ρ(g)x) − f(x) for every g but the identity."""
    identity = action.group.identity
    others = [g for g in range(action.group.order) if g != identity]
    return y[..., others, :] - y[..., identity, None, :]


def same_predictions(action: Action, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
    """Orbit same predictions: for how many g the label at ρ(g)x is the label at x; |G| is perfect."""
    return (labels == labels[..., action.group.identity, None, :]).sum(axis=-2).astype(np.float64)


def relative_std(y: Float[np.ndarray, "... order n"]) -> np.ndarray:
    """Relative orbit standard deviation of the predictions on a whole set, ‖std_g f‖ / ‖mean_g f‖, norms over inputs.

    With one input it is that input's; the norms keep inputs whose mean is near 0 from dominating. 0/0 counts as 0.
    """
    y = np.asarray(y, dtype=np.float64)
    variance, size = y.var(axis=-2).sum(axis=-1), (y.mean(axis=-2) ** 2).sum(axis=-1)
    beyond = np.where(variance == 0, 0.0, np.inf)
    return np.sqrt(np.where(size == 0, beyond, variance / np.where(size == 0, 1.0, size)))  # NaN stays NaN
