"""Gram matrices beyond one machine: tiles on disk, computed by any number of workers."""

from equitangents.scale.gram import GramStore

__all__ = ["GramStore"]
