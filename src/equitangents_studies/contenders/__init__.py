"""Ways to make a classifier invariant, behind one interface, found by name."""

from equitangents_studies.contenders.contender import Contender, Entry
from equitangents_studies.contenders.machines import Averaged
from equitangents_studies.contenders.networks import Canonicalised
from equitangents_studies.contenders.outcome import Cost, Outcome, run
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.registry import find, names, register
from equitangents_studies.contenders.turned_filters import TurnedFilters

__all__ = [
    "Averaged",
    "Canonicalised",
    "Contender",
    "Cost",
    "Entry",
    "Outcome",
    "Problem",
    "TurnedFilters",
    "find",
    "names",
    "register",
    "run",
]
