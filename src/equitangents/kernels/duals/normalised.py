"""Normalisation over channels of a Gaussian field: K' = K/√((q1 + ε)(q2 + ε)), Θ' = Θ/√((q1 + ε)(q2 + ε))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import angle_of_covariance, half_angle, safe_sqrt
from equitangents.kernels.duals.traits import Traits


@dataclass(frozen=True)
class Normalised(Traits):
    """(x - mean over channels) / √(variance over channels + eps), of infinitely many channels."""

    odd: ClassVar[bool] = True
    curved: ClassVar[bool] = False
    eps: float = 1e-12

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(α1 - α2)² + 4 α1 α2 sin²(θ/2) with α² = q/(q + ε), and 1/√((q1 + ε)(q2 + ε))."""
        s, _, _ = half_angle(d, q1, q2)
        a1, a2 = (safe_sqrt(q / (q + self.eps)) for q in (q1, q2))
        total = jnp.where(a1 + a2 > 0, a1 + a2, 1)
        gap = (q1 - q2) * self.eps / ((q1 + self.eps) * (q2 + self.eps)) / total
        return gap**2 + 4 * a1 * a2 * s, self._factor(q1) * self._factor(q2)

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """The distance E/√((q1 + ε)(q2 + ε)), and what Θ is multiplied by."""
        factor = self._factor(q1) * self._factor(q2)
        return factor * e, factor

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Correlation α1 α2 cos θ, from the covariance itself, and what Θ is multiplied by."""
        s, _ = angle_of_covariance(k, q1, q2)
        a1, a2 = (safe_sqrt(q / (q + self.eps)) for q in (q1, q2))
        return a1 * a2 * (1 - 2 * s), self._factor(q1) * self._factor(q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """The variance q/(q + ε), and 0, since the mean is subtracted."""
        return q / (q + self.eps), jnp.zeros_like(q)

    def _factor(self, q: ArrayLike) -> ArrayLike:
        return 1 / jnp.sqrt(q + self.eps)
