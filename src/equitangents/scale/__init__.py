"""Past one machine: Gram matrices as tiles on disk, computed by any number of workers."""

from equitangents.scale.gram import GramStore

__all__ = ["GramStore"]
