"""One group-convolutional network: invariance is built in, images are not moved in training."""

from __future__ import annotations

from equitangents_studies.contenders.networks import cnn, count_parameters
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.trained import TrainedNetworks
from equitangents_studies.contenders.turned_filters import TurnedFilters, turned_filters

TITLE = "group-convolutional network"


def network(problem: Problem) -> TurnedFilters:
    """About as many parameters as the plain network. C4 and D4 are exact, C8 and C16 have steerable filters."""
    return turned_filters(problem, count_parameters(cnn(problem), problem.shape))


def make(problem: Problem) -> TrainedNetworks:
    """A single group-convolutional network, untrained."""
    return TrainedNetworks(network(problem), problem)
