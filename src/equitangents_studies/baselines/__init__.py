"""Ways to make a classifier invariant, behind one interface, found by name."""

from equitangents_studies.baselines.baseline import BaselineProblem, run
from equitangents_studies.baselines.networks import AveragedBaseline
from equitangents_studies.baselines.registry import find, names

__all__ = [
    "AveragedBaseline",
    "BaselineProblem",
    "find",
    "names",
    "run",
]
