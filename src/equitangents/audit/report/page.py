"""From a report to its page, which loads nothing: what is drawn, what the template says, what moves in the script."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from equitangents.audit.report import charts
from equitangents.audit.report.drawings import CENTRE, RADIUS, Polar, cells, polar, turns
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.numbers import ends, folded, number
from equitangents.audit.report.part_sections import LAYER_REASONS
from equitangents.audit.report.rows import HEAD, STATES, first_line, rows
from equitangents.audit.report.sections import ElementResult
from equitangents.report.palette import COLOURS
from equitangents.report.render import environment

_MOST_COLUMNS = 400


def html(report: Findings) -> str:
    """The page of a report; it loads nothing."""
    turned = turns(report.elements)
    others = sorted((e for e in report.elements if e.angle is None), key=lambda e: -e.shown.estimate.mean)
    circle = polar(turned) if turned else None
    jinja = environment()
    jinja.filters.update(number=number, ends=ends, folded=folded)
    headline = report.shown
    return jinja.get_template("audit.html.jinja").render(
        report=report,
        state=STATES[report.verdict],
        first_line=first_line(report),
        head=HEAD,
        rows=[row.cells for row in rows(report)],
        headline=headline,
        unit=report.unit,
        layer_reasons=LAYER_REASONS,
        circle=circle,
        columns=charts.columns(others[:_MOST_COLUMNS]) if others else None,
        unseen=max(0, len(others) - _MOST_COLUMNS),
        elements=[*turned, *others],
        witnesses=[(witness, cells(witness)) for witness in report.witnesses],
        charts=_charts(report),
        curves=[(t, charts.curve(t, i)) for i, t in enumerate(report.transforms)],
        data=_data([*turned, *others], circle, report),
        version=report.versions.get("equitangents", ""),
        colours=COLOURS,
    )


def _charts(report: Findings) -> dict[str, str]:
    found = {
        "layers": report.layers and report.layers.layers and charts.layers(report.layers),
        "ensemble": report.ensemble and report.ensemble.sizes and charts.ensemble(report.ensemble),
    }
    return {name: drawing if isinstance(drawing, str) else "" for name, drawing in found.items()}


def _data(elements: Sequence[ElementResult], circle: Polar | None, report: Findings) -> str:
    """What the script reads, as JSON that may stand inside a script element."""
    far = 2 * circle.limit if circle else 1.0  # where infinite errors are drawn
    drawn = lambda error: error if math.isfinite(error) else far
    data: dict[str, Any] = {
        "centre": CENTRE,
        "radius": RADIUS,
        "limit": circle.limit if circle else None,
        "elements": [
            {"label": e.label, "angle": e.angle, "mean": drawn(e.shown.estimate.mean), "said": _say(e)}
            for e in elements
        ],
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _say(e: ElementResult) -> str:
    mean = e.shown.estimate
    return f"{e.label}: {number(mean.mean)} ({ends(mean)}), noise floor {number(e.shown_floor)}"
