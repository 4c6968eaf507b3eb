"""The figures of the page: errors by element, layer and members, over training, and over the strength of changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator

from equitangents.audit.report.numbers import UNITS, folded
from equitangents.audit.report.part_sections import (
    EnsembleSection,
    LayerResult,
    LayerSection,
)
from equitangents.audit.report.sections import ElementResult, TransformResult
from equitangents.report.figures import canvas, inline_figure, label_line, plain_log
from equitangents.report.palette import BLUE, INK, MEMBER, MUTED, VERMILLION

_BELOW = 1e3
_LABELLED = 10
_LEAST = 1e-17  # stands for an error of exactly 0 on a logarithmic axis


def elements(found: Sequence[ElementResult], unit: str, name: str) -> str:
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


def layers(section: LayerSection) -> str:
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


def ensemble(section: EnsembleSection) -> str:
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


def curve(transform: TransformResult, number: int) -> str:
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
