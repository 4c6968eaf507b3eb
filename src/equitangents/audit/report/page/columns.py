"""The error of elements that have no angle: one column each, the largest first."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.audit.report.judged import error_of, floor_of
from equitangents.audit.report.page.svg import label, largest, nice_ticks, tag
from equitangents.audit.report.page.words import relative
from equitangents.audit.report.sections import ElementResult

WIDTH, HEIGHT = 860.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 850.0, 12.0, 200.0


def columns(elements: Sequence[ElementResult]) -> str:
    """Mean, 5 to 95 % of the inputs and floor of every element."""
    ticks = nice_ticks(largest(v for e in elements for v in (error_of(e).q95, error_of(e).estimate.high, floor_of(e))))
    y = lambda value: BOTTOM - (BOTTOM - TOP) * min(value / ticks[-1], 1.05)  # infinite errors end above the last tick
    step = (RIGHT - LEFT) / len(elements)
    wide = min(0.62 * step, 34.0)
    parts = []
    for tick in (0.0, *ticks):
        parts.append(tag("line", x1=LEFT, x2=RIGHT, y1=y(tick), y2=y(tick), class_="ring"))
        parts.append(label(relative(tick), LEFT - 8, y(tick) + 4, "end", class_="tick"))
    for i, e in enumerate(elements):
        x, mean = LEFT + (i + 0.5) * step, error_of(e).estimate.mean
        bar = tag("rect", x=x - wide / 2, y=y(mean), width=wide, height=BOTTOM - y(mean), class_="bar")
        spread = tag("line", x1=x, x2=x, y1=y(error_of(e).q05), y2=y(error_of(e).q95), class_="spread")
        floor = tag("line", x1=x - step / 2, x2=x + step / 2, y1=y(floor_of(e)), y2=y(floor_of(e)), class_="floor")
        parts.append(tag("g", bar + spread + floor, class_="column", data_label=e.label))
        if step >= 60:
            parts.append(label(_short(e.label, int(step / 7)), x, BOTTOM + 18, class_="tick"))
    if step < 60:
        parts.append(label("elements, the largest error first", (LEFT + RIGHT) / 2, BOTTOM + 20, class_="tick"))
    said = (
        f"Relative error of {len(elements)} elements, the largest {relative(error_of(elements[0]).estimate.mean)} "
        f"for {elements[0].label}. The table below holds every number."
    )
    return tag("svg", "".join(parts), viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", aria_label=said)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
