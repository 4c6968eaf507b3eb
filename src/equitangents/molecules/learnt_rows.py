"""Training on some rows of a joint covariance, asked at any time.

Rows whose prior variance is zero, such as forces on lone atoms, are the same for every network. Nothing can be learnt
from them, and nothing but zero is predicted for them; they are left out, as a pseudoinverse would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from equitangents.inference.gaussian import TrainedProcess


@dataclass(frozen=True, eq=False)
class LearntRows:
    """What was learnt from R numbers.

    Args:
        process: Trained on those rows that vary; None if there are none.
        varies: (R,) which rows do.
        scale: (R,) what each row was multiplied by.
        which: The kernel that trained, 0 for NNGP and 1 for NTK.
    """

    process: TrainedProcess | None
    varies: Bool[np.ndarray, " rows"]
    scale: Float[np.ndarray, " rows"]
    which: int

    @property
    def max_learning_rate(self) -> float:
        """The largest stable step."""
        return math.inf if self.process is None else self.process.max_learning_rate

    def weights(self, time: float) -> Float[np.ndarray, " rows"]:
        """w with μ_t(x) = Θ(x, rows) w. Raises NotPositiveDefiniteError for a singular kernel at time inf."""
        found = np.zeros(len(self.varies))
        if self.process is not None:
            self.process.check(time)
            spectrum = self.process.spectrum
            response = self.process.dynamics.response(spectrum.eigenvalues, time)
            found[self.varies] = self.scale[self.varies] * (spectrum.vectors @ (response * self.process.targets[:, 0]))
        return found

    def variance(
        self, cross: tuple[np.ndarray, np.ndarray], prior: Float[np.ndarray, " m"], time: float
    ) -> Float[np.ndarray, " m"]:
        """Variances of networks, given NNGP and NTK with the rows, each (M, R), and the prior variances."""
        if self.process is None:
            return np.maximum(prior, 0.0)
        return self.process.project(*self._asked(cross)).variance(prior, time)

    def covariance(
        self, cross: tuple[np.ndarray, np.ndarray], prior: Float[np.ndarray, "m m"], time: float
    ) -> Float[np.ndarray, "m m"]:
        """The covariance of these rows after training for this time."""
        return prior if self.process is None else self.process.project(*self._asked(cross)).covariance(prior, time)

    def _asked(self, cross: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return cross[self.which][:, self.varies], cross[0][:, self.varies]
