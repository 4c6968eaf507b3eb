"""The page of a report, which loads nothing: its table, figures, pictures of inputs, and settings."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.image import imsave

from equitangents.audit.report import charts
from equitangents.audit.report.numbers import ends, folded, number
from equitangents.audit.report.part_sections import LAYER_REASONS
from equitangents.audit.report.rows import HEAD, STATES, first_line, rows
from equitangents.audit.report.sections import OrbitPoint, Witness
from equitangents.report.palette import COLOURS
from equitangents.report.render import environment

if TYPE_CHECKING:
    from equitangents.audit.report.result import AuditReport

_MOST_DRAWN = 400


def html(report: AuditReport) -> str:
    """The page of a report; it loads nothing."""
    turned = sorted((e for e in report.elements if e.angle is not None), key=lambda e: (e.angle or 0.0) % 360)
    others = sorted((e for e in report.elements if e.angle is None), key=lambda e: -e.shown.estimate.mean)
    jinja = environment()
    jinja.filters.update(number=number, ends=ends, folded=folded)
    return jinja.get_template("audit.html.jinja").render(
        report=report,
        state=STATES[report.verdict],
        first_line=first_line(report),
        head=HEAD,
        rows=[row.cells for row in rows(report)],
        headline=report.shown,
        unit=report.unit,
        layer_reasons=LAYER_REASONS,
        elements=[*turned, *others],
        witnesses=[(witness, cells(witness)) for witness in report.witnesses],
        charts={
            "angles": turned and charts.elements(turned, report.unit, "angles"),
            "elements": others and charts.elements(others[:_MOST_DRAWN], report.unit, "elements"),
            "layers": report.layers and report.layers.layers and charts.layers(report.layers),
            "ensemble": report.ensemble and report.ensemble.sizes and charts.ensemble(report.ensemble),
            "checkpoints": len(report.checkpoints) > 1 and charts.checkpoints(report.checkpoints, report.unit),
        },
        curves=[(t, charts.curve(t, i)) for i, t in enumerate(report.transforms)],
        version=report.versions.get("equitangents", ""),
        colours=COLOURS,
    )


@dataclass(frozen=True)
class Cell:
    """One point of an orbit as the page shows it."""

    label: str
    picture: str | None
    """A PNG as a data address; None if the input is not an image."""
    prediction: str
    error: float
    identity: bool


def cells(witness: Witness) -> list[Cell]:
    """Every point of the witness's orbit, on a common scale of grey."""
    images = [_image(point, witness.image_layout) for point in witness.orbit]
    shown = [image for image in images if image is not None]
    low, high = (min(i.min() for i in shown), max(i.max() for i in shown)) if shown else (0.0, 1.0)
    return [
        Cell(
            label=point.label,
            picture=None if image is None else _png(image, float(low), float(high)),
            prediction=_prediction(point.prediction),
            error=point.error,
            identity=k == 0,
        )
        for k, (point, image) in enumerate(zip(witness.orbit, images, strict=True))
    ]


def _png(image: Float[np.ndarray, "rows columns channels"], low: float, high: float) -> str:
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


def _prediction(values: Sequence[float] | None) -> str:
    """A few numbers, or the place of the largest of many."""
    if values is None:
        return ""
    if len(values) > 4:
        return f"largest output: {int(np.argmax(values))}"
    return ", ".join(f"{v:.3g}" for v in values).replace("-", "−")
