"""Training at infinite width in closed form: time, mean, covariance and samples from kernel matrices."""

from typing import TYPE_CHECKING

from equitangents.former import former_names
from equitangents.inference.any_loss import pull_over_time
from equitangents.inference.augmented import augment_inputs, augment_targets
from equitangents.inference.dynamics import Descent, Flow, HeavyBall, Momentum
from equitangents.inference.gaussian import TrainedProcess
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier, fourier_irreps
from equitangents.inference.probabilities import argmax_probabilities
from equitangents.inference.spectrum import decompose

__all__ = [
    "Descent",
    "Flow",
    "FourierIrrep",
    "GroupFourier",
    "HeavyBall",
    "Momentum",
    "TrainedProcess",
    "argmax_probabilities",
    "augment_inputs",
    "augment_targets",
    "decompose",
    "fourier_irreps",
    "pull_over_time",
]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
