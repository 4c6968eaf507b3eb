"""Ways to make a classifier invariant, behind one interface, found by name."""

from equitangents.contenders.averaged import Averaged
from equitangents.contenders.canonical import Canonicalised
from equitangents.contenders.outcome import Cost, Outcome, run
from equitangents.contenders.problem import Problem
from equitangents.contenders.protocol import Contender
from equitangents.contenders.registry import Entry, find, names, register
from equitangents.contenders.turned_filters import TurnedFilters

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
