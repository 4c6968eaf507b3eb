"""How predicted agreement is shown: trained against expected over members, and their difference over width."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents_studies.common.input_pictures import input_pictures, why_foreign
from equitangents_studies.common.scores import SEVERAL, mean_estimate
from equitangents_studies.framework.claims import after, in_words
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.predicted_agreement.study import Results, Settings

_SETS = (palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    order, last = results.action.group.order, results.steps[-1]
    agreement, exponents = agreement_table(results), exponent_table(results)
    sections = [
        section(
            "Ensemble size",
            f"CNNs are trained on all {order} copies of {len(results.images.train_x):,} images "
            f"({results.images.titles['test']}) by full-batch gradient descent. The infinitely wide one is trained "
            "on the same images for as many steps, in closed form. Orbit same predictions (OSP) count the "
            "elements of the group that leave the predicted class as it is.",
            *why_foreign(results.images.titles),
            _over_members(settings, results, folder),
        ),
        section(
            "Width",
            "The difference is trained minus expected: below 0 networks agree with themselves less than expected.",
            _over_width(settings, results, folder),
            _exponents(results),
        ),
        section(
            "The inputs as the networks see them",
            input_pictures(folder, results.action, results.images.sets, results.images.titles),
        ),
    ]
    facts = {
        "Data": f"{results.images.titles['test']}, {len(results.images.train_x):,} training images",
        "Group": settings.group,
        "Networks": f"{settings.members} of each width, {settings.hidden_layers} layers, {last} steps",
    }
    tables = {"agreement": agreement, "exponents": exponents}
    return Presentation(tables, sections, facts, *headline(results))


def _off(results: Results, width: int) -> float:
    """|trained − expected| of single networks after the last step, mean over sets."""
    last = results.steps[-1]
    found = [results.trained(width, name, last, 1) for name in results.images.sets]
    return float(np.mean([abs(t.scores.mean() - t.expected) for t in found]))


def headline(results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    narrow, wide = results.widths[0], results.widths[-1]
    every = mean_estimate([results.exponent(name, results.steps[-1]) for name in results.images.sets])
    title = (
        f"Infinite width predicts in how many of {results.action.group.order} orientations networks keep their class "
        f"to within {_off(results, narrow):.2f} with {narrow} channels, {_off(results, wide):.2f} with {wide}"
    )
    said = (
        "The source says that agreement over orbits converges to the prediction of infinite width; ours approaches it "
        f"as the width to the power {in_words(every)}, on average over "
        f"{len(results.images.sets)} sets of inputs, from {_off(results, narrow):.2f} of "
        f"{results.action.group.order} orientations with {narrow} channels to {_off(results, wide):.2f} with {wide}; "
        "the leading order of theory is −1."
    )
    return title, said


def agreement_table(results: Results) -> Columns:
    """Trained and expected orbit same predictions by set, step, width and M."""
    rows = []
    for name, title in results.images.titles.items():
        for step in results.steps:
            for width in results.widths:
                for m in results.sizes:
                    t = results.trained(width, name, step, m)
                    e = t.difference(results.bounds)
                    found = (len(t.scores), float(t.scores.mean()), t.expected, t.low, t.high, t.inside)
                    rows.append((title, step, width, m, *found, e))
    names = ("inputs", "step", "width", "members", "ensembles", "trained", "expected", "expected_low", "expected_high")
    return columns((*names, "share_inside", "difference", "low", "high"), rows)


def exponent_table(results: Results) -> Columns:
    """Exponents of the difference against width by set and step."""
    rows = []
    for name, title in results.images.titles.items():
        for step in results.steps:
            rows.append((title, step, results.exponent(name, step)))
    return columns(("inputs", "step", "exponent", "low", "high"), rows)


def _over_members(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    order, last = results.action.group.order, results.steps[-1]
    with drawing.panels(
        folder,
        "agreement-over-members",
        titles=[drawing.heading(title) for title in results.images.titles.values()],
        xlabel="members averaged, M",
        ylabel=f"orbit same predictions, of {order}",
        size=(8.6, 3.4),
        sharey=True,
        caption=f"Disjoint trained ensembles of M members {after(last)}, means with 95 % intervals where there are "
        f"{SEVERAL}, by width; dotted: what GP(μ, Σ/M) expects, with the range of 95 % of infinitely wide ensembles.",
        alt="Orbit same predictions against members, trained and expected",
    ) as drawn:
        for axes, name in zip(drawn, results.images.titles, strict=True):
            expected = results.predicted[name][-1]
            axes.fill_between(
                results.sizes, expected[:, 1], expected[:, 2], color=palette.MUTED.light, alpha=0.25, lw=0
            )
            axes.plot(
                results.sizes, expected[:, 0], color=palette.INK.light, lw=1.4, ls=(0, (2, 2)), label="infinite width"
            )
            for width, colour in drawing.shades_of(results.widths):
                found = [results.trained(width, name, last, m) for m in results.sizes]
                sizes = [m for m, t in zip(results.sizes, found, strict=True) if len(t.scores) >= SEVERAL]
                axes.plot(
                    results.sizes,
                    [t.scores.mean() for t in found],
                    "o-",
                    ms=3.5,
                    color=colour,
                    label=f"{width} channels",
                )
                ends = [t.difference(results.bounds) for t in found[: len(sizes)]]
                low, high = (
                    [getattr(e, end) + t.expected for e, t in zip(ends, found, strict=False)] for end in ("low", "high")
                )
                axes.fill_between(sizes, low, high, color=colour, alpha=0.2, lw=0)
            axes.set_ylim(1, order * 1.005)
            drawing.logarithmic(axes, "x", results.sizes, base=2)
    return drawn.figure


def _over_width(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    shown = [1, *[m for m in (8, 32) if m in results.sizes and settings.members // m >= 2]]
    last, widths = results.steps[-1], results.widths
    with drawing.panels(
        folder,
        "difference-over-width",
        titles=[f"M = {m}" for m in shown],
        xlabel="channels",
        ylabel="OSP, trained minus expected",
        size=(8.6, 3.2),
        sharey=True,
        caption=f"Orbit same predictions of trained ensembles of M minus those expected, {after(last)}, with 95 % "
        f"intervals. Grey: within {100 * settings.tolerance:g} % of the group’s elements.",
        alt="Difference of trained and expected orbit same predictions against width",
    ) as drawn:
        for axes, m in zip(drawn, shown, strict=True):
            within = settings.tolerance * results.action.group.order
            axes.axhspan(-within, within, color=palette.MUTED.light, alpha=0.2, lw=0)
            axes.axhline(0, color=palette.INK.light, lw=0.8)
            for (name, title), colour in zip(results.images.titles.items(), _SETS, strict=False):
                found = [results.trained(width, name, last, m).difference(results.bounds) for width in widths]
                drawing.estimates(axes, widths, found, colour.light, label=title)
            drawing.logarithmic(axes, "x", np.array(widths), base=2)
    return drawn.figure


def _exponents(results: Results) -> Table:
    rows = []
    for name, title in results.images.titles.items():
        cells = [results.exponent(name, step) for step in results.steps]
        rows.append([title, *[e if np.isfinite(e.value) else "–" for e in cells]])
    return table(
        "Exponent a in |difference| ∝ width^a of single networks; in brackets 95 % intervals over members. No number "
        "where the difference cannot be told from 0 at some width.",
        ["inputs", *[after(step) for step in results.steps]],
        rows,
    )
