"""The sections of a report's page: its table, figures, pictures of inputs, and settings."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.image import imsave

from equitangents.audit.report import charts
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.numbers import ends, folded, listed, number
from equitangents.audit.report.part_sections import LAYER_REASONS
from equitangents.audit.report.rows import table
from equitangents.audit.report.sections import ElementResult, OrbitPoint
from equitangents.report.numbers import format_number
from equitangents.report.render import Figure, Pictures, Section, Table

_MOST_DRAWN = 400
_ERRORS = (
    "The error is ‖f(ρ(g)x) − ρ(g)f(x)‖. A noise floor is what a perfectly equivariant model would show as well, "
    "because arrays are resampled, numbers rounded or the model is random."
)
_POINTS = "Points: mean over inputs; lines: 5 to 95 % of the inputs; dashes: the noise floor."
_ELEMENT_HEAD = ["element", "mean", "interval", "95 %", "worst", "noise floor", "mean of ‖f(x)‖", "same prediction", ""]
_STRENGTHS = (
    "Mean error against the strength, with its interval over the inputs (band) and its floor (dashes). Such "
    "changes form no group, so nothing is said of their products."
)
_LAYERS = (
    "The error after each layer in the order of execution, against its floor (tick): the smallest that any action on "
    "the layer’s output could have."
)


def sections(report: Findings) -> list[Section]:
    """The sections of the page."""
    return [section for part in (_found, _elements, _witnesses, _curves, _layers, _ensemble, _tested, _settings)
            for section in part(report)]  # fmt: skip


def _found(report: Findings) -> Iterator[Section]:
    yield Section("Findings", shown=[table(report)])


def _elements(report: Findings) -> Iterator[Section]:
    turned = sorted((e for e in report.elements if e.angle is not None), key=lambda e: (e.angle or 0.0) % 360)
    others = sorted((e for e in report.elements if e.angle is None), key=lambda e: -e.shown.estimate.mean)
    shown: list[Figure | Table] = []
    for name, caption, found in (
        ("angles", "Rotations by their angle.", turned),
        ("elements", "Elements without an angle.", others[:_MOST_DRAWN]),
    ):
        if found:
            shown.append(Figure(name, f"{caption} {_POINTS}", charts.elements(found, report.unit, name)))
    shown.append(Table("", _ELEMENT_HEAD, [_element(e) for e in (*turned, *others)]))
    units = f"Errors are {report.unit}."
    yield Section("Error by group element", [_ERRORS, *filter(None, (units, report.shown.reason))], shown)


def _element(e: ElementResult) -> list[str]:
    shown, resampled = e.shown, "" if e.exact else "resampled"
    errors = (shown.q95, shown.worst, e.shown_floor, e.error.estimate.mean, e.same_prediction)
    return [folded(e.label), number(shown.estimate.mean), ends(shown.estimate), *map(number, errors), resampled]


def _witnesses(report: Findings) -> Iterator[Section]:
    for w in report.witnesses:
        title = "The worst input" if w.kind == "worst" else "A typical input"
        images = [_image(point, w.image_layout) for point in w.orbit]
        lines = [[folded(p.label), *filter(None, (_prediction(p.prediction), number(p.error)))] for p in w.orbit]
        text = ["Moved along its orbit, as the model saw it, with its answer and its error."]
        facts = Table("", ["row", "element", "error", "unit"], [[str(w.index), w.label, number(w.error), report.unit]])
        pictured = [image for image in images if image is not None]
        if len(pictured) == len(images):
            low, high = min(i.min() for i in pictured), max(i.max() for i in pictured)
            pictures = [_png(image, float(low), float(high)) for image in pictured]
            yield Section(title, text, [facts, Pictures(list(zip(pictures, lines, strict=True)))])
        else:
            rows = [[folded(p.label), _prediction(p.prediction), number(p.error)] for p in w.orbit]
            yield Section(title, text, [facts, Table("", ["element", "prediction", "error"], rows)])


def _curves(report: Findings) -> Iterator[Section]:
    if report.transforms:
        drawn = [Figure(t.name, _STRENGTHS, charts.curve(t, i)) for i, t in enumerate(report.transforms)]
        yield Section("Over the strength of changes", shown=drawn)


def _layers(report: Findings) -> Iterator[Section]:
    layers = report.layers
    if layers is None:
        return
    shown: list[Figure | Table] = [Figure("layers", _LAYERS, charts.layers(layers))] if layers.layers else []
    yield Section("Layers", [*filter(None, (LAYER_REASONS[layers.reason], layers.guilty))], shown)


def _ensemble(report: Findings) -> Iterator[Section]:
    found = report.ensemble
    if found is not None and found.sizes:
        text = ["Root mean squares over inputs and elements, over the root mean square of ‖f(x)‖."]
        caption = "Error of the mean of M members against M; its excess over the limit is expected to fall as 1/√M."
        yield Section("Members and their mean", text, [Figure("ensemble", caption, charts.ensemble(found))])


def _tested(report: Findings) -> Iterator[Section]:
    contract, sizes = report.contract, lambda shape: " × ".join(map(str, shape))
    rows = [
        ["input", folded(i.name), sizes(i.shape), i.action, "" if i.exact else "resampled", "", ""]
        for i in contract.inputs
    ]
    for o in contract.outputs:
        judged = not (o.vanishes and o.scale is None)
        error = f"{number(o.shown.mean)} {report.unit_of(o)}" if judged else "not judged"
        vanishes = "vanishes" if o.vanishes else ""
        fails = listed(o.fails_under) if judged else ""
        rows.append(["output", folded(o.name), sizes(o.shape), o.action, vanishes, error, fails])
    head = ["", "array", "shape", "how the group acts", "", "error", "fails under"]
    yield Section("What was tested", shown=[Table("", head, rows, text=True)])


def _settings(report: Findings) -> Iterator[Section]:
    model, settings, timing = report.model, report.settings, report.timing
    pairs = {
        "model": model.kind, "type": model.dtype, "device": model.device, "seed": settings.seed,
        "confidence": settings.confidence, "resamples": settings.resamples, "batch": settings.batch_size,
        "inputs evaluated": timing.evaluations, "in calls of the model": timing.batches,
        "passes over the data": format_number(timing.passes), "seconds": format_number(timing.total_seconds),
        "of these inside the model": format_number(timing.model_seconds), **settings.values, **report.versions,
    }  # fmt: skip
    rows = [[name, str(value)] for name, value in pairs.items()]
    yield Section("Settings", shown=[Table("", ["setting", "value"], rows, text=True)])
    if report.citations:
        yield Section("Cite", report.citations)


def _png(image: Float[np.ndarray, "rows columns channels"], low: float, high: float) -> str:
    """An image with 1 or 3 channels as a PNG in base64; `low` is black and `high` is white."""
    unit = np.clip((image - low) / ((high - low) or 1.0), 0, 1)
    pixels = np.round(255 * np.broadcast_to(unit, (*unit.shape[:2], 3))).astype(np.uint8)
    stream = io.BytesIO()
    imsave(stream, pixels, format="png")
    return base64.b64encode(stream.getvalue()).decode("ascii")


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
