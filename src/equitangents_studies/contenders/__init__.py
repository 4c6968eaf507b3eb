"""Ways to make a classifier invariant, behind one interface, found by name."""

from equitangents_studies.contenders.contender import Problem
from equitangents_studies.contenders.machines import Averaged
from equitangents_studies.contenders.outcome import run
from equitangents_studies.contenders.registry import find, names, register

__all__ = [
    "Averaged",
    "Problem",
    "find",
    "names",
    "register",
    "run",
]
