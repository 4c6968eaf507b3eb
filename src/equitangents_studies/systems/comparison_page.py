"""A comparison of architectures as one HTML page: sentences, learning curves, factors and exponents."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from equitangents import __version__
from equitangents.extending import whole_file
from equitangents.report import environment, figures, palette, with_interval
from equitangents.statistics import Estimate
from equitangents_studies.systems.comparison_sentences import Comparison
from equitangents_studies.systems.curves import ErrorName, LearningCurve
from equitangents_studies.systems.factors import AS_THEY_ARE, Key
from equitangents_studies.systems.power_laws import PowerLaw

_COLOURS = (palette.INK, palette.VERMILLION, palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE)
_ACROSS = 2  # panels


class Shown(Comparison, Protocol):
    """What a page shows; an `ArchitectureComparison` is one."""

    @property
    def error(self) -> ErrorName:
        """Which error is compared."""

    @property
    def curves(self) -> Mapping[Key, LearningCurve]:
        """By architecture and group."""

    @property
    def laws(self) -> Mapping[Key, PowerLaw | None]:
        """The power laws of every curve."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What was compared, by name."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What follows from the numbers."""

    def factor_rows(self) -> list[tuple[str, str, str]]:
        """Rows of the table of factors."""


def write(found: Shown, path: Path) -> Path:
    """Render to `path`, which appears only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        partial.write_text(render(found), encoding="utf-8")
    return path


def render(found: Shown) -> str:
    """The page as HTML."""
    return (
        environment("equitangents_studies.systems")
        .get_template("systems.html.jinja")
        .render(
            found=found,
            facts=found.facts,
            level=f"{100 * found.level:.4g}",
            drawing=drawing(found),
            factors=found.factor_rows(),
            exponents=_exponents(found),
            version=__version__,
            colours=palette.COLOURS,
        )
    )


def drawing(found: Shown) -> str:
    """One panel of all architectures on the data as they are, and one for each that notices a group."""
    plain = [(name, AS_THEY_ARE) for name in found.architectures]
    panels: list[tuple[str, list[Key], list[str]]] = [("Data as they are", plain, list(found.architectures))]
    for name in found.architectures:
        keys = [key for key in found.curves if key[0] == name]
        if len(keys) > 1:
            labels = ["as they are" if group == AS_THEY_ARE else f"moved by {group}" for _, group in keys]
            panels.append((f"{name}, data moved", keys, labels))
    down = -(-len(panels) // _ACROSS)
    with figures.canvas(8.6, 3.0 * down) as figure:
        first: Axes | None = None
        for place, (title, keys, labels) in enumerate(panels, 1):
            axes = figure.add_subplot(down, _ACROSS, place, sharey=first)
            first = first or axes
            _panel(axes, found, keys, labels)
            axes.set_title(title)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return figures.inline_svg(stream.getvalue(), prefix="systems")


def _panel(axes: Axes, found: Shown, keys: Sequence[Key], labels: Sequence[str]) -> None:
    for i, (key, label) in enumerate(zip(keys, labels, strict=True)):
        values = found.curves[key].estimates(found.error)
        centre = np.array([e.value for e in values])
        bars = np.nan_to_num([[e.value - e.low for e in values], [e.high - e.value for e in values]])
        colour = _COLOURS[i % len(_COLOURS)].light
        place = found.sizes * 1.02 ** (i - (len(keys) - 1) / 2)
        axes.errorbar(
            place, centre, np.maximum(bars, 0), color=colour, fmt="o-", lw=1.2, ms=3.5, elinewidth=1.0, label=label
        )
    axes.set_xscale("log")
    if all((found.curves[key].of(found.error).mean(axis=1) > 0).all() for key in found.curves):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        figures.plain_log(axes, "y")
    ticks = found.sizes[:: max(1, -(-len(found.sizes) // 6))]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([float(n) for n in ticks], [figures.log_label(float(n)) for n in ticks])
    axes.set_xlabel("training inputs")
    axes.set_ylabel(f"{found.error} error")
    axes.legend()


def _exponents(found: Shown) -> list[tuple[str, ...]]:
    """(architecture, group, error at the largest size, last exponent, whether it grows) of every curve."""
    rows: list[tuple[str, ...]] = []
    for key, law in found.laws.items():
        e = found.curves[key].estimates(found.error)[-1]
        told = (
            ("none: an error is 0", "")
            if law is None
            else (_shown(law.exponent), _growth(law.segments, law.grows.verdict))
        )
        rows.append((key[0], "as they are" if key[1] == AS_THEY_ARE else key[1], _shown(e), *told))
    return rows


def _growth(segments: int, verdict: str) -> str:
    return "one power law" if segments == 1 else {"holds": "yes", "fails": "no"}.get(verdict, "not decided")


def _shown(e: Estimate) -> str:
    return with_interval(e.value, e.interval)
