"""Measures of outputs on orbits, z (…, n, |G|, K), one number an input: those of `equitangents.metrics`, on arrays.

relative orbit std      ‖std_g z_g‖ / ‖mean_g z_g‖
orbit same predictions  #{g : class of z_g = class of z_e}; the class is the argmax, or the sign of a single output
equivariance error      mean_g ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖
error                   ‖f(x) − y‖², or 1 where the class is not y
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from equitangents.groups.group_maps import FiniteGroupMap


def carried_back(
    output_action: FiniteGroupMap | None, f: Float[np.ndarray, "*draws n order outputs"]
) -> Float[np.ndarray, "*draws n order outputs"]:
    """z_g = ρ_Y(g)⁻¹ f(ρ_X(g)x), the same for all g if f is equivariant; None: f should be invariant, z = f."""
    if output_action is None:
        return f
    group = output_action.group
    return np.stack([moved(output_action, group.inverse(g), f[..., g, :]) for g in range(group.order)], axis=-2)


def relative_spread(z: Float[np.ndarray, "*draws n order outputs"]) -> Float[np.ndarray, "*draws n"]:
    """‖std_g z‖ / ‖mean_g z‖; 0/0 counts as 0, a spread about a mean of exactly 0 as inf."""
    deviations = z - z[..., :1, :]  # of a constant exactly 0
    mean = z[..., 0, :] + deviations.mean(axis=-2)
    return _ratio(_norm(deviations.std(axis=-2)), _norm(mean))


def spread(z: Float[np.ndarray, "*draws n order outputs"]) -> Float[np.ndarray, "*draws n"]:
    """‖std_g z‖, the norm over outputs."""
    return _norm((z - z[..., :1, :]).std(axis=-2))


def same_predictions(z: Float[np.ndarray, "*draws n order outputs"], identity: int) -> Float[np.ndarray, "*draws n"]:
    """For how many g the predicted class is that at the identity, itself included."""
    classes = predicted_classes(z)
    return (classes == classes[..., identity, None]).sum(axis=-1).astype(np.float64)


def same_predictions_at_positions(
    z: Float[np.ndarray, "*draws n order numbers"], identity: int, outputs: int
) -> Float[np.ndarray, "*draws n"]:
    """How many points of an orbit have x's predicted class, a mean over positions; rows hold `outputs` at each."""
    classes = predicted_classes(z.reshape(*z.shape[:-1], -1, outputs))
    return (classes == classes[..., [identity], :]).sum(axis=-2).mean(axis=-1)


def predicted_classes(z: Float[np.ndarray, "*axes outputs"]) -> Int[np.ndarray, "*axes"]:
    """The argmax over outputs; of a single output 1 where it is positive, else 0."""
    return (z[..., 0] > 0).astype(int) if z.shape[-1] == 1 else np.argmax(z, axis=-1)


def equivariance_errors(
    output_action: FiniteGroupMap | None, f: Float[np.ndarray, "*draws n order outputs"], identity: int
) -> Float[np.ndarray, "*draws n"]:
    """Mean over g, identity included, of ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖; output_action None: ρ_Y = 1."""
    start = f[..., identity, :]
    total = np.zeros(f.shape[:-2])
    for g in range(f.shape[-2]):
        total += _norm(f[..., g, :] - (start if output_action is None else moved(output_action, g, start)))
    return _ratio(total / f.shape[-2], _norm(start))


def squared_errors(f: Float[np.ndarray, "*draws n outputs"], y: Float[np.ndarray, "n outputs"]) -> np.ndarray:
    """Σ_k (f_k(x) − y_k)², (…, n)."""
    return ((f - y) ** 2).sum(axis=-1)


def misclassified(f: Float[np.ndarray, "*axes outputs"], labels: Int[np.ndarray, "*some"]) -> np.ndarray:
    """1 where the predicted class is not the label, else 0, (…, n)."""
    return (predicted_classes(f) != labels).astype(np.float64)


def moved(output_action: FiniteGroupMap, g: int, y: np.ndarray) -> np.ndarray:
    """ρ_Y(g) y for outputs (…, K)."""
    rows = y.reshape(-1, y.shape[-1])
    return np.asarray(output_action(g, rows), np.float64).reshape(y.shape)


def _norm(z: np.ndarray) -> np.ndarray:
    return np.sqrt((z**2).sum(axis=-1))


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    beyond = np.where(numerator > 0, np.inf, 0.0)
    return np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), beyond)
