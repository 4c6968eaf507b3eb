"""Figures in one style, and reports that are one file."""

from equitangents.report import figures, palette
from equitangents.report.numbers import format_number, with_interval
from equitangents.report.render import Figure, Section, Table, environment, write

__all__ = [
    "Figure",
    "Section",
    "Table",
    "environment",
    "figures",
    "format_number",
    "palette",
    "with_interval",
    "write",
]
