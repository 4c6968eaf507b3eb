"""A hook of mkdocs: a table of questions and answers as a flow chart, drawn where a page says <!-- chart -->.

The table stays below as the chart in words. Each row is a question and, for yes, a link and some words after it; no
leads to the next row, and the last row has no question.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any
from xml.sax.saxutils import escape

MARK = "<!-- chart -->"
ROW = re.compile(
    r"^\| (?P<question>[^|]*?) ?\| \[(?P<name>[^]]+)\]\((?P<link>[^)]+)\)(?P<words>[^|]*)\|$", re.MULTILINE
)
_LETTERS = (25, 16)  # in a line of a question, of an answer
_LINE, _GAP = 16, 22  # heights
_LEFT, _WIDTH, _RIGHT, _ANSWER = 2, 190, 232, 144


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the chart in; raises ValueError where a page asks for one and has no table for it."""
    if MARK not in markdown:
        return markdown
    rows = [row.groupdict() for row in ROW.finditer(markdown.split(MARK)[1])]
    if not rows:
        raise ValueError(f"{MARK} is not followed by a table of questions and answers")
    return markdown.replace(MARK, chart(rows))


def chart(rows: list[dict[str, str]]) -> str:
    """The questions below one another, their answers beside them, in 380 units of width: that of a telephone."""
    parts, top = [], 2
    for row in rows:
        question = textwrap.wrap(row["question"], _LETTERS[0])
        answer = textwrap.wrap(row["name"], _LETTERS[1])
        words = textwrap.wrap(row["words"].strip(), _LETTERS[1] + 4)
        high = max(len(question), len(answer) + len(words)) * _LINE + 16
        middle = top + high // 2
        if question:
            parts += [
                f'<rect class="question" x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{high}" rx="8"/>',
                _lines(question, _LEFT + 10, middle),
                f'<path class="line" marker-end="url(#arrow)" d="M{_LEFT + _WIDTH} {middle}H{_RIGHT - 3}"/>',
                f'<text class="said" x="{_LEFT + _WIDTH + 6}" y="{middle - 5}">yes</text>',
            ]
        left, width = (_RIGHT, _ANSWER) if question else (_LEFT, _WIDTH)
        link = re.sub(r"\.md(?=#|$)", ".html", row["link"])
        parts += [
            f'<rect class="answer" x="{left}" y="{top}" width="{width}" height="{high}" rx="8"/>',
            f'<a href="{link}">{_lines(answer, left + 10, middle - len(words) * _LINE / 2)}</a>',
            _lines(words, left + 10, middle + len(answer) * _LINE / 2, "said"),
        ]
        top += high
        if row is not rows[-1]:
            x = _LEFT + 24
            parts += [
                f'<path class="line" marker-end="url(#arrow)" d="M{x} {top}V{top + _GAP - 3}"/>',
                f'<text class="said" x="{x + 6}" y="{top + 14}">no</text>',
            ]
            top += _GAP
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path class="line" d="M0 0L5 3L0 6"/></marker></defs>'
    )
    shown = "".join(part for part in parts if part)
    title = "<title>Which method: the table below as a chart</title>"
    return f'<svg class="chart" viewBox="0 0 380 {top + 2}" role="img">{title}{arrow}{shown}</svg>'


def _lines(lines: list[str], x: float, middle: float, kind: str = "") -> str:
    """Lines of text about the height `middle`."""
    first = middle - (len(lines) - 1) * _LINE / 2 + 4
    each = "".join(f'<tspan x="{x}" y="{first + i * _LINE:g}">{escape(line)}</tspan>' for i, line in enumerate(lines))
    return f'<text class="{kind}">{each}</text>' if lines else ""
