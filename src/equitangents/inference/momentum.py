"""Gradient descent with momentum in closed form: v ← m v + ∇L, θ ← θ - η v, from v = 0.

Along an eigenvector of Θ with a = ηλ/N the residual obeys r_{k+1} = (1 + m - a) r_k - m r_{k-1}, r_0 = r_{-1} = 1.
What is learnt, u_k = (1 - r_k)/a, obeys u_{k+1} = 1 + (1 + m - a) u_k - m u_{k-1}, u_0 = u_{-1} = 0: a power of a
3×3 matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.inference.dynamics import Dynamics

_ROUNDING = 1e-12


@dataclass(frozen=True)
class HeavyBall(Dynamics):
    """Full-batch gradient descent with momentum: time k = 0, 1, 2, … counts steps.

    >>> import numpy as np
    >>> HeavyBall(learning_rate=1.0, samples=2, momentum=0.5).decay(np.array([0.0, 1.0]), time=2).tolist()
    [1.0, 0.0]
    """

    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.momentum, int | float | np.number) and 0 <= self.momentum < 1):
            raise InvalidArgumentError(f"momentum is {self.momentum!r}; expected a number from 0 to below 1")

    def decay(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """What k steps have left of each mode's error, r_k."""
        if math.isinf(time):
            return np.zeros_like(eigenvalues)
        return 1 - self.rate * eigenvalues * self._learnt(eigenvalues, time)

    def response(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """What k steps make of each mode's targets, (1 - r_k)/λ."""
        return 1 / eigenvalues if math.isinf(time) else self.rate * self._learnt(eigenvalues, time)

    def max_learning_rate(self, largest_eigenvalue: float) -> float:
        """2 (1 + m) N/λ_max: above it, steps diverge."""
        return (1 + self.momentum) * super().max_learning_rate(largest_eigenvalue)

    def check(self, largest_eigenvalue: float, time: float) -> None:
        """Steps must be whole, and above 2 (1 + m) N/λ_max they diverge."""
        if not math.isinf(time) and time != math.floor(time):
            raise InvalidArgumentError(f"time is {time}; with momentum it counts steps: 0, 1, 2, … or inf")
        largest = self.max_learning_rate(largest_eigenvalue)
        if time > 0 and self.learning_rate > largest * (1 + _ROUNDING):
            raise InvalidArgumentError(
                f"learning_rate is {self.learning_rate:g}; gradient descent on these data diverges above "
                f"{largest:.6g} (2 (1 + momentum) N/λ_max). Take a smaller one, or dynamics='flow'"
            )
        if math.isinf(time) and self.learning_rate >= largest * (1 - _ROUNDING):
            raise InvalidArgumentError(
                f"learning_rate is {self.learning_rate:g}, exactly the largest stable one, where gradient descent "
                f"oscillates for ever: at time inf it must be below {largest:.6g}"
            )

    def _learnt(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """u_k of each eigenvalue."""
        a = self.rate * np.asarray(eigenvalues, np.float64)
        step = np.zeros((*a.shape, 3, 3))
        step[..., 0, 0], step[..., 0, 1], step[..., 0, 2] = 1 + self.momentum - a, -self.momentum, 1
        step[..., 1, 0] = step[..., 2, 2] = 1
        return np.linalg.matrix_power(step, int(time))[..., 0, 2]


@dataclass(frozen=True)
class Momentum:
    """The `dynamics` of an ensemble that trains with momentum: `InfiniteEnsemble(net, dynamics=Momentum(0.9))`."""

    momentum: float = 0.9

    def __post_init__(self) -> None:
        HeavyBall(1.0, 1, self.momentum)

    def __call__(self, learning_rate: float, samples: int) -> HeavyBall:
        """With this learning rate on so many samples."""
        return HeavyBall(learning_rate, samples, self.momentum)
