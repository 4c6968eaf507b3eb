"""Training at infinite width in closed form: time, mean, covariance and samples from kernel matrices."""

from equitangents.inference.augmented import augment_inputs, augment_targets, distinct, orbit_digests, row_digests
from equitangents.inference.dynamics import DYNAMICS, Descent, Dynamics, Flow, as_times
from equitangents.inference.gaussian import Projection, TrainedProcess, sample_gaussian
from equitangents.inference.memory import check_memory, default_memory_limit, dense_solve_bytes
from equitangents.inference.probabilities import argmax_probabilities
from equitangents.inference.spectrum import Spectrum, decompose

__all__ = [
    "DYNAMICS",
    "Descent",
    "Dynamics",
    "Flow",
    "Projection",
    "Spectrum",
    "TrainedProcess",
    "argmax_probabilities",
    "as_times",
    "augment_inputs",
    "augment_targets",
    "check_memory",
    "decompose",
    "default_memory_limit",
    "dense_solve_bytes",
    "distinct",
    "orbit_digests",
    "row_digests",
    "sample_gaussian",
]
