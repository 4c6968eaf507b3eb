"""Ways to make a classifier invariant, behind one interface, found by name."""

from equitangents_studies.baselines.baseline import Problem, run
from equitangents_studies.baselines.networks import Averaged
from equitangents_studies.baselines.registry import find, names

__all__ = [
    "Averaged",
    "Problem",
    "find",
    "names",
    "run",
]
