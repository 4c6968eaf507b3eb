"""The floor: one network, trained on the images as they are."""

from __future__ import annotations

from equitangents_studies.contenders.networks import cnn
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.trained import TrainedNetworks

TITLE = "one plain network"


def make(problem: Problem) -> TrainedNetworks:
    """Nothing of it knows of the group."""
    return TrainedNetworks(cnn(problem), problem)
