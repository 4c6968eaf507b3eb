"""How equivariant a function is, and how far two functions are apart, with intervals over inputs."""

from typing import TYPE_CHECKING

from equitangents.former import former_names
from equitangents.metrics.equivariance import equivariance_error, orbit_same_predictions, relative_orbit_std, s_dist

__all__ = [
    "equivariance_error",
    "orbit_same_predictions",
    "relative_orbit_std",
    "s_dist",
]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
