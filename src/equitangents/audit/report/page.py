"""Sections of a report's page: tables, a figure of the errors by element, pictures of inputs, and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from equitangents.audit.report.forms import settings_section
from equitangents.audit.report.numbers import folded, interval, listed, number
from equitangents.audit.report.rows import table
from equitangents.audit.report.sections import LAYER_REASONS, ElementResult, Findings, OrbitPoint
from equitangents.report.figures import canvas, inline_figure, png
from equitangents.report.numbers import format_number
from equitangents.report.palette import BLUE, INK, MEMBER
from equitangents.report.render import Figure, Pictures, Section, Table

_MOST_DRAWN, _LABELLED = 400, 24
_ERRORS = (
    "The error is ‖f(ρ(g)x) − ρ(g)f(x)‖. A noise floor is what a perfectly equivariant model would show as well, "
    "because arrays are resampled, numbers rounded or the model is random."
)
_POINTS = "Points: mean over inputs; lines: 5 to 95 % of the inputs; dashes: the noise floor."
_LAYERS = (
    "The error after each layer in the order of execution, and its floor: the smallest that any action on the "
    "layer’s output could have."
)
_MEMBERS = (
    "Squared errors of the mean of M members over the mean square of ‖f(x)‖; their excess over the limit is expected "
    "to fall as 1/M."
)


def sections(report: Findings) -> list[Section]:
    """The sections of the page."""
    return [section for part in (_findings, _elements, _witness, _layers, _ensemble, _tested, _settings)
            for section in part(report)]  # fmt: skip


def _findings(report: Findings) -> Iterator[Section]:
    yield Section("Findings", shown=[table(report)])


def _elements(report: Findings) -> Iterator[Section]:
    by_rotation = all(e.angle is not None for e in report.elements)
    by_angle, by_error = lambda e: e.angle % 360, lambda e: -e.judged.estimate.mean
    order = (lambda e: e.parameter) if not report.contract.law else by_angle if by_rotation else by_error
    elements = sorted(report.elements, key=order)
    rows = [
        [folded(e.label), interval(e.judged.estimate), number(e.judged.median), number(e.judged.worst),
         number(e.judged_floor), number(e.error.estimate.mean), number(e.same_prediction),
         " ".join(["above"] * bool(e.above) + ["resampled"] * (not e.exact))]
        for e in elements
    ]  # fmt: skip
    head = ["element", "mean error", "median", "worst", "noise floor", "mean of ‖f(x)‖", "same prediction", ""]
    shown: list[Figure | Table] = [
        Figure("elements", _POINTS, _drawn(elements[:_MOST_DRAWN], report.unit)),
        Table(f"Elements, errors {report.unit}", head, rows),
    ]
    yield Section("Error by group element", [_ERRORS], shown)


def _drawn(elements: Sequence[ElementResult], unit: str) -> str:
    """Mean, 5 to 95 % of the inputs and floor of every element, one place for each."""
    with canvas(height=2.8) as figure:
        axes: Axes = figure.add_subplot()
        at, few = np.arange(len(elements)), len(elements) <= _LABELLED
        rows = [(e.judged.estimate.mean, e.judged.q05, e.judged.q95, e.judged_floor) for e in elements]
        mean, low, high, floor = np.array(rows).T
        axes.vlines(at, low, high, color=MEMBER.light, linewidth=3, alpha=0.55)
        axes.plot(at, mean, "o", color=BLUE.light)
        axes.plot(at, floor, "_", color=INK.light, markersize=10)
        top = np.concatenate([mean, high, floor])
        axes.set_ylim(0, 1.05 * float(np.max(top, where=np.isfinite(top), initial=0.0)) or 1.0)
        axes.set_ylabel(f"error {unit}")
        axes.set_xticks(at if few else [], [folded(e.label, 14) for e in elements] if few else [])
        axes.set_xlabel("" if few else "elements, by their angle or the largest error first")
        return inline_figure(figure, "audit-elements")


def _witness(report: Findings) -> Iterator[Section]:
    if (w := report.witness) is None:
        return
    images = [i for point in w.orbit if (i := _image(point, w.image_layout)) is not None]
    text = ["Moved along its orbit, as the model saw it, with its answer and its error."]
    facts = Table("", ["row", "element", "error", "unit"], [[str(w.index), w.label, number(w.error), report.unit]])
    rows = [[folded(p.label), _prediction(p.prediction), number(p.error)] for p in w.orbit]
    orbit: Pictures | Table = Table("", ["element", "prediction", "error"], rows)
    if len(images) == len(w.orbit):
        low, high = min(float(i.min()) for i in images), max(float(i.max()) for i in images)
        orbit = Pictures([(png(i, low, high), [*filter(None, row)]) for i, row in zip(images, rows, strict=True)])
    yield Section("The worst input", text, [facts, orbit])


def _layers(report: Findings) -> Iterator[Section]:
    layers = report.layers
    if layers is not None:
        text = [_LAYERS, LAYER_REASONS[layers.reason], *filter(None, [layers.guilty])]
        rows = [[folded(r.name), r.kind, number(r.error), number(r.floor), "breaks" * r.broken] for r in layers.layers]
        yield Section("Layers", text, [Table("", ["layer", "kind", "error", "noise floor", ""], rows)])


def _ensemble(report: Findings) -> Iterator[Section]:
    ensemble = report.ensemble
    if ensemble is not None and ensemble.sizes:
        rows = [
            [str(s.members), interval(s.squared_error, format_number), format_number(s.fitted)] for s in ensemble.sizes
        ]
        rows.append(["∞", interval(ensemble.limit.squared, format_number), ""])
        yield Section("Members and their mean", [_MEMBERS], [Table("", ["members M", "measured", "fitted law"], rows)])


def _tested(report: Findings) -> Iterator[Section]:
    contract, sizes = report.contract, lambda shape: " × ".join(map(str, shape))
    rows = [
        ["input", folded(i.name), sizes(i.shape), i.action, "" if i.exact else "resampled", "", ""]
        for i in contract.inputs
    ]
    for o in contract.outputs:
        judged = not (o.vanishes and o.scale is None)
        error = " ".join([number(o.judged.mean), report.unit_of(o)]) if judged else "not judged"
        vanishes = "vanishes" if o.vanishes else ""
        fails = listed(o.fails_under) if judged else ""
        rows.append(["output", folded(o.name), sizes(o.shape), o.action, vanishes, error, fails])
    head = ["", "array", "shape", "how the group acts", "", "error", "fails under"]
    yield Section("What was tested", shown=[Table("", head, rows, text=True)])


def _settings(report: Findings) -> Iterator[Section]:
    model, timing = report.model, report.timing
    yield settings_section({
        "model": model.kind, "type": model.dtype, "device": model.device, **report.settings,
        "inputs evaluated": timing.evaluations, "in calls of the model": timing.batches,
        "seconds": format_number(timing.total_seconds),
        "of these inside the model": format_number(timing.model_seconds), **report.versions,
    })  # fmt: skip
    if report.citations:
        yield Section("Cite", report.citations)


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
    # other numbers of channels have no colours, and their mean is shown
    return image if image.shape[-1] in (1, 3) else image.mean(axis=-1, keepdims=True)


def _prediction(values: Sequence[float] | None) -> str:
    """A few numbers, or the place of the largest of many."""
    if values is None:
        return ""
    if len(values) > 4:
        return f"largest output: {int(np.argmax(values))}"
    return ", ".join(f"{v:.3g}" for v in values).replace("-", "−")
