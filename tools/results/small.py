"""Files made small enough to be committed: drawings with fewer digits, tables with fewer digits and rows."""

from __future__ import annotations

import csv
import io
import math
import re

LIMIT = 300_000  # bytes

_COORDINATES = re.compile(r'(\s(?:d|x|y|x1|x2|y1|y2|cx|cy|points|width|height)=")([^"]*)(")')
_DIGITS = re.compile(r"(\d+\.\d\d)\d+")


def drawing(svg: str) -> str:
    """SVG with coordinates to a hundredth of a point.

    >>> drawing('<path d="M 1.234567 2" style="0.125"/><text x="3.14159">0.125</text>')
    '<path d="M 1.23 2" style="0.125"/><text x="3.14">0.125</text>'
    """
    return _COORDINATES.sub(lambda m: m[1] + _DIGITS.sub(r"\1", m[2]) + m[3], svg)


def table(text: str, limit: int = LIMIT) -> tuple[str, str]:
    """A table as CSV of at most `limit` bytes, and what was left out for that, in words.

    >>> table("x\\n0.123456789\\n", 12)
    ('x\\n0.123457\\n', 'numbers to 6 digits')
    """
    if _size(text) <= limit:
        return text, ""
    header, *rows = list(csv.reader(io.StringIO(text)))
    rows = [[_rounded(cell) for cell in row] for row in rows]
    if _size(_written([header, *rows])) <= limit or not rows:
        return _written([header, *rows]), "numbers to 6 digits"
    every = math.ceil(_size(_written(rows)) / limit)
    while _size(_written([header, *rows[::every]])) > limit and every < len(rows):
        every += 1
    kept = rows[::every]
    return _written([header, *kept]), f"one row in {every} ({len(kept):,} of {len(rows):,}), numbers to 6 digits"


def _rounded(cell: str) -> str:
    if "." not in cell and "e" not in cell:
        return cell
    try:
        return f"{float(cell):.6g}"
    except ValueError:
        return cell


def _written(rows: list[list[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _size(text: str) -> int:
    return len(text.encode())
