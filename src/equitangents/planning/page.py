"""A plan as one HTML file that loads nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from equitangents import __version__
from equitangents.files import whole_file
from equitangents.planning.drawing import svg
from equitangents.planning.violations import MEASURES
from equitangents.report.palette import COLOURS
from equitangents.report.render import environment

if TYPE_CHECKING:
    from equitangents.planning.plan import Plan


def write(plan: Plan, path: Path) -> Path:
    """Render to `path`, which appears only when it is complete."""
    with whole_file(path) as partial:
        partial.write_text(render(plan), encoding="utf-8")
    return path


def render(plan: Plan) -> str:
    """The page as HTML."""
    rows = [
        (f"{p.members:,}", f"{p.median:.4g}", f"{p.upper:.4g}", "yes" if p.upper <= plan.target else "no")
        for p in plan.curve
    ]
    rows.append(("∞", f"{plan.limit:.4g}", f"{plan.limit:.4g}", "yes" if plan.limit <= plan.target else "no"))
    facts = {
        "Members": "none" if plan.members is None else f"{plan.members:,}",
        "Target": f"{plan.target:g}",
        "Ensembles that meet it": f"{plan.confidence:.0%}",
        "Group elements": str(plan.order),
        "Inputs": str(plan.inputs),
        "Training time": f"{plan.time:g}",
    }
    template = environment().get_template("plan.html.jinja")
    return template.render(
        plan=plan,
        measure=MEASURES[plan.measure].title,
        drawing=svg(plan),
        rows=rows,
        facts=facts,
        version=__version__,
        colours=COLOURS,
    )
