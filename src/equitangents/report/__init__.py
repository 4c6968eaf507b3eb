"""Figures in one style, and reports that are one file."""

from typing import TYPE_CHECKING

from equitangents.former import former_names
from equitangents.report import figures, palette, time_slider
from equitangents.report.render import Figure, Page, Section, Table, Widget, environment, render, write
from equitangents.report.verdict import (
    EXACT,
    FAILS,
    HOLDS,
    IN_ERRORS,
    ORIGINS,
    P_VALUE,
    SINGLE,
    UNDECIDED,
    Decision,
    Origin,
    Verdict,
    format_number,
    plain_number,
    with_interval,
)

__all__ = [
    "EXACT",
    "FAILS",
    "HOLDS",
    "IN_ERRORS",
    "ORIGINS",
    "P_VALUE",
    "SINGLE",
    "UNDECIDED",
    "Decision",
    "Figure",
    "Origin",
    "Page",
    "Section",
    "Table",
    "Verdict",
    "Widget",
    "environment",
    "figures",
    "format_number",
    "palette",
    "plain_number",
    "render",
    "time_slider",
    "with_interval",
    "write",
]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
