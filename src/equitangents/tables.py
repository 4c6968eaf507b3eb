"""Cells of tables that spreadsheets open: a text that one would run as a formula has an apostrophe before it.

A spreadsheet runs a cell that begins with = + - @, a tab or a line's end, whoever wrote it: the name of a file, or a
label. Numbers are no formulas, and stay. What is quoted here is read back as it was.
"""

from __future__ import annotations

from typing import Any

_RUN = tuple("=+-@\t\r\n")


def quoted(value: Any) -> Any:
    """A cell as it is written: a text that would be run with an apostrophe before it, all else as it is.

    >>> quoted("=1+1"), quoted("-1.5"), quoted("crow"), quoted(-2)
    ("'=1+1", '-1.5', 'crow', -2)
    """
    return f"'{value}" if isinstance(value, str) and _is_run(value) else value


def unquoted(text: str) -> str:
    """The text of which `quoted` made this.

    >>> unquoted(quoted("=1+1")), unquoted(quoted("'=1+1")), unquoted("'tis")
    ('=1+1', "'=1+1", "'tis")
    """
    return text[1:] if text.startswith("'") and _is_run(text) else text


def _is_run(text: str) -> bool:
    """Whether a spreadsheet would run it, apostrophes before it aside, which `unquoted` must tell from ours."""
    bare = text.lstrip("'")
    return bare.startswith(_RUN) and not _is_number(bare)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
