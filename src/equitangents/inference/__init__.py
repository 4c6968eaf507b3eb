"""Training at infinite width in closed form: time evolution, mean, covariance and samples from kernel matrices."""

from equitangents.inference.any_loss import pull_over_time
from equitangents.inference.augmented import augment_inputs
from equitangents.inference.dynamics import Flow, TrainedProcess
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier, fourier_irreps
from equitangents.inference.spectrum import decompose

__all__ = [
    "Flow",
    "FourierIrrep",
    "GroupFourier",
    "TrainedProcess",
    "augment_inputs",
    "decompose",
    "fourier_irreps",
    "pull_over_time",
]
