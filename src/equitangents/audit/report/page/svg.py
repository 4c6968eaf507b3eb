"""The few pieces of SVG that the page's own drawings are made of; colours are the page's CSS variables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

Point = tuple[float, float]


def tag(name: str, inner: str = "", **attributes: object) -> str:
    """One element; `_` in attribute names stands for `-`, a trailing `_` is dropped, numbers get two decimals."""
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{_text(value)}"' for key, value in attributes.items())
    return f"<{name}{pairs}>{inner}</{name}>"


def label(text: str, x: float, y: float, anchor: str = "middle", **attributes: object) -> str:
    """A text element at (x, y), with special characters escaped."""
    return tag("text", escape(text), x=x, y=y, text_anchor=anchor, **attributes)


def path(points: Iterable[Point], closed: bool = False) -> str:
    """The `d` of a polyline."""
    corners = "L".join(f"{x:.2f} {y:.2f}" for x, y in points)
    return f"M{corners}{'Z' if closed else ''}" if corners else ""


def largest(values: Iterable[float]) -> float:
    """The largest finite value, 1 if there is none; errors are infinite where an output vanishes."""
    return max((v for v in values if math.isfinite(v)), default=1.0)


def nice_ticks(limit: float, most: int = 4) -> list[float]:
    """Round numbers from above 0 to at least `limit`, at most `most` + 1 of them.

    >>> nice_ticks(0.034)
    [0.01, 0.02, 0.03, 0.04]
    """
    if not limit > 0:
        return [1.0]
    power = 10.0 ** math.floor(math.log10(limit / most))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if limit / (s * power) <= most + 1e-9)
    return [round(step * k, 12 - math.floor(math.log10(step))) for k in range(1, math.ceil(limit / step - 1e-9) + 1)]


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value), quote=True)
