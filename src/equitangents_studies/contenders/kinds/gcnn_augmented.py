"""One group-convolutional network, trained on moved images: what resampling takes from invariance can be learnt."""

from __future__ import annotations

from equitangents_studies.contenders.kinds import gcnn
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.trained import TrainedNetworks

TITLE = "group-convolutional network, on turned images"


def make(problem: Problem) -> TrainedNetworks:
    """The network of the kind `gcnn`; every image is moved by a random element whenever it is seen."""
    return TrainedNetworks(gcnn.network(problem), problem, augmented=True)
