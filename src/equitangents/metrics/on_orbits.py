"""Measures of outputs computed on whole orbits, arrays z (…, n, |G|, K), one number per input.

relative orbit std      ‖std_g z_g‖ / ‖mean_g z_g‖
orbit same predictions  #{g : class of z_g = class of z_e}; the class is the argmax, or the sign of a single output
equivariance error      mean_g ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖
error                   ‖f(x) − y‖², or 1 if the class is not y
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import AnyAction
from equitangents.metrics.measure import norms, ratio


def carried_back(
    output_action: AnyAction | None, f: Float[np.ndarray, "*draws n order outputs"]
) -> Float[np.ndarray, "*draws n order outputs"]:
    """z_g = ρ_Y(g)⁻¹ f(ρ_X(g)x), the same for all g if f is equivariant; None: f should be invariant, z = f."""
    if output_action is None:
        return f
    group = output_action.group
    return np.stack([moved(output_action, group.inverse(g), f[..., g, :]) for g in range(group.order)], axis=-2)


def std_and_mean(
    z: np.ndarray, axis: int = -2, weights: Float[np.ndarray, " order"] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(std_g z, mean_g z) along the axis of the orbit; `weights` of its points sum to 1, None: equal.

    Computed about the orbit's first point, so that the standard deviation of a constant is exactly 0.
    """
    first = np.take(z, 0, axis)
    deviations = z - np.expand_dims(first, axis)
    if weights is None:
        return deviations.std(axis=axis), first + deviations.mean(axis=axis)
    mean = np.tensordot(weights, deviations, axes=(0, axis))
    squares = (deviations - np.expand_dims(mean, axis)) ** 2
    return np.sqrt(np.tensordot(weights, squares, axes=(0, axis))), first + mean


def relative_std(z: Float[np.ndarray, "*draws n order outputs"]) -> Float[np.ndarray, "*draws n"]:
    """‖std_g z‖ / ‖mean_g z‖; 0/0 counts as 0, a nonzero std about a mean of exactly 0 as inf."""
    std, mean = std_and_mean(z)
    return ratio(_norm(std), _norm(mean))


def relative_deviation(
    orbit: Float[np.ndarray, "elements n outputs"], weights: Float[np.ndarray, " elements"]
) -> Float[np.ndarray, " n"]:
    """‖std over the orbit‖ / ‖mean over the orbit‖ of outputs z; 0/0 is 0, a nonzero std about 0 is inf.

    `weights` of the elements sum to 1.
    """
    largest = np.abs(orbit).max(axis=(0, 2))
    scaled = orbit / np.where(largest > 0, largest, 1.0)[:, None]  # squares of large and small outputs stay in range
    std, mean = std_and_mean(scaled, 0, weights)
    return ratio(norms(std), norms(mean))


def std_norm(z: Float[np.ndarray, "*draws n order outputs"]) -> Float[np.ndarray, "*draws n"]:
    """‖std_g z‖, the norm over outputs."""
    return _norm(std_and_mean(z)[0])


def same_predictions(
    z: Float[np.ndarray, "*draws n order numbers"], identity: int, outputs: int | None = None
) -> Float[np.ndarray, "*draws n"]:
    """Number of g whose predicted class is that at the identity, including the identity.

    For fields (`outputs` values at each position of a row), the mean over positions; outputs None: no field.
    """
    classes = predicted_classes(z.reshape(*z.shape[:-1], -1, outputs or z.shape[-1]))
    return (classes == classes[..., [identity], :]).sum(axis=-2).mean(axis=-1)


def predicted_classes(z: Float[np.ndarray, "*axes outputs"]) -> Int[np.ndarray, "*axes"]:
    """The argmax over outputs; for a single output 1 if it is positive, else 0."""
    return (z[..., 0] > 0).astype(int) if z.shape[-1] == 1 else np.argmax(z, axis=-1)


def equivariance_errors(
    output_action: AnyAction | None, f: Float[np.ndarray, "*draws n order outputs"], identity: int
) -> Float[np.ndarray, "*draws n"]:
    """Mean over g, including the identity, of ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖; output_action None: ρ_Y = 1."""
    start = f[..., identity, :]
    total = np.zeros(f.shape[:-2])
    for g in range(f.shape[-2]):
        total += _norm(f[..., g, :] - (start if output_action is None else moved(output_action, g, start)))
    return ratio(total / f.shape[-2], _norm(start))


def squared_errors(f: Float[np.ndarray, "*draws n outputs"], y: Float[np.ndarray, "n outputs"]) -> np.ndarray:
    """Σ_k (f_k(x) − y_k)², (…, n)."""
    return ((f - y) ** 2).sum(axis=-1)


def misclassified(f: Float[np.ndarray, "*axes outputs"], labels: Int[np.ndarray, "*some"]) -> np.ndarray:
    """1 if the predicted class is not the label, else 0, (…, n)."""
    return (predicted_classes(f) != labels).astype(np.float64)


def moved(output_action: AnyAction, g: int, y: np.ndarray) -> np.ndarray:
    """ρ_Y(g) y for outputs (…, K)."""
    rows = y.reshape(-1, y.shape[-1])
    return np.asarray(output_action(g, rows), np.float64).reshape(y.shape)


def _norm(z: np.ndarray) -> np.ndarray:
    return np.sqrt((z**2).sum(axis=-1))
