"""What theory says of ensembles on rotated images, as the page shows it: agreement expected, closed form, and floor."""

from __future__ import annotations

from equitangents.report import Section, Table, format_number, with_interval
from equitangents_studies.common.scores import FLOOR
from equitangents_studies.framework.page import Columns, columns, section, table
from equitangents_studies.rotated_images.claims import (
    DRAWS,
    INPUTS,
    MEMBERS,
    PREDICTED,
    distance,
    floor_rows,
    judged_sets,
    last_members,
    trained,
)
from equitangents_studies.rotated_images.settings import (
    Results,
    Settings,
    ensemble_sizes,
    stated_agreement,
)


def expected_table(settings: Settings, results: Results) -> Columns:
    """Trained ensembles of M beside what is expected of them, by set and M."""
    rows = []
    for name in judged_sets(results):
        for m in ensemble_sizes(settings):
            found = trained(settings, results, name, m)
            e = found.difference(results.scales["agreement"])
            shown = (found.scores.mean(), found.expected, found.low, found.high, found.inside, e.value, e.low, e.high)
            rows.append((results.images.titles[name], m, len(found.scores), *map(float, shown)))
    names = ("inputs", "members", "ensembles", "trained", "expected", "expected_low", "expected_high")
    return columns((*names, "share_inside", "difference", "low", "high"), rows)


def expected_section(settings: Settings, results: Results) -> Section:
    """The expected agreement as a table of the page."""
    table = expected_table(settings, results)
    keys = ("inputs", "members", "ensembles", "trained", "expected", "expected_low", "expected_high", "share_inside")
    rows = [
        [title, f"{m}", f"{count}", f"{score:.3f}", with_interval(mean, (low, high)), f"{inside:.0%}"]
        for title, m, count, score, mean, low, high, inside in zip(*(table[k] for k in keys), strict=True)
    ]
    return section(
        "What infinite width expects of M members",
        "Ensembles of M trained members, each member in one of them, and what GP(μ, Σ/M) of infinitely wide "
        f"networks expects, from {DRAWS} ensembles drawn, on {PREDICTED} inputs of each set after the last epoch. "
        f"Both are trained on the same {len(results.images.train_x):,} images in all orientations, for as long; "
        "where the others take random batches, the infinitely wide ones follow the gradient of all samples.",
        *_by_width(settings, results),
        Table(
            f"Orbit same predictions, of {settings.order}; in brackets the range that holds 95 % of infinitely "
            "wide ensembles, and the share of the trained ones that lie in it.",
            ["inputs", "members", "ensembles", "trained, mean", "expected", "in the range"],
            rows,
        ),
    )


def _by_width(settings: Settings, results: Results) -> list[str]:
    if not results.narrow:
        return []
    near, far = distance(results, last_members(results)), distance(results, results.narrow)
    return [
        f"The table has networks of {settings.channels[-1]} channels. Single ones are on average {near.value:.2f} "
        f"rotations away from what is expected, networks of {settings.narrow[-1]} channels {far.value:.2f}."
    ]


def closed_form_table(results: Results) -> Columns:
    """What moves of the infinitely wide mean under any rotation, and the smallest lead of one output, by time."""
    rows = [
        (results.images.titles[name], int(epoch), float(results.deviation[name][i]), float(results.margin[name][i]))
        for name in results.deviation
        for i, epoch in enumerate(results.epochs)
    ]
    return columns(("inputs", "epoch", "largest_change", "smallest_lead"), rows)


def closed_form_section(results: Results) -> Section:
    """That the classes of infinite width do not agree for want of a difference between outputs."""
    later = results.epochs > 0
    rows = [
        [
            results.images.titles[name],
            format_number(float(results.deviation[name][later].max())),
            format_number(float(results.margin[name][later].min())),
        ]
        for name in results.deviation
    ]
    return section(
        "Infinite width, at every time",
        "The mean μ_t of infinitely wide networks, computed for every orientation of every input by itself. Before "
        "training it is 0 and every class is as good as any other; at all later recorded times it moves by no more "
        "than rounding, while the largest output leads the second by far more.",
        table(
            "In units of the root mean square of all outputs, over all times after the first.",
            ["inputs", "largest change of μ_t under a rotation", "smallest lead of the largest output"],
            rows,
        ),
    )


def floor_table(results: Results) -> Columns:
    """The floor and its control, by set."""
    rows = [
        (title, which, e)
        for title, floor, control in floor_rows(results)
        for which, e in (("all turns", floor), ("quarter turns", control))
    ]
    return columns(("inputs", "over", "orbit_same_predictions", "low", "high"), rows)


def floor_section(settings: Settings, results: Results) -> Section:
    """What resampling leaves of a perfectly invariant function, beside the ensemble."""
    rows = []
    for name, (title, floor, control) in zip(results.floor, floor_rows(results), strict=True):
        ensemble = results.agreement(results.mean[name][-1])[:INPUTS].mean()
        rows.append([title, f"{ensemble:.2f}", floor, control])
    stated = stated_agreement(settings)
    return section(
        "What resampling leaves",
        f"{FLOOR} the same function must reach 4 of 4. Here it is the mean of "
        f"{min(MEMBERS, settings.members)} "
        f"networks, trained as the others, on the first {INPUTS} inputs of each set."
        + (f" The source states {stated}." if stated else ""),
        table(
            "Orbit same predictions; in brackets 95 % intervals over inputs.",
            ["inputs", f"ensemble, of {settings.order}", f"resampling floor, of {settings.order}", "control, of 4"],
            rows,
        ),
    )
