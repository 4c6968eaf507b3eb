"""Numbers as text, and cells of tables that spreadsheets open.

A spreadsheet runs a cell that begins with = + - @, a tab or a line's end, whoever wrote it: the name of a file, or a
label. Such a text has an apostrophe before it, and is read back as it was. Numbers are no formulas, and stay.
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


def superscript(exponent: int) -> str:
    """A whole number as an exponent.

    >>> "10" + superscript(-12)
    '10⁻¹²'
    """
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def memory_size(number: float) -> str:
    """Bytes for people, in powers of 1,000.

    >>> memory_size(640), memory_size(1_280_000), memory_size(2e12)
    ('640 B', '1.28 MB', '2 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def duration(seconds: float) -> str:
    """An estimated time for people.

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
