"""One network, trained on moved images."""

from __future__ import annotations

from equitangents_studies.contenders.networks import cnn
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.trained import TrainedNetworks

TITLE = "one augmented network"


def make(problem: Problem) -> TrainedNetworks:
    """The plain network; every image is moved by a random element whenever it is seen."""
    return TrainedNetworks(cnn(problem), problem, augmented=True)
