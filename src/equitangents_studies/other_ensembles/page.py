"""How the study of other ensembles is shown: violation against size by kind, and a table of what stays and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Table, format_number, palette
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.framework.page import Presentation, RunFolder, Shown, columns, drawing
from equitangents_studies.other_ensembles.claims import (
    CLOSED,
    POSTERIORS,
    TITLES,
    Results,
    Settings,
    exponent,
    share,
    squares,
)

_ALL = TITLES | POSTERIORS
_COLOURS = (
    palette.INK,
    palette.BLUE,
    palette.PURPLE,
    palette.GREEN,
    palette.SKY,
    palette.VERMILLION,
    palette.ORANGE,
    palette.MUTED,
)
_RANDOM = {
    "plain": "initialisation, which has no preferred orientation",
    "nngp": "a draw of the posterior, whose prior and data are invariant; noise on targets is alike for every copy",
    "ntk": "a draw of the random prior function, whose law is invariant",
    "bagged": "initialisation and the inputs; every resample keeps all copies of its inputs",
    "bagged-copies": "initialisation and the copies; any resample is as likely as its rotation",
    "unaugmented": "initialisation alone; the data are in one orientation, and not invariant",
}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    tables = {
        "size": columns(
            ("ensemble", "size", "unit", "mean_square_change"),
            [
                (title, m, i, v)
                for kind, title in _ALL.items()
                for j, m in enumerate(settings.sizes)
                for i, v in enumerate(squares(settings, results, kind)[:, j])
            ],
        ),
        "closed_form": columns(
            ("ensemble", "of", "largest_relative_change"),
            [
                (CLOSED[kind], what, results.closed[kind][i])
                for kind in CLOSED
                for i, what in enumerate(("mean", "covariance"))
            ],
        ),
    }
    shown: list[Shown] = [
        _sizes(
            settings,
            results,
            folder,
            list(TITLES),
            "change-against-size",
            "members",
            "Change under rotations against ensemble size",
        ),
        _table(settings, results),
        _sizes(
            settings,
            results,
            folder,
            list(POSTERIORS),
            "posteriors-against-size",
            "posteriors, or draws of one",
            "Change under rotations against the number of posteriors or draws",
        ),
        _posteriors(settings, results),
    ]
    return Presentation(tables, shown)


def _sizes(
    settings: Settings, results: Results, folder: RunFolder, kinds: Sequence[str], name: str, xlabel: str, alt: str
) -> Figure:
    """The change of ensembles of these kinds against their size; the line begins at the first kind's."""
    sizes = np.array(settings.sizes, dtype=float)
    with drawing.panels(
        folder,
        name,
        size=(8.6, 4.2),
        xlabel=xlabel,
        ylabel="change under rotations",
        caption="Root mean square change of an ensemble’s prediction under turns by 90°, 180° and 270°, in units of "
        "the energies’ standard deviation, against its size, with 95 % intervals over independent ensembles. Dotted: "
        "one over the square root of the size, for comparison.",
        alt=alt,
    ) as drawn:
        axes = drawn[0]
        for k, kind in enumerate(kinds):
            values = [bootstrap(column, np.sqrt) for column in squares(settings, results, kind).T]
            drawing.estimates(axes, sizes * 1.012 ** (k - 3), values, _COLOURS[k].light, label=_ALL[kind])
        start = np.sqrt(squares(settings, results, kinds[0])[:, 0].mean())
        drawing.power(axes, sizes, 0.8 * start, -0.5, label="∝ 1/√size")
        drawing.logarithmic(axes, "both", settings.sizes, base=2, fine=True)
        drawn.legend(columns=3)
    return drawn.figure


def _table(settings: Settings, results: Results) -> Table:
    rows = []
    for kind, title in TITLES.items():
        left, slope = share(results, kind).times(100), exponent(settings, results, kind)
        rows.append((f"{title}: {_RANDOM[kind]}", f"{_with_interval(left)} %", _with_interval(slope)))
    caption = (
        "Share of the mean square change that averaging infinitely many independent members would leave; "
        "exponent of the root mean square change against the size of one ensemble. In brackets: 95 % intervals over "
        "members."
    )
    return Table(caption, ("ensemble, and what is random", "left in expectation", "exponent"), rows)


def _posteriors(settings: Settings, results: Results) -> Table:
    rows = []
    for kind, title in POSTERIORS.items():
        slope, misfit = exponent(settings, results, kind), results.misfits.get(kind)
        missed = "" if misfit is None else _with_interval(bootstrap(misfit))
        left = _with_interval(share(results, kind).times(100))
        rows.append((title, f"{left} %", _with_interval(slope), missed))
    caption = (
        "Share of the mean square change that averaging infinitely many posteriors would leave; exponent of the change "
        "against the number of posteriors, or of draws of one; mean square by which the mean over "
        f"{max(settings.sizes)} draws misses the energies that were learnt, in units of their variance. In brackets: "
        "95 % intervals over posteriors."
    )
    return Table(caption, ("draws", "left in expectation", "exponent", "misses the data by"), rows)


def _with_interval(e: Estimate) -> str:
    value, low, high = (format_number(x, e.interval) for x in (e.value, e.low, e.high))
    return f"{value} [{low}, {high}]"
