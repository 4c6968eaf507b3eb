"""An ensemble of group-convolutional networks."""

from __future__ import annotations

from equitangents_studies.contenders.kinds import gcnn
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.trained import TrainedNetworks

TITLE = "group-convolutional ensemble"


def make(problem: Problem) -> TrainedNetworks:
    """`group_members` networks of the kind `gcnn`."""
    return TrainedNetworks(gcnn.network(problem), problem, members=problem.group_members)
