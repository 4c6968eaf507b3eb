"""A report as Markdown that GitHub renders, for summaries of continuous integration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equitangents.audit.report.text import details, interval
from equitangents.audit.report.verdict import number

if TYPE_CHECKING:
    from equitangents.audit.report.result import AuditReport

_SIGNS = {"equivariant": "✅", "broken": "❌", "stochastic": "🎲", "undecided": "❔"}
_ROWS = 16


def markdown(report: AuditReport) -> str:
    """The sentence, then tables of elements, sets, layers and remedies."""
    worst_first = sorted(report.elements, key=lambda e: -e.error.estimate.mean)
    shown = [e for e in report.elements if e in worst_first[:_ROWS]]
    parts = [
        f"## {_SIGNS[report.verdict]} Equivariance audit: {report.model.name}, {report.contract.group}",
        _escaped(report.sentence),
        "\n".join(f"- {_escaped(line)}" for line in details(report)),
        "### Elements" + ("" if len(shown) == len(report.elements) else f" (the worst {_ROWS})"),
        table(
            ["element", "mean error", "median", "worst", "floor", ""],
            [
                [
                    e.label,
                    interval(e.error.estimate),
                    number(e.error.median),
                    number(e.error.worst),
                    number(e.floor),
                    "at the floor" if e.at_floor else "**above**",
                ]
                for e in shown
            ],
        ),
    ]
    if report.layers is not None:
        rows = [
            [r.name, r.kind, number(r.error), number(r.floor), "**breaks**" if r.broken else ""]
            for r in report.layers.layers
        ]
        parts += ["### Layers", table(["layer", "kind", "error", "floor", ""], rows)]
    if report.remedies:
        value = lambda v: "" if v is None else number(v)
        rows = [[r.name, value(r.error_before), value(r.error_after), r.cost, r.note] for r in report.remedies]
        parts += ["### Remedies", table(["remedy", "error now", "then", "cost", "note"], rows)]
    if report.missing:
        parts += ["### Left out", "\n".join(f"- {m.section}: {_escaped(m.reason)}" for m in report.missing)]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table."""
    line = lambda cells: "| " + " | ".join(_escaped(c) for c in cells) + " |"
    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
