"""An audit as one HTML page that loads nothing: plots that follow their sliders, and the same as tables."""

from equitangents.audit.report.page.build import html

__all__ = ["html"]
