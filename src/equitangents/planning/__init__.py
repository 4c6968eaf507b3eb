"""How many members does an ensemble need? Planned from a pilot of trained networks, or from theory alone."""

from typing import TYPE_CHECKING

from equitangents.former import former_names
from equitangents.planning.members import plan_ensemble

__all__ = ["plan_ensemble"]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
