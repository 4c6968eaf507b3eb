"""How many members does an ensemble need? Planned from a pilot of trained networks, or from theory alone."""

from equitangents.planning.alternatives import Alternative
from equitangents.planning.members import plan_ensemble
from equitangents.planning.pilot import Pilot, PilotTraining, Ratio
from equitangents.planning.plan import Plan

__all__ = ["Alternative", "Pilot", "PilotTraining", "Plan", "Ratio", "plan_ensemble"]
