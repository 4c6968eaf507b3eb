"""How many members does an ensemble need? Plans from a pilot of trained networks, or from theory."""

from equitangents.planning.members import plan_ensemble

__all__ = ["plan_ensemble"]
