"""What reports show in notebooks: a small table of facts, in HTML made by hand."""

from __future__ import annotations

import html
from collections.abc import Iterable


def table(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A table of names and values under a title.

    >>> table("Audit", [("group", "C4")]).count("<tr>")
    1
    """
    left = 'style="text-align:left"'
    cells = ((html.escape(name), html.escape(str(value))) for name, value in facts)
    rows = "".join(f"<tr><th {left}>{name}</th><td {left}>{value}</td></tr>" for name, value in cells)
    return f"<table><caption style='text-align:left'><b>{html.escape(title)}</b></caption>{rows}</table>"
