"""One network, trained on moved images."""

from __future__ import annotations

from equitangents.contenders.networks import cnn
from equitangents.contenders.problem import Problem
from equitangents.contenders.trained import TrainedNetworks

TITLE = "one augmented network"


def make(problem: Problem) -> TrainedNetworks:
    """The plain network; every image is moved by a random element whenever it is seen."""
    return TrainedNetworks(cnn(problem), problem, augmented=True)
