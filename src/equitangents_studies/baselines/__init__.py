"""Ways to make a classifier invariant, behind one interface, found by name."""

from equitangents_studies.baselines.baseline import Problem
from equitangents_studies.baselines.machines import Averaged
from equitangents_studies.baselines.outcome import run
from equitangents_studies.baselines.registry import find, names

__all__ = [
    "Averaged",
    "Problem",
    "find",
    "names",
    "run",
]
