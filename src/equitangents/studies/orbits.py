"""Orbits as arrays: inputs {ρ(g)x} in one batch, and what predictions on them say. The group is the axis before inputs.

The measures agree with those of `equitangents.metrics`, which take functions; these take what an ensemble recorded.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from equitangents.actions import Action


def orbit_batch(action: Action, x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "order_n ..."]:
    """All ρ(g)x as one batch of |G|·N inputs, g slowest."""
    return np.asarray(action.orbit(x)).reshape(-1, *x.shape[1:])


def by_element(action: Action, y: Float[np.ndarray, "... order_n k"]) -> Float[np.ndarray, "... order n k"]:
    """Predictions on `orbit_batch`, with the group as an axis of its own."""
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


def relative_std(y: Float[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
    """Relative orbit standard deviation of a scalar function: std over g, divided by |mean over g|."""
    y = np.asarray(y, dtype=np.float64)
    return y.std(axis=-2) / np.abs(y.mean(axis=-2))
