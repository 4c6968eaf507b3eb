"""Past one machine: Gram matrices as tiles on disk, computed by any number of workers."""

from typing import TYPE_CHECKING

from equitangents.former import former_names
from equitangents.scale.cost import estimate
from equitangents.scale.gram import GramStore

__all__ = ["GramStore", "estimate"]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
