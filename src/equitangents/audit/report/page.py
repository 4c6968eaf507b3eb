"""The sections of a report's page: its table, figures, pictures of inputs, and settings."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.image import imsave
from matplotlib.ticker import FixedLocator, LogLocator

from equitangents.audit.report.numbers import UNITS, ends, folded, listed, number
from equitangents.audit.report.part_sections import (
    LAYER_REASONS,
    EnsembleSection,
    LayerResult,
    LayerSection,
)
from equitangents.audit.report.rows import table
from equitangents.audit.report.sections import ElementResult, OrbitPoint, TransformResult
from equitangents.report.figures import canvas, inline_figure, label_line, plain_log
from equitangents.report.numbers import format_number
from equitangents.report.palette import BLUE, INK, MEMBER, MUTED, VERMILLION
from equitangents.report.render import Figure, Pictures, Section, Table

if TYPE_CHECKING:
    from equitangents.audit.report.result import AuditReport

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


def sections(report: AuditReport) -> list[Section]:
    """The sections of the page."""
    return [section for part in (_found, _elements, _witnesses, _curves, _layers, _ensemble, _tested, _settings)
            for section in part(report)]  # fmt: skip


def _found(report: AuditReport) -> Iterator[Section]:
    yield Section("AuditReport", shown=[table(report)])


def _elements(report: AuditReport) -> Iterator[Section]:
    turned = sorted((e for e in report.elements if e.angle is not None), key=lambda e: (e.angle or 0.0) % 360)
    others = sorted((e for e in report.elements if e.angle is None), key=lambda e: -e.shown.estimate.mean)
    shown: list[Figure | Table] = []
    for name, caption, found in (
        ("angles", "Rotations by their angle.", turned),
        ("elements", "Elements without an angle.", others[:_MOST_DRAWN]),
    ):
        if found:
            shown.append(Figure(name, f"{caption} {_POINTS}", _draw_elements(found, report.unit, name)))
    shown.append(Table("", _ELEMENT_HEAD, [_element(e) for e in (*turned, *others)]))
    units = f"Errors are {report.unit}."
    yield Section("Error by group element", [_ERRORS, *filter(None, (units, report.shown.reason))], shown)


def _element(e: ElementResult) -> list[str]:
    shown, resampled = e.shown, "" if e.exact else "resampled"
    errors = (shown.q95, shown.worst, e.shown_floor, e.error.estimate.mean, e.same_prediction)
    return [folded(e.label), number(shown.estimate.mean), ends(shown.estimate), *map(number, errors), resampled]


def _witnesses(report: AuditReport) -> Iterator[Section]:
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


def _curves(report: AuditReport) -> Iterator[Section]:
    if report.transforms:
        drawn = [Figure(t.name, _STRENGTHS, _draw_curve(t, i)) for i, t in enumerate(report.transforms)]
        yield Section("Over the strength of changes", shown=drawn)


def _layers(report: AuditReport) -> Iterator[Section]:
    layers = report.layers
    if layers is None:
        return
    shown: list[Figure | Table] = [Figure("layers", _LAYERS, _draw_layers(layers))] if layers.layers else []
    yield Section("Layers", [*filter(None, (LAYER_REASONS[layers.reason], layers.guilty))], shown)


def _ensemble(report: AuditReport) -> Iterator[Section]:
    found = report.ensemble
    if found is not None and found.sizes:
        text = ["Root mean squares over inputs and elements, over the root mean square of ‖f(x)‖."]
        caption = "Error of the mean of M members against M; its excess over the limit is expected to fall as 1/√M."
        yield Section("Members and their mean", text, [Figure("ensemble", caption, _draw_ensemble(found))])


def _tested(report: AuditReport) -> Iterator[Section]:
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


def _settings(report: AuditReport) -> Iterator[Section]:
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


_BELOW = 1e3
_LABELLED = 10
_LEAST = 1e-17  # stands for an error of exactly 0 on a logarithmic axis


def _draw_elements(found: Sequence[ElementResult], unit: str, name: str) -> str:
    """Mean, 5 to 95 % of the inputs and floor of every element: over the angle, or one place for each."""
    angles = [e.angle % 360 for e in found if e.angle is not None]
    turned = len(angles) == len(found)

    def draw(axes: Axes) -> None:
        at = np.array(angles if turned else range(len(found)), float)
        rows = [(e.shown.estimate.mean, e.shown.q05, e.shown.q95, e.shown_floor) for e in found]
        mean, low, high, floor = np.array(rows).T
        axes.vlines(at, low, high, color=MEMBER.light, linewidth=3, alpha=0.55)
        axes.plot(at, mean, "o-" if turned else "o", color=BLUE.light, linewidth=1.2)
        axes.plot(at, floor, "--" if turned and len(at) > 1 else "_", color=INK.light, linewidth=1, markersize=10)
        top = np.concatenate([mean, high, floor])
        axes.set_ylim(0, 1.05 * float(np.max(top, where=np.isfinite(top), initial=0.0)) or 1.0)
        axes.set_ylabel(f"error {unit}")
        if turned:
            axes.set_xlabel("angle, degrees counter-clockwise")
            axes.set_xticks(range(0, 361, 45))
        else:
            few = len(found) <= _LABELLED
            axes.set_xticks(at if few else [], [folded(e.label, 14) for e in found] if few else [])
            axes.set_xlabel("" if few else "elements, the largest error first")

    return _svg(draw, name, height=2.8)


def _draw_layers(section: LayerSection) -> str:
    """The error after every layer above its floor; where it starts is marked."""
    found = section.layers

    def draw(axes: Axes) -> None:
        rows = np.arange(len(found))[::-1]
        floors = np.maximum([layer.floor for layer in found], _LEAST)
        errors = np.maximum([layer.error for layer in found], floors.min() / _BELOW)  # how far below does not matter
        axes.hlines(rows, floors, errors, color=MEMBER.light, linewidth=1.2)
        axes.plot(floors, rows, "|", color=MUTED.light, markersize=11, markeredgewidth=1.6)
        broken = np.array([layer.broken for layer in found])
        axes.plot(errors[~broken], rows[~broken], "o", color=BLUE.light)
        axes.plot(errors[broken], rows[broken], "o", color=VERMILLION.light)
        for row, layer, error in zip(rows, found, errors, strict=True):
            said = _marks(section, layer.name)
            if said:
                label_line(axes, error, row, said, VERMILLION.light, xytext=(8, 0))
        axes.set_xscale("log")
        axes.set_xlim(min(errors.min(), floors.min()) / 3, max(errors.max(), floors.max()) * 30)
        plain_log(axes, "x")
        axes.set_yticks(rows, [_named(layer) for layer in found])
        axes.set_ylim(-0.7, len(found) - 0.3)
        axes.set_xlabel("relative error of the layer's output")
        axes.grid(False, axis="y")

    return _svg(draw, "layers", height=0.9 + 0.27 * len(found))


def _draw_ensemble(section: EnsembleSection) -> str:
    """The violation of the mean of M members, the fitted law, and the limit of M → ∞."""

    def draw(axes: Axes) -> None:
        members = np.array([s.members for s in section.sizes], float)
        root = lambda values: np.sqrt(np.maximum(values, _LEAST**2))
        estimates = [s.squared_error for s in section.sizes]
        middle = root([e.mean for e in estimates])
        spread = np.abs(np.array([root([e.low for e in estimates]), root([e.high for e in estimates])]) - middle)
        axes.plot(members, root([s.fitted for s in section.sizes]), color=BLUE.light)
        axes.errorbar(members, middle, yerr=spread, fmt="o", color=BLUE.light, linewidth=1.2)
        label_line(axes, members[-1], root([section.sizes[-1].fitted])[0], "fitted law", BLUE.light)
        if section.limit.high > 0:
            top = section.limit.high if np.isfinite(section.limit.high) else 2 * middle.max()
            axes.axhspan(max(section.limit.low, _LEAST), top, color=VERMILLION.light, alpha=0.18, lw=0)
            middle_of_limit = max(section.limit.mean, top / 2)
            label_line(axes, members[0], middle_of_limit, "M → ∞", VERMILLION.light, xytext=(2, 6))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(middle.min() / 3, middle.max() * 2)
        axes.xaxis.set_major_locator(FixedLocator(list(members)))
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plain_log(axes)
        axes.set_xlabel("members M")
        axes.set_ylabel("root mean square error of ‖f(x)‖")

    return _svg(draw, "ensemble", height=3.2)


def _draw_curve(transform: TransformResult, number: int) -> str:
    """The error over the strength of a change, with its interval and floor; and how many predictions stay."""
    points = transform.points

    def draw(axes: Axes) -> None:
        strengths = [p.strength for p in points]
        ends = [(p.error.low, p.error.high) if p.error.low <= p.error.high else (p.error.mean,) * 2 for p in points]
        low, high = zip(*ends, strict=True)
        axes.fill_between(strengths, low, high, color=BLUE.light, alpha=0.15, linewidth=0)
        axes.plot(strengths, [p.error.mean for p in points], "o-", color=BLUE.light)
        axes.plot(strengths, [p.floor for p in points], "--", color=MUTED.light, linewidth=1)
        label_line(axes, strengths[-1], points[-1].error.mean, "error", BLUE.light)
        kept = [p for p in points if p.same_predictions is not None]
        if kept:
            changed = [1 - p.same_predictions.mean for p in kept if p.same_predictions is not None]
            axes.plot([p.strength for p in kept], changed, "o-", color=VERMILLION.light)
            label_line(axes, kept[-1].strength, changed[-1], "predictions changed", VERMILLION.light)
        top = max([p.error.mean for p in points if math.isfinite(p.error.mean)] + [e for e in high if math.isfinite(e)])
        axes.set_ylim(0, 1.05 * top or 1.0)
        axes.margins(x=0.12)
        axes.set_xlabel(transform.name)
        axes.set_ylabel(f"error {UNITS[transform.unit]}")

    return _svg(draw, f"curve-{number}", height=2.8)


def _marks(section: LayerSection, name: str) -> str:
    """What is written beside a layer."""
    parts = []
    if name == section.guilty:
        parts.append("starts here")
    if name == section.steepest:
        parts.append("grows most here")
    return ", ".join(parts)


def _named(layer: LayerResult) -> str:
    return folded(layer.name if layer.kind in layer.name else f"{layer.name}  {layer.kind}", 40)


def _svg(draw: Callable[[Axes], None], name: str, height: float) -> str:
    with canvas(height=height) as figure:
        draw(figure.add_subplot())
        return inline_figure(figure, f"audit-{name}")
