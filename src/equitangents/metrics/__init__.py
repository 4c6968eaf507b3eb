"""Measures of a function's equivariance, and distances between functions, with intervals over inputs."""

from equitangents.metrics.equivariance import equivariance_error, orbit_same_predictions, relative_orbit_std, s_dist

__all__ = [
    "equivariance_error",
    "orbit_same_predictions",
    "relative_orbit_std",
    "s_dist",
]
