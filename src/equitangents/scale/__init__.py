"""Past one machine: Gram matrices as tiles on disk, computed by any number of workers."""

from equitangents.scale.cost import GramCost, estimate
from equitangents.scale.gram import GramStore
from equitangents.scale.verification import Verification

__all__ = ["GramCost", "GramStore", "Verification", "estimate"]
