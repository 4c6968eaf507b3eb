"""From a report to its page: what is drawn here, what is said in the template, what moves in the script."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from equitangents.audit.report.page import charts
from equitangents.audit.report.page.columns import columns
from equitangents.audit.report.page.pictures import cells
from equitangents.audit.report.page.polar import CENTRE, RADIUS, Polar, polar, turns
from equitangents.audit.report.page.words import between, count, relative, share
from equitangents.audit.report.sections import ElementResult
from equitangents.audit.report.text import before_probabilities
from equitangents.report.palette import COLOURS
from equitangents.report.render import environment

if TYPE_CHECKING:
    from equitangents.audit.report.result import AuditReport

_VERDICTS = {
    "equivariant": ("holds", "✓", "At the floor"),
    "broken": ("fails", "✗", "Broken"),
    "stochastic": ("undecided", "≈", "Random"),
    "undecided": ("undecided", "?", "Not decidable with this sample"),
}
_MOST_COLUMNS = 400


def html(report: AuditReport) -> str:
    """The page of a report; it loads nothing."""
    turned = turns(report.elements)
    others = sorted((e for e in report.elements if e.angle is None), key=lambda e: -e.error.estimate.mean)
    circle = polar(turned) if turned else None
    jinja = environment()
    jinja.filters.update(relative=relative, share=share, between=between, count=count)
    return jinja.get_template("audit.html.jinja").render(
        report=report,
        badge=_VERDICTS[report.verdict],
        circle=circle,
        columns=columns(others[:_MOST_COLUMNS]) if others else None,
        unseen=max(0, len(others) - _MOST_COLUMNS),
        elements=[*turned, *others],
        witnesses=[(witness, cells(witness)) for witness in report.witnesses],
        charts=_charts(report),
        facts=_facts(report),
        before_probabilities=before_probabilities(report),
        data=_data([*turned, *others], circle, report),
        version=report.versions.get("equitangents", ""),
        colours=COLOURS,
    )


def _charts(report: AuditReport) -> dict[str, str]:
    found = {
        "layers": report.layers and report.layers.layers and charts.layers(report.layers),
        "ensemble": report.ensemble and report.ensemble.sizes and charts.ensemble(report.ensemble),
        "irreps": report.irreps and report.irreps.shares and charts.irreps(report.irreps),
        "checkpoints": len(report.checkpoints) > 1 and charts.checkpoints(report.checkpoints),
    }
    return {name: drawing if isinstance(drawing, str) else "" for name, drawing in found.items()}


def _facts(report: AuditReport) -> dict[str, str]:
    contract, orbit = report.contract, report.orbit
    drawn = "all" if contract.complete else "the first that were measured" if report.partial else "drawn at random"
    facts = {
        "Group": contract.group,
        "Elements tried": f"{count(contract.elements)}, {drawn}",
        "Inputs": count(report.settings.inputs),
        "Mean error": f"{relative(report.error.estimate.mean)} ({between(report.error.estimate)})",
        "Floor": relative(report.floor),
        "Worst": relative(report.error.worst),
    }
    if orbit.same_predictions is not None:
        facts["Same prediction on orbits"] = share(orbit.same_predictions.mean)
    return facts


def _data(elements: Sequence[ElementResult], circle: Polar | None, report: AuditReport) -> str:
    """What the script reads, as JSON that may stand inside a script element."""
    order = {id(e): i for i, e in enumerate(report.elements)}
    far = 2 * circle.limit if circle else 1.0  # where infinite errors are drawn
    drawn = lambda error: error if math.isfinite(error) else far
    data: dict[str, Any] = {
        "centre": CENTRE,
        "radius": RADIUS,
        "limit": circle.limit if circle else None,
        "elements": [
            {"label": e.label, "angle": e.angle, "mean": drawn(e.error.estimate.mean), "said": _say(e)}
            for e in elements
        ],
        "checkpoints": [
            {
                "said": f"{c.label}: mean error {relative(c.error.mean)}",
                "errors": [drawn(c.elements[order[id(e)]]) for e in elements],
            }
            for c in report.checkpoints
            if len(c.elements) == len(elements)
        ],
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _say(e: ElementResult) -> str:
    said = f"{e.label}: mean {relative(e.error.estimate.mean)} ({between(e.error.estimate)}), floor {relative(e.floor)}"
    return (
        said if e.same_prediction is None else f"{said}, same prediction for {share(e.same_prediction)} of the inputs"
    )
