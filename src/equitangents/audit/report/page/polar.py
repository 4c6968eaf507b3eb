"""The error over the angle: the mean, where 90 % of the inputs lie, and the floor, around a circle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from equitangents.audit.report.judged import error_of, floor_of
from equitangents.audit.report.page.svg import Point, label, largest, nice_ticks, path, tag
from equitangents.audit.report.page.words import relative
from equitangents.audit.report.sections import ElementResult

SIZE = 420.0
CENTRE = SIZE / 2
RADIUS = 162.0
_BEYOND = 1.05  # where errors beyond the last ring end, infinite ones too
SPOKES = 24  # up to so many angles stand alone; more are joined by a line


@dataclass(frozen=True)
class Polar:
    """The drawing, and what a script needs to put marks into it."""

    svg: str
    limit: float
    """The error at RADIUS."""


def turns(elements: Sequence[ElementResult]) -> list[ElementResult]:
    """The elements that have an angle, in its order."""
    return sorted((e for e in elements if e.angle is not None), key=lambda e: (e.angle or 0.0) % 360)


def polar(elements: Sequence[ElementResult]) -> Polar:
    """Draw elements that all have an angle, in its order; angles run counter-clockwise from the right."""
    rings = nice_ticks(largest(v for e in elements for v in (error_of(e).q95, error_of(e).estimate.high, floor_of(e))))
    limit = rings[-1]
    parts = [_grid(rings)]
    alone = len(elements) <= SPOKES
    parts.append(_spokes(elements, limit) if alone else _joined(elements, limit))
    parts.append(tag("path", d="", class_="checkpoint alone" if alone else "checkpoint"))
    parts.append(_numbers(rings))
    parts.append(tag("line", x1=CENTRE, y1=CENTRE, x2=CENTRE, y2=CENTRE, class_="hand"))
    parts.append(tag("circle", r=5.5, cx=CENTRE, cy=CENTRE, class_="here"))
    worst = max(elements, key=lambda e: error_of(e).estimate.mean)
    said = (
        f"Relative error over the angle of {len(elements)} turns; the largest mean is "
        f"{relative(error_of(worst).estimate.mean)} at {worst.angle:.4g} degrees. The table below holds every number."
    )
    drawing = tag("svg", "".join(parts), viewBox=f"0 0 {SIZE:g} {SIZE:g}", role="img", aria_label=said)
    return Polar(drawing, limit)


def place(angle: float, error: float, limit: float, stretch: float = 1.0) -> Point:
    """Where an error stands, `stretch` times as far out."""
    turn, length = math.radians(angle), RADIUS * stretch * min(error / limit, _BEYOND)
    return CENTRE + length * math.cos(turn), CENTRE - length * math.sin(turn)


def _grid(rings: Sequence[float]) -> str:
    parts = [tag("circle", cx=CENTRE, cy=CENTRE, r=RADIUS * r / rings[-1], class_="ring") for r in rings]
    for angle in range(0, 360, 45):
        x, y = place(angle, 1.0, 1.0)
        parts.append(tag("line", x1=CENTRE, y1=CENTRE, x2=x, y2=y, class_="ring"))
        x, y = place(angle, 1.0, 1.0, stretch=1.13)
        parts.append(label(f"{angle}°", x, y + 4, class_="tick"))
    return "".join(parts)


def _numbers(rings: Sequence[float]) -> str:
    """The rings' errors, along an angle that few spokes share."""
    places = [(r, place(79.0, r, rings[-1])) for r in rings]
    return "".join(label(relative(r), x + 2, y + 4, "start", class_="tick over") for r, (x, y) in places)


def _spokes(elements: Sequence[ElementResult], limit: float) -> str:
    parts = []
    for e in elements:
        angle, mean = e.angle or 0.0, error_of(e).estimate.mean
        ends = [place(angle, value, limit) for value in (0.0, mean, error_of(e).q05, error_of(e).q95)]
        (x0, y0), (x, y), (xa, ya), (xb, yb) = ends
        parts.append(tag("line", x1=xa, y1=ya, x2=xb, y2=yb, class_="spread"))
        parts.append(tag("line", x1=x0, y1=y0, x2=x, y2=y, class_="stem"))
        parts.append(tag("circle", cx=x, cy=y, r=4.0, class_="dot"))
        half = min(6.0, 0.4 * 360 / len(elements))
        parts.append(
            tag(
                "path",
                d=path(place(angle + s * half, floor_of(e), limit) for s in (-1, -0.5, 0, 0.5, 1)),
                class_="floor alone",
            )
        )
    return "".join(parts)


def _joined(elements: Sequence[ElementResult], limit: float) -> str:
    line = lambda values: [place(e.angle or 0.0, v, limit) for e, v in zip(elements, values, strict=True)]
    upper, lower = line(error_of(e).q95 for e in elements), line(error_of(e).q05 for e in elements)
    ring = path(upper, closed=True) + path(reversed(lower), closed=True)
    return "".join(
        (
            tag("path", d=ring, class_="band"),
            tag("path", d=path(line(floor_of(e) for e in elements), closed=True), class_="floor"),
            tag("path", d=path(line(error_of(e).estimate.mean for e in elements), closed=True), class_="mean"),
        )
    )
