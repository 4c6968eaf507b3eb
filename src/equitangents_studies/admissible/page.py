"""The page of the study of filters that a group carries to one another."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette, with_interval
from equitangents.statistics import bootstrap
from equitangents_studies.admissible.study import ASYMMETRIC, SUPPORTS, SYMMETRIC, Results, Settings
from equitangents_studies.common.input_pictures import why_foreign
from equitangents_studies.framework.page import Columns, Presentation, columns, drawing, section, table
from equitangents_studies.framework.study import RunFolder

_STATED = {"test": ("3.97", "3.91"), "cifar10": ("3.86", "3.65")}  # the source's, trained on MNIST
_COLOURS = (palette.BLUE, palette.ORANGE, palette.VERMILLION)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    text = (
        f"CNNs with filters of one support train on all quarter turns of {len(results.images.train_x):,} images by "
        "full-batch gradient descent. A turn carries a window of 3×3 pixels to such a window, one of 3×2 or 3×1 to "
        "none of its kind: then neither the law of initial networks nor their kernel is invariant."
    )
    sections = [
        section(
            "Agreement",
            text,
            *why_foreign(results.images.titles),
            _agreement(results, folder),
            _beside(settings, results),
            _layers(results),
        ),
        section(
            "Violation",
            "Of an equivariant mean it falls as 1/√M without end; of another it comes to rest.",
            _violation(results, folder),
        ),
    ]
    facts = {
        "Data": f"{results.images.titles['test']}, {len(results.images.train_x):,} training images",
        "Networks": f"{settings.members:,} of each support, {settings.hidden_layers} layers of {settings.channels} "
        f"channels, {settings.steps} steps",
    }
    tables = {"members": members_table(results), "limits": limits_table(results)}
    return Presentation(tables, sections, facts, finding=_finding(results), sentence=_sentence(settings, results))


def _means(results: Results, name: str) -> tuple[float, float]:
    """Orbit same predictions of all members: with symmetric filters, and the mean of the others."""
    others = np.mean([results.of_all(support, name) for support in ASYMMETRIC])
    return float(np.mean(results.of_all(SYMMETRIC, name))), float(others)


def _finding(results: Results) -> str:
    (first, one), *others = ((results.images.titles[n], _means(results, n)) for n in results.images.sets)
    more = "".join(f", on {title} in {a:.2f} and {b:.2f}" for title, (a, b) in others)
    return (
        f"With symmetric filters ensembles keep their class in {one[0]:.2f} of {results.action.group.order} "
        f"orientations on {first}, with asymmetric ones in {one[1]:.2f}{more}"
    )


def _sentence(settings: Settings, results: Results) -> str:
    each = []
    for name, title in results.images.titles.items():
        symmetric, others = _means(results, name)
        stated = _STATED.get(name) if settings.data == "mnist" else None
        said = f" (source: {' and '.join(stated)}, of 1,000 networks)" if stated else ""
        each.append(f"on {title} in {symmetric:.2f} and {others:.2f}{said}")
    return (
        f"Means of {settings.members:,} networks with symmetric and with asymmetric filters keep their class, of "
        f"{results.action.group.order} orientations, {'; '.join(each)}."
    )


def members_table(results: Results) -> Columns:
    """Agreement and violation by support, set and number of members."""
    rows = []
    for support in SUPPORTS:
        for name, title in results.images.titles.items():
            for m in results.sizes:
                found = results.agreement(support, name, m)
                error = float(results.error(support, name, m).mean())
                rows.append((support, title, m, len(found.scores), float(found.scores.mean()), found.expected, error))
    return columns(("support", "inputs", "members", "ensembles", "osp", "osp_infinite_width", "violation"), rows)


def limits_table(results: Results) -> Columns:
    """What infinitely many members leave, at this width and at infinite width."""
    rows = []
    for support in SUPPORTS:
        for name, title in results.images.titles.items():
            wide = float(results.of_limit(support, name).mean()), results.limit_error(support, name)
            rows.append((support, title, *wide, results.left(support, name, 0.95)))
    missing = float("nan"), float("nan")
    for random in results.randomly.along("random") if results.randomly else []:
        for name, title in results.images.titles.items():
            rows.append((f"3×3, {random}", title, *missing, results.left_randomly(random, name, 0.95)))
    return columns(("support", "inputs", "osp_infinite", "violation_infinite", "left", "low", "high"), rows)


def _agreement(results: Results, folder: RunFolder) -> Figure:
    order = results.action.group.order
    with drawing.panels(
        folder,
        "agreement-over-members",
        titles=[drawing.heading(title) for title in results.images.titles.values()],
        xlabel="members averaged, M",
        ylabel=f"orbit same predictions, of {order}",
        size=(7.4, 3.4),
        sharey=True,
        caption="Disjoint ensembles of M members, means, by the support of filters; dotted: what is expected of "
        "infinitely wide networks.",
        alt="Orbit same predictions against members, by support",
    ) as drawn:
        for axes, name in zip(drawn, results.images.titles, strict=True):
            for support, colour in zip(SUPPORTS, _COLOURS, strict=True):
                scores = [results.agreement(support, name, m).scores.mean() for m in results.sizes]
                axes.plot(results.sizes, scores, "o-", ms=3.5, color=colour.light, label=support)
                wide = results.expected[support, name][:, 0]
                axes.plot(results.sizes, wide, color=colour.light, lw=1.2, ls=(0, (2, 2)))
            axes.set_ylim(1, order * 1.005)
            drawing.logarithmic(axes, "x", results.sizes, base=2)
    return drawn.figure


def _violation(results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "violation-over-members",
        titles=[drawing.heading(title) for title in results.images.titles.values()],
        xlabel="members averaged, M",
        ylabel="relative orbit standard deviation",
        size=(7.4, 3.4),
        sharey=True,
        caption="The violation of the mean of M members, by the support of filters; lines across: of the mean of "
        "infinitely many, infinitely wide ones (of 3×3 it is 0).",
        alt="Violation of the mean against members, by support",
    ) as drawn:
        for axes, name in zip(drawn, results.images.titles, strict=True):
            for support, colour in zip(SUPPORTS, _COLOURS, strict=True):
                errors = [results.error(support, name, m).mean() for m in results.sizes]
                axes.plot(results.sizes, errors, "o-", ms=3.5, color=colour.light, label=support)
                limit = results.limit_error(support, name)
                if limit > 1e-6 * float(np.max(errors)):
                    axes.axhline(limit, color=colour.light, lw=1.2, ls=(0, (2, 2)))
            drawing.logarithmic(axes, "x", results.sizes, base=2)
            axes.set_yscale("log")
    return drawn.figure


def _beside(settings: Settings, results: Results) -> Table:
    """Orbit same predictions of all members, and the source's where the data are."""
    order, nothing, rows = results.action.group.order, ("", ""), []
    for name, title in results.images.titles.items():
        symmetric = results.of_all(SYMMETRIC, name)
        others = np.mean([results.of_all(support, name) for support in ASYMMETRIC], axis=0)
        found = [bootstrap(scores, bounds=(1, order)) for scores in (symmetric, others)]
        ours = [with_interval(e.value, e.interval) for e in found]
        stated = _STATED.get(name, nothing) if settings.data == "mnist" else nothing
        rows.append([title, *(cell for pair in zip(ours, stated, strict=True) for cell in pair)])
    header = ["inputs", SYMMETRIC, "the source’s symmetric", " and ".join(ASYMMETRIC), "the source’s asymmetric"]
    return table(
        f"Orbit same predictions, of {order}, of the ensemble of all {settings.members:,} networks, with 95 % "
        "intervals over inputs. The source’s are of 1,000 networks, and of asymmetric filters of other shapes.",
        header,
        rows,
    )


def _layers(results: Results) -> Table:
    rows = [[s, "yes" if v.admissible else "no", v.reason] for s, v in results.verdicts.items()]
    return table("What the layers tell of the mean at every width.", ["support", "equivariant", "because"], rows)
