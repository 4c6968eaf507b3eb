"""How equivariant a function is, and how far two functions are apart, with intervals over inputs."""

from equitangents.metrics.distances import s_dist
from equitangents.metrics.equivariance import EquivarianceMeasure, Witness, equivariance_error
from equitangents.metrics.measure import Measure, bootstrap_interval
from equitangents.metrics.orbits import orbit_same_predictions, relative_orbit_std

__all__ = [
    "EquivarianceMeasure",
    "Measure",
    "Witness",
    "bootstrap_interval",
    "equivariance_error",
    "orbit_same_predictions",
    "relative_orbit_std",
    "s_dist",
]
