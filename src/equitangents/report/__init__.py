"""Figures in one style, and reports that are one file."""

from equitangents.report import figures, palette, time_slider
from equitangents.report.page import Figure, Page, Section, Table, Widget
from equitangents.report.render import environment, outside_resources, render, write
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
    "outside_resources",
    "palette",
    "plain_number",
    "render",
    "time_slider",
    "with_interval",
    "write",
]
