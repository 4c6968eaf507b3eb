"""What the study of SO(2) measures in closed form and on rings, and the scores that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, squared_mean
from equitangents_studies.continuous.image_results import ImageEnsembles
from equitangents_studies.continuous.settings import Settings

WAYS = ("rings", "pixels")


@dataclass(frozen=True, eq=False)
class Results:
    """By way ("rings", "pixels"): `kappa[way]` (orders,), `profile[way]` (orders, T, angles, N), |f̄(ρ(g)x) − f̄(x)|,
    `floor` (orders, T, angles, N), |f̄(ρ(g)⁻¹ρ(g)x) − f̄(x)| by resampling pixels, `round_trip` (angles,) the relative
    change of the images themselves, `constant` (orders, T, N), C(x) on rings, `size[way]` (orders, T), the root mean
    square prediction. `members[k]` (M, angles, N, K), finite ensembles on rings after the last step. `images` are the
    image ensembles, None where they were left out.
    """

    steps: np.ndarray
    kappa: dict[str, np.ndarray]
    profile: dict[str, np.ndarray]
    size: dict[str, np.ndarray]
    floor: np.ndarray
    round_trip: np.ndarray
    constant: np.ndarray
    members: dict[int, np.ndarray]
    images: ImageEnsembles | None = None

    def relative(self, way: str) -> np.ndarray:
        """Mean square violation over angles, relative to the mean square prediction: (orders, T, N)."""
        return (self.profile[way] ** 2).mean(axis=2) / self.size[way][..., None] ** 2

    def relative_floor(self) -> np.ndarray:
        """Mean square floor over the angles that resample, relative to the mean square prediction: (orders, T, N)."""
        return (self.floor[:, :, self.round_trip > 0] ** 2).mean(axis=2) / self.size["pixels"][..., None] ** 2


def finite_violation(settings: Settings, results: Results, k: int, level: float = 0.95) -> Estimate:
    """Mean square violation of the mean of infinitely many members, over that of the closed form, square root."""
    y = results.members[k].astype(np.float64)
    found = squared_mean((y[:, 1:] - y[:, :1]).reshape(len(y), -1), confidence=level)
    outputs = y.shape[-1]
    expected = (results.profile["rings"][settings.orders.index(k), -1, 1:] ** 2).mean() / outputs
    root = lambda v: float(np.sqrt(max(v, 0) / expected))
    return Estimate(root(found.value), root(found.low), root(found.high), level)


def bound_share(results: Results) -> np.ndarray:
    """max_g |f̄(ρ(g)x) − f̄(x)| / (κ C(x)) on rings: (orders, T, N)."""
    return results.profile["rings"].max(axis=2) / (results.kappa["rings"][:, None, None] * results.constant)
