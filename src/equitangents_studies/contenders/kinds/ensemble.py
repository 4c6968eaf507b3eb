"""A deep ensemble, trained on moved images."""

from __future__ import annotations

from equitangents_studies.contenders.networks import cnn
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.trained import TrainedNetworks

TITLE = "augmented ensemble"


def make(problem: Problem) -> TrainedNetworks:
    """`members` augmented networks; each has as many parameters as the single one."""
    return TrainedNetworks(cnn(problem), problem, members=problem.members, augmented=True)
