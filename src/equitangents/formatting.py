"""Numbers as text, and cells of tables for spreadsheets.

A spreadsheet runs a cell that begins with = + - @, a tab or a newline, such as a file name or a label. Such a text is
written with an apostrophe before it, and read back without. Numbers are not formulas, and stay.
"""

from __future__ import annotations

from typing import Any

_RUN = tuple("=+-@\t\r\n")


def formatted(value: float, spec: str) -> str:
    """A number in a format of Python, with the minus sign U+2212 and a space before the per cent sign.

    >>> formatted(0.98, ".1%"), formatted(-19.34, "+.1f")
    ('98.0 %', '−19.3')
    """
    return format(value, spec).replace("-", "−").replace("%", " %")


def memory_size(number: float) -> str:
    """A number of bytes as text, in powers of 1,000.

    >>> memory_size(640), memory_size(1_280_000), memory_size(2e12)
    ('640 B', '1.28 MB', '2 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def duration(seconds: float) -> str:
    """A duration in seconds as text.

    >>> duration(0.0031), duration(2.44), duration(39.6), duration(700), duration(9000)
    ('3.1 ms', '2.4 s', '40 s', '12 min', '2.5 h')
    """
    if 0 < seconds < 0.9995:
        return _two_digits(1000 * seconds, "ms")
    if seconds < 90:
        return _two_digits(seconds, "s")
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _two_digits(number: float, unit: str) -> str:
    return f"{number:.2g} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def quoted(value: Any) -> Any:
    """A cell as written: text that a spreadsheet would run gets an apostrophe, all else is unchanged.

    >>> quoted("=1+1"), quoted("-1.5"), quoted("crow"), quoted(-2)
    ("'=1+1", '-1.5', 'crow', -2)
    """
    return f"'{value}" if isinstance(value, str) and _is_run(value) else value


def unquoted(text: str) -> str:
    """Inverse of `quoted`.

    >>> unquoted(quoted("=1+1")), unquoted(quoted("'=1+1")), unquoted("'tis")
    ('=1+1', "'=1+1", "'tis")
    """
    return text[1:] if text.startswith("'") and _is_run(text) else text


def _is_run(text: str) -> bool:
    """Whether a spreadsheet would run the text without its leading apostrophes, so that `unquoted` inverts `quoted`."""
    bare = text.lstrip("'")
    try:
        float(bare)
    except ValueError:
        return bare.startswith(_RUN)
    return False
