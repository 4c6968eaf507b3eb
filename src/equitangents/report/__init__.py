"""Figures in one style, and reports that are one file."""

from equitangents.report import figures, palette
from equitangents.report.numbers import format_number, with_interval
from equitangents.report.render import Figure, Section, Table, environment, text_of, write

__all__ = [
    "Figure",
    "Section",
    "Table",
    "environment",
    "figures",
    "format_number",
    "palette",
    "text_of",
    "with_interval",
    "write",
]
