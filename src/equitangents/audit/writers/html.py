"""A report as one HTML file: tables and text, no scripts, nothing loaded."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from equitangents.audit.verdict import number
from equitangents.audit.writers.text import details, interval

if TYPE_CHECKING:
    from equitangents.audit.result import AuditReport

_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .2rem .8rem .2rem 0; text-align: left; }
th { border-bottom: 1px solid; } pre { overflow-x: auto; font-size: .85rem; } .lead { font-size: 1.2rem; }"""


def html(report: AuditReport) -> str:
    """The whole page."""
    title = f"Equivariance audit: {report.model.name}, {report.contract.group}"
    body = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(report.sentence)}</p>', "<ul>"]
    body += [f"<li>{escape(line)}</li>" for line in details(report)]
    body += ["</ul>", "<h2>Elements</h2>"]
    body.append(
        _table(
            ["element", "mean error", "median", "worst", "floor"],
            [
                [e.label, interval(e.error.estimate), number(e.error.median), number(e.error.worst), number(e.floor)]
                for e in report.elements
            ],
        )
    )
    if report.layers is not None:
        body.append(f"<h2>Layers</h2><p>{escape(report.layers.reason)}</p>")
        rows = [[r.name, r.kind, number(r.error), "breaks" if r.broken else ""] for r in report.layers.layers]
        body.append(_table(["layer", "kind", "error", ""], rows))
    body.append("<h2>Remedies</h2>")
    body.append(_table(["remedy", "cost", "note"], [[r.name, r.cost, r.note] for r in report.remedies]))
    body.append("<h2>Cite</h2>" + "".join(f"<pre>{escape(entry)}</pre>" for entry in report.citations))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
