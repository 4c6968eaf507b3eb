"""A report as Markdown that GitHub renders, for summaries of continuous integration."""

from __future__ import annotations

import re
from collections.abc import Sequence

from equitangents.audit.report.findings import Findings
from equitangents.audit.report.judged import before_after, error_of, floor_of, headline_of, unit_of
from equitangents.audit.report.sections import ElementResult
from equitangents.audit.report.text import details, folded, how_known
from equitangents.audit.report.words import badge, interval, number

_SIGNS = {
    "equivariant": "✅",
    "equivariant within tolerance": "✅",
    "broken": "❌",
    "stochastic": "🎲",
    "undecided": "❔",
}
_ROWS = 16
_ACTIVE = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")  # an underscore inside a word is one


def markdown(report: Findings) -> str:
    """The sentence, then tables of elements, sets, layers and remedies."""
    worst_first = sorted(report.elements, key=lambda e: -error_of(e).estimate.mean)
    headline = headline_of(report)
    state = badge(report.verdict, headline)[2]
    shown = [e for e in report.elements if e in worst_first[:_ROWS]]
    parts = [
        f"## {_SIGNS[report.verdict]} Equivariance audit: {escaped(f'{report.model.name}, {report.contract.group}')}",
        f"**{state}.** {escaped(report.sentence)}",
        "\n".join(f"- {escaped(line)}" for line in details(report)),
        f"### Elements, errors {unit_of(report)}"
        + ("" if len(shown) == len(report.elements) else f" (the worst {_ROWS})"),
        table(
            ["element", "mean error", "median", "worst", "floor", ""],
            [
                [
                    folded(e.label),
                    interval(error_of(e).estimate),
                    number(error_of(e).median),
                    number(error_of(e).worst),
                    number(floor_of(e)),
                    _state(e, headline.tolerance),
                ]
                for e in shown
            ],
        ),
    ]
    if report.layers is not None:
        rows = [
            [folded(r.name), r.kind, number(r.error), number(r.floor), Marked("**breaks**" if r.broken else "")]
            for r in report.layers.layers
        ]
        parts += ["### Layers", table(["layer", "kind", "error", "floor", ""], rows)]
    if report.remedies:
        value = lambda e: "" if e is None else interval(e)
        rows = [[m.name, *map(value, before_after(m)), m.cost, how_known(m)] for m in report.remedies]
        parts += ["### Remedies", table(["remedy", "error now", "then", "cost", "how this is known"], rows)]
    if report.missing:
        parts += ["### Left out", "\n".join(f"- {escaped(m.section)}: {escaped(m.reason)}" for m in report.missing)]
    return "\n\n".join(parts) + "\n"


def _state(e: ElementResult, tolerance: float | None) -> str:
    """What the last column says of an element."""
    if e.at_floor:
        return "at the floor"
    return Marked("**above**") if tolerance is None or e.above else f"not above {number(tolerance)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown: header, rule, and one line a row; cells are escaped but where they are `Marked`."""
    line = lambda cells: "| " + " | ".join(c if isinstance(c, Marked) else escaped(c) for c in cells) + " |"
    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


class Marked(str):
    """Text that is Markdown already."""

    __slots__ = ()


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line: names of models, files and rows may hold anything."""
    text = _ACTIVE.sub(r"\\\g<0>", " ".join(text.splitlines()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
