"""A piece of a page that moves through training time: functions on the plane as maps, and along a circle as curves."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.errors import ShapeError
from equitangents.report.palette import Colour
from equitangents.report.render import Widget, environment


@dataclass(frozen=True, eq=False)
class Map:
    """A function on a square, one frame a time; `notes` is a line of text under it for each frame."""

    title: str
    values: Float[np.ndarray, "times rows columns"]
    notes: Sequence[str]


@dataclass(frozen=True, eq=False)
class Curves:
    """Functions of an angle, one frame a time, drawn alike: `(T, curves, angles)`."""

    title: str
    values: Float[np.ndarray, "times curves angles"]
    colour: Colour
    width: float = 2.0
    dash: str = ""


@dataclass(frozen=True, eq=False)
class View:
    """What is shown together; a reader chooses one of several views, which hold the same titles in the same order."""

    title: str
    maps: Sequence[Map]
    curves: Sequence[Curves]


def time_slider(
    name: str,
    caption: str,
    *,
    times: Sequence[str],
    views: Sequence[View],
    limit: float,
    period: int,
    circle: float | None = None,
    start: int = 0,
) -> Widget:
    """A slider over `times` above the maps and curves of a view, which share the range −limit to limit.

    Maps are stored as one byte a value, in 253 levels; angles run from 0 to 360° inclusive, with a mark every
    360°/`period`; `circle` is the radius, as a fraction of half a map's width, of the circle that the curves follow;
    `start` is the frame shown first.
    Raises ShapeError where the frames do not match the times.
    """
    titles = [item.title for item in _items(views[0])]
    for view in views:
        if [item.title for item in _items(view)] != titles:
            raise ShapeError(f"view {view.title!r} does not show the same as {views[0].title!r}: {titles}")
        for item in _items(view):
            if len(item.values) != len(times):
                raise ShapeError(f"{item.title!r} has {len(item.values)} frames; there are {len(times)} times")
    data = {
        "times": list(times),
        "limit": limit,
        "period": period,
        "circle": circle,
        "start": start,
        "views": [_view(view, limit) for view in views],
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    html = environment().get_template("time_slider.html.jinja").render(name=name, data=text)
    return Widget(name=name, caption=caption, html=html)


def _items(view: View) -> list[Map | Curves]:
    return [*view.maps, *view.curves]


def _view(view: View, limit: float) -> dict[str, Any]:
    maps = [
        {
            "title": m.title,
            "size": list(m.values.shape[1:]),
            "bytes": _encode(m.values / limit),
            "notes": list(m.notes),
        }
        for m in view.maps
    ]
    curves = [
        {
            "title": c.title,
            "values": np.round(c.values, 3).tolist(),
            "colour": f"var(--{c.colour.name})",
            "width": c.width,
            "dash": c.dash,
        }
        for c in view.curves
    ]
    return {"title": view.title, "maps": maps, "curves": curves}


def _encode(values: np.ndarray) -> str:
    """Values in [−1, 1] as bytes 1 to 255 around 128, in base64; larger ones are clipped."""
    return base64.b64encode(np.round(128 + 127 * np.clip(values, -1, 1)).astype(np.uint8).tobytes()).decode("ascii")
