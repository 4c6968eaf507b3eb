"""Numbers as text."""

from __future__ import annotations


def superscript(exponent: int) -> str:
    """A whole number as an exponent.

    >>> "10" + superscript(-12)
    '10⁻¹²'
    """
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
