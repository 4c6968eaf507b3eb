"""Figures in one style, and reports that are one file."""

from equitangents.report.page import Figure, Page, Section, Table, Widget
from equitangents.report.render import outside_resources, render, write
from equitangents.report.verdict import Verdict

__all__ = ["Figure", "Page", "Section", "Table", "Verdict", "Widget", "outside_resources", "render", "write"]
