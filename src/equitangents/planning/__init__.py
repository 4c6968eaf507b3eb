"""How many members does an ensemble need? Planned from theory, before a network is trained."""

from equitangents.planning.alternatives import Alternative
from equitangents.planning.members import plan_ensemble
from equitangents.planning.pilot import PilotRatios, Ratio
from equitangents.planning.plan import Plan

__all__ = ["Alternative", "PilotRatios", "Plan", "Ratio", "plan_ensemble"]
