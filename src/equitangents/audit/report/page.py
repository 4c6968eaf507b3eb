"""From a report to its page, which loads nothing: what is drawn, what the template says, what moves in the script."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from equitangents.audit.report import charts
from equitangents.audit.report.drawings import (
    CENTRE,
    RADIUS,
    Polar,
    between,
    cells,
    count,
    polar,
    relative,
    share,
    turns,
)
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.numbers import of
from equitangents.audit.report.part_sections import IrrepSection
from equitangents.audit.report.sections import ElementResult
from equitangents.audit.report.text import before_probabilities, folded, how_known
from equitangents.audit.report.words import badge, by_hand, rule_said
from equitangents.report.palette import COLOURS
from equitangents.report.render import environment

_MOST_COLUMNS = 400


def html(report: Findings) -> str:
    """The page of a report; it loads nothing."""
    turned = turns(report.elements)
    others = sorted((e for e in report.elements if e.angle is None), key=lambda e: -e.shown.estimate.mean)
    circle = polar(turned) if turned else None
    jinja = environment()
    jinja.filters.update(relative=relative, share=share, between=between, count=count, folded=folded, how=how_known)
    jinja.filters.update(rule_said=rule_said, by_hand=by_hand)
    headline = report.shown
    return jinja.get_template("audit.html.jinja").render(
        report=report,
        badge=badge(report.verdict, headline, report.sets),
        headline=headline,
        unit=report.unit_said,
        circle=circle,
        columns=charts.columns(others[:_MOST_COLUMNS]) if others else None,
        unseen=max(0, len(others) - _MOST_COLUMNS),
        elements=[*turned, *others],
        witnesses=[(witness, cells(witness)) for witness in report.witnesses],
        charts=_charts(report),
        curves=[(t, charts.curve(t, i)) for i, t in enumerate(report.transforms)],
        facts=_facts(report),
        before_probabilities=before_probabilities(report),
        data=_data([*turned, *others], circle, report),
        version=report.versions.get("equitangents", ""),
        colours=COLOURS,
    )


def _charts(report: Findings) -> dict[str, str]:
    found = {
        "layers": report.layers and report.layers.layers and charts.layers(report.layers),
        "ensemble": report.ensemble and report.ensemble.sizes and charts.ensemble(report.ensemble),
        "irreps": report.irreps and _is_broken(report.irreps) and charts.irreps(report.irreps),
        "checkpoints": len(report.checkpoints) > 1 and charts.checkpoints(report.checkpoints, report.unit_said),
    }
    return {name: drawing if isinstance(drawing, str) else "" for name, drawing in found.items()}


def _is_broken(section: IrrepSection) -> bool:
    """Whether there is a part of the signal outside the trivial irrep, which can be drawn by shares."""
    return bool(section.shares) and section.violation_share > 0


def _facts(report: Findings) -> dict[str, str]:
    contract, orbit, headline = report.contract, report.orbit, report.shown
    mean = headline.error.estimate
    drawn = "all" if contract.complete else "the first that were measured" if report.partial else "drawn at random"
    facts = {
        "Group": contract.group,
        "Elements tried": f"{count(contract.elements)}, {drawn}",
        "Inputs": count(report.settings.inputs),
        f"Mean error, {report.unit_said}": f"{relative(mean.mean)} ({between(mean)})",
    }
    other = {"norm": of("spread"), "spread": of("norm")}.get(headline.unit)
    spread = report.relative.error_by_spread
    if other is not None and spread is not None:
        second = (spread if headline.unit == "norm" else report.error).estimate
        facts[f"The same, {other}"] = f"{relative(second.mean)} ({between(second)})"
    facts |= {"Floor": relative(headline.floor), "Worst": relative(headline.error.worst)}
    if headline.tolerance is not None:
        facts["Tolerance"] = relative(headline.tolerance)
    if orbit.same_predictions is not None:
        facts["Same prediction for moved inputs"] = share(orbit.same_predictions.mean)
    return facts


def _data(elements: Sequence[ElementResult], circle: Polar | None, report: Findings) -> str:
    """What the script reads, as JSON that may stand inside a script element."""
    order = {id(e): i for i, e in enumerate(report.elements)}
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
        "checkpoints": [
            {
                "said": f"{c.label}: mean error {relative(c.shown.mean)} {report.unit_said}",
                "errors": [drawn(c.shown_elements[order[id(e)]]) for e in elements],
            }
            for c in report.checkpoints
            if len(c.elements) == len(elements)
        ],
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _say(e: ElementResult) -> str:
    mean = e.shown.estimate
    said = f"{e.label}: mean {relative(mean.mean)} ({between(mean)}), floor {relative(e.shown_floor)}"
    return (
        said if e.same_prediction is None else f"{said}, same prediction for {share(e.same_prediction)} of the inputs"
    )
