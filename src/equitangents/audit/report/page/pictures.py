"""An input moved along its orbit: what the model saw, as pictures, and what it answered, as bars."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.image import imsave

from equitangents.audit.report.page.svg import tag
from equitangents.audit.report.sections import OrbitPoint, Witness

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
