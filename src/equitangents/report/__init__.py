"""Figures in one style, and reports that are one file."""

from equitangents.report import figures, palette, time_slider
from equitangents.report.numbers import format_number, with_interval
from equitangents.report.render import Figure, Section, Table, Widget, environment, render, write

__all__ = [
    "Figure",
    "Section",
    "Table",
    "Widget",
    "environment",
    "figures",
    "format_number",
    "palette",
    "render",
    "time_slider",
    "with_interval",
    "write",
]
