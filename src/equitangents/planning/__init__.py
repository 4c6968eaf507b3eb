"""How many members does an ensemble need? Planned from a pilot of trained networks, or from theory alone."""

from equitangents.planning.alternatives import Alternative
from equitangents.planning.members import plan_ensemble
from equitangents.planning.pilot import Pilot, Ratio
from equitangents.planning.plan import Plan
from equitangents.planning.training import PilotTraining

__all__ = ["Alternative", "Pilot", "PilotTraining", "Plan", "Ratio", "plan_ensemble"]
