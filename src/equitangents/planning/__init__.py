"""How many members does an ensemble need? Planned from a pilot of trained networks, or from theory alone."""

from equitangents.planning.members import plan_ensemble

__all__ = ["plan_ensemble"]
