"""How contenders agree beside what the source states: a figure and a table, set by set."""

from __future__ import annotations

from collections.abc import Mapping

from equitangents.report import Figure, Section, Table, palette
from equitangents.statistics import Estimate
from equitangents_studies.comparison.claims import STATED, stand_in, stated, stated_text
from equitangents_studies.comparison.settings import Results, Settings, covers
from equitangents_studies.framework.page import RunFolder, drawing, section, table
from equitangents_studies.framework.records import in_words

_MARKS = "osD^vPX"
_SET_LOOK = (palette.GREEN, palette.PURPLE, palette.ORANGE, palette.VERMILLION, palette.MUTED)


_SHORT = {
    "ensemble": "ensemble", "augmented": "one network", "gcnn": "group convolutions",
    "gcnn-augmented": "group convolutions,\non turned images", "canonicalisation": "canonicalisation",
    "canonicalisation-augmented": "canonicalisation,\non turned images",
}  # fmt: skip


Found = Mapping[str, tuple[Estimate, Mapping[str, Estimate]]]
"""By contender: its number over all foreign inputs, and that on each set."""


def found_of(results: Results) -> Found:
    """What the source has numbers of, and what stands in for it."""
    chosen = dict.fromkeys(name for base in STATED for name in (base, stand_in(results, base)))
    return {
        name: (
            results.estimate(results.labels[name], "outside"),
            {results.images.titles[s]: results.on(results.labels[name], s) for s in results.foreign},
        )
        for name in chosen
        if name in results.labels
    }


def beside_the_source(settings: Settings, results: Results, folder: RunFolder) -> list[Section]:
    """The first section of the page, where there is something to set beside the source's."""
    found = found_of(results)
    if not found:
        return []
    group, over = settings.group, covers(settings)
    return [
        section(
            "Agreement over orientations out of distribution",
            f"Orbit same predictions count the orientations, of {results.order}, with the class of the image as it "
            "is, on images unlike the training data. Which images the source’s numbers are over we do not know; "
            "ours are shown set by set.",
            _beside_figure(found, group, results.order, over, folder),
            _by_set(results, found, group, over),
        )
    ]


def _beside_figure(found: Found, group: str, order: int, over: str, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "beside-the-source",
        size=(8.6, 3.6),
        ylabel=f"orbit same predictions, of {order}",
        caption=f"Out of distribution: our mean with its 95 % interval over {over} (blue), by set of inputs (small), "
        "and the source’s number with its error (grey).",
        alt="Orbit same predictions of the contenders beside those of the source",
    ) as drawn:
        (axes,) = drawn
        first = next(iter(found.values()))[1]
        for i, (name, (whole, by_set)) in enumerate(found.items()):
            theirs = stated(name, group)
            if theirs is not None:
                label = "source" if i == 0 else None
                axes.errorbar(
                    [i - 0.18], [theirs[0]], yerr=[theirs[1]], fmt="D", ms=6, color=palette.MUTED.light, capsize=3,
                    label=label,
                )  # fmt: skip
            drawing.estimates(axes, [i], [whole], palette.BLUE.light, fmt="o", ms=7, label="ours" if i == 0 else None)
            for k, e in enumerate(by_set.values()):
                label = list(first)[k] if i == 0 else None
                axes.plot(
                    [i + 0.14 + 0.08 * k], [e.value], _MARKS[k % 7], ms=4, color=_SET_LOOK[k % 5].light, label=label
                )
        axes.axhline(order, color=palette.INK.light, lw=0.8, ls=(0, (3, 3)))
        axes.set_xticks(range(len(found)), [_SHORT.get(name, name) for name in found])
        axes.set_xlim(-0.5, len(found) - 0.2)
    return drawn.figure


def _by_set(results: Results, found: Found, group: str, over: str) -> Table:
    sets = list(next(iter(found.values()))[1])
    rows = [
        [
            results.titles[name],
            in_words(whole),
            stated_text(name.removesuffix("-augmented"), group) or "–",
            *(f"{by_set[s].value:.2f}" for s in sets),
        ]
        for name, (whole, by_set) in found.items()
    ]
    return table(
        f"Orbit same predictions, of {results.order}; in brackets 95 % intervals over {over}.",
        ["", "ours", "source", *sets],
        rows,
    )
