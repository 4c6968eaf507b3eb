"""Infinitely wide networks trained on any loss: gradient flow of their outputs, integrated with controlled error.

df/dt = -Θ ∇L(f) on the training inputs, and f(x) - f₀(x) = -Θ(x, X) G(t) everywhere, with the pull G(t) = ∫ ∇L dt. So
only G is integrated: dG/dt = ∇L(f₀ - Θ G). With momentum G'' = μ G' + ∇L, μ < 0. Source: Lee et al. 2019, section 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

from equitangents.errors import InvalidArgumentError, ShapeError


def pull_over_time(
    gradient: Callable[[np.ndarray], np.ndarray],
    matrix: np.ndarray,
    start: np.ndarray,
    times: np.ndarray,
    *,
    friction: float | None = None,
    tolerance: float = 1e-8,
) -> np.ndarray:
    """G at each of the times, (T, N, outputs), for one matrix Θ (N, N) shared by all outputs.

    Args:
        gradient: ∇L as a function of outputs (N, outputs), of the same shape.
        matrix: Θ on the training inputs, (N, N).
        start: outputs at time 0, (N, outputs).
        times: finite and ≥ 0, in any order.
        friction: -μ of the second-order flow with momentum; None: the first-order flow.
        tolerance: of each step of the integration (LSODA), relative, and absolute in units of ∇L at time 0.

    Raises InvalidArgumentError if the integration fails, and at infinite times: losses without a minimum, such as
    cross entropy on separable data, do not converge.
    """
    times = np.asarray(times, np.float64)
    if matrix.shape != (len(start), len(start)):
        raise ShapeError("matrix", matrix.shape, (len(start),) * 2)
    if times.ndim != 1 or not (np.isfinite(times).all() and (times >= 0).all()):
        raise InvalidArgumentError(
            "times", times.tolist(), "finite times ≥ 0 for a loss that is not the square", verb="are"
        )
    first = np.asarray(gradient(start), np.float64)
    size = start.size
    unit = float(np.abs(first).max()) or 1.0

    def speed(_: float, state: np.ndarray) -> np.ndarray:
        pull = state[:size].reshape(start.shape)
        found = np.asarray(gradient(start - matrix @ pull), np.float64).ravel()
        return found if friction is None else np.concatenate([state[size:], found - friction * state[size:]])

    order = np.unique(times)
    end = float(order[-1]) if len(order) else 0.0
    zeros = np.zeros(size if friction is None else 2 * size)
    if end == 0:
        return np.zeros((len(times), *start.shape))
    outcome = solve_ivp(
        speed, (0.0, end), zeros, method="LSODA", t_eval=order, rtol=tolerance, atol=tolerance * unit * min(1.0, end)
    )
    if outcome.status != 0 or not math.isfinite(float(outcome.y.sum())):
        raise InvalidArgumentError("time", end, "a time to which the flow can be integrated", outcome.message)
    found = outcome.y[:size].T.reshape((-1, *start.shape))
    return found[np.searchsorted(order, times)]
