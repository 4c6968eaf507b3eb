"""Training at infinite width in closed form: time, mean, covariance and samples from kernel matrices."""

from equitangents.inference.any_loss import pull_over_time
from equitangents.inference.augmented import (
    augment_inputs,
    augment_targets,
    distinct,
    kinds,
    orbit_digests,
    row_digests,
)
from equitangents.inference.data_orbits import DataOrbits, find_orbits
from equitangents.inference.draws import as_key, check_sample, sample_gaussian, sample_on_orbits
from equitangents.inference.dynamics import DYNAMICS, Descent, Dynamics, Flow, HeavyBall, Momentum, as_times
from equitangents.inference.gaussian import Projection, TrainedProcess
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier, fourier_irreps, trivial_irrep
from equitangents.inference.irrep_process import IrrepProcess, IrrepProjection
from equitangents.inference.probabilities import argmax_probabilities
from equitangents.inference.spectrum import Spectrum, decompose, dense_solve_bytes, relative_resolution
from equitangents.memory import check_memory, default_memory_limit

__all__ = [
    "DYNAMICS",
    "DataOrbits",
    "Descent",
    "Dynamics",
    "Flow",
    "FourierIrrep",
    "GroupFourier",
    "HeavyBall",
    "IrrepProcess",
    "IrrepProjection",
    "Momentum",
    "Projection",
    "Spectrum",
    "TrainedProcess",
    "argmax_probabilities",
    "as_key",
    "as_times",
    "augment_inputs",
    "augment_targets",
    "check_memory",
    "check_sample",
    "decompose",
    "default_memory_limit",
    "dense_solve_bytes",
    "distinct",
    "find_orbits",
    "fourier_irreps",
    "kinds",
    "orbit_digests",
    "pull_over_time",
    "relative_resolution",
    "row_digests",
    "sample_gaussian",
    "sample_on_orbits",
    "trivial_irrep",
]
