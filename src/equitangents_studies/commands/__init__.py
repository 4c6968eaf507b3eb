"""Subcommands of `equitangents` that belong to studies and learning systems; they start without JAX."""

from equitangents_studies.commands.studies import list_studies, reproduce
from equitangents_studies.commands.systems import systems

COMMANDS = {"list": list_studies, "reproduce": reproduce, "systems": systems}

__all__ = ["COMMANDS"]
