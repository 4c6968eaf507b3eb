"""The page's own drawings, in the few pieces of SVG that they are made of; colours are the page's CSS variables.

The error over the angle: the mean, where 90 % of the inputs lie, and the floor, around a circle. An input moved along
its orbit: what the model saw, as pictures, and what it answered, as bars.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float
from matplotlib.image import imsave

from equitangents.audit.report.numbers import number
from equitangents.audit.report.sections import ElementResult, OrbitPoint, Witness

Point = tuple[float, float]
_TICKS = 4


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


def nice_ticks(limit: float) -> list[float]:
    """Round numbers from above 0 to at least `limit`, at most 5 of them.

    >>> nice_ticks(0.034)
    [0.01, 0.02, 0.03, 0.04]
    """
    if not limit > 0:
        return [1.0]
    power = 10.0 ** math.floor(math.log10(limit / _TICKS))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if limit / (s * power) <= _TICKS + 1e-9)
    return [round(step * k, 12 - math.floor(math.log10(step))) for k in range(1, math.ceil(limit / step - 1e-9) + 1)]


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value), quote=True)


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
    rings = nice_ticks(largest(v for e in elements for v in (e.shown.q95, e.shown.estimate.high, e.shown_floor)))
    limit = rings[-1]
    parts = [_grid(rings)]
    alone = len(elements) <= SPOKES
    parts.append(_spokes(elements, limit) if alone else _joined(elements, limit))
    parts.append(_numbers(rings))
    parts.append(tag("line", x1=CENTRE, y1=CENTRE, x2=CENTRE, y2=CENTRE, class_="hand"))
    parts.append(tag("circle", r=5.5, cx=CENTRE, cy=CENTRE, class_="here"))
    worst = max(elements, key=lambda e: e.shown.estimate.mean)
    said = (
        f"Relative error over the angle of {len(elements)} turns; the largest mean is "
        f"{number(worst.shown.estimate.mean)} at {worst.angle:.4g} degrees. The table below holds every number."
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
    return "".join(label(number(r), x + 2, y + 4, "start", class_="tick over") for r, (x, y) in places)


def _spokes(elements: Sequence[ElementResult], limit: float) -> str:
    parts = []
    for e in elements:
        angle, mean = e.angle or 0.0, e.shown.estimate.mean
        ends = [place(angle, value, limit) for value in (0.0, mean, e.shown.q05, e.shown.q95)]
        (x0, y0), (x, y), (xa, ya), (xb, yb) = ends
        parts.append(tag("line", x1=xa, y1=ya, x2=xb, y2=yb, class_="spread"))
        parts.append(tag("line", x1=x0, y1=y0, x2=x, y2=y, class_="stem"))
        parts.append(tag("circle", cx=x, cy=y, r=4.0, class_="dot"))
        half = min(6.0, 0.4 * 360 / len(elements))
        parts.append(
            tag(
                "path",
                d=path(place(angle + s * half, e.shown_floor, limit) for s in (-1, -0.5, 0, 0.5, 1)),
                class_="floor alone",
            )
        )
    return "".join(parts)


def _joined(elements: Sequence[ElementResult], limit: float) -> str:
    line = lambda values: [place(e.angle or 0.0, v, limit) for e, v in zip(elements, values, strict=True)]
    upper, lower = line(e.shown.q95 for e in elements), line(e.shown.q05 for e in elements)
    ring = path(upper, closed=True) + path(reversed(lower), closed=True)
    return "".join(
        (
            tag("path", d=ring, class_="band"),
            tag("path", d=path(line(e.shown_floor for e in elements), closed=True), class_="floor"),
            tag("path", d=path(line(e.shown.estimate.mean for e in elements), closed=True), class_="mean"),
        )
    )


MOST_BARS = 40
_TALL = 40.0  # height of the bars' drawing, 100 wide


@dataclass(frozen=True)
class Cell:
    """One point of the orbit as the page shows it."""

    label: str
    picture: str | None
    """A PNG as a data address; None if the input is not an image."""
    bars: str | None
    """The prediction drawn; None if it is not small."""
    said: str
    """The prediction in words."""
    error: float
    identity: bool


def cells(witness: Witness) -> list[Cell]:
    """Every point of the witness's orbit, on common scales of grey and of bars."""
    images = [_image(point, witness.image_layout) for point in witness.orbit]
    shown = [image for image in images if image is not None]
    low, high = (min(i.min() for i in shown), max(i.max() for i in shown)) if shown else (0.0, 1.0)
    values = [v for point in witness.orbit for v in point.prediction or []]
    largest, signed = max(map(abs, values), default=1.0) or 1.0, min(values, default=0.0) < 0
    return [
        Cell(
            label=point.label,
            picture=None if image is None else png(image, float(low), float(high)),
            bars=_bars(point.prediction, largest, signed),
            said=_say(point.prediction),
            error=point.error,
            identity=k == 0,
        )
        for k, (point, image) in enumerate(zip(witness.orbit, images, strict=True))
    ]


def png(image: Float[np.ndarray, "rows columns channels"], low: float, high: float) -> str:
    """An image with 1 or 3 channels as a data address; `low` is black and `high` is white."""
    unit = np.clip((image - low) / ((high - low) or 1.0), 0, 1)
    pixels = np.round(255 * np.broadcast_to(unit, (*unit.shape[:2], 3))).astype(np.uint8)
    stream = io.BytesIO()
    imsave(stream, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _image(point: OrbitPoint, layout: str | None) -> np.ndarray | None:
    """The first input as (rows, columns, 1 or 3 channels); None if it is not an image."""
    if layout is None or not point.inputs:
        return None
    image = np.asarray(next(iter(point.inputs.values())), dtype=np.float64)
    if image.ndim == 2:
        image = image[..., None]
    elif image.ndim == 3 and layout == "channels_first":
        image = np.moveaxis(image, 0, -1)
    if image.ndim != 3:
        return None
    # Other numbers of channels have no colours of their own: their mean is shown.
    return image if image.shape[-1] in (1, 3) else image.mean(axis=-1, keepdims=True)


def _bars(prediction: Sequence[float] | None, largest: float, signed: bool) -> str | None:
    if prediction is None or not 1 < len(prediction) <= MOST_BARS:
        return None
    top = int(np.argmax(prediction))
    wide = 100 / len(prediction)
    zero = _TALL / 2 if signed else _TALL
    most = zero - 1
    parts = [tag("line", x1=0.0, x2=100.0, y1=zero, y2=zero, class_="ring")]
    for i, value in enumerate(prediction):
        height = most * abs(value) / largest
        parts.append(
            tag(
                "rect",
                x=i * wide + 0.12 * wide,
                y=zero - height if value >= 0 else zero,
                width=0.76 * wide,
                height=height,
                class_="top" if i == top else "bar",
            )
        )
    return tag("svg", "".join(parts), viewBox=f"0 0 100 {_TALL:g}", role="img", aria_label=_say(prediction))


def _say(prediction: Sequence[float] | None) -> str:
    if prediction is None:
        return ""
    if len(prediction) == 1:
        return f"{prediction[0]:.3g}".replace("-", "−")
    if len(prediction) <= 4:
        return "(" + ", ".join(f"{v:.2g}".replace("-", "−") for v in prediction) + ")"
    return f"largest output: {int(np.argmax(prediction))}"
