"""Ways to make a classifier invariant, behind one interface, found by name."""

from equitangents_studies.contenders.contender import Problem
from equitangents_studies.contenders.machines import Averaged
from equitangents_studies.contenders.outcome import run
from equitangents_studies.contenders.registry import find, names, register
from equitangents_studies.former_names import with_former

__all__ = [
    "Averaged",
    "Problem",
    "find",
    "names",
    "register",
    "run",
]

FORMER = {
    "contender": "Contender Entry",
    "networks": "Canonicalised",
    "outcome": "Cost Outcome",
    "turned_filters": "TurnedFilters",
}
__getattr__ = with_former(__name__, None, FORMER)
