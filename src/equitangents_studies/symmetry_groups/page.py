"""How the symmetries of learning algorithms are shown: two tables of numbers, and accuracies under every group."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, format_number, palette
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section
from equitangents_studies.symmetry_groups.study import (
    ARCHITECTURES,
    GROUPS,
    POOLED,
    Results,
    Settings,
    accuracy,
    entries,
)

_COLOURS = {"FCN": palette.VERMILLION, "VEC": palette.BLUE, "GAP": palette.GREEN}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """The tables of Theorem 4.1, at infinite and finite width, and what the moves cost in accuracy."""
    text = (
        "Largest change of predictions of the NTK when training and test images are moved by one random element of the "
        "group, relative to the largest prediction. A star: Theorem 4.1 says that there is none."
    )
    finite = (
        "Trained networks: largest differences of coupled networks, relative to the largest output, and p-values of "
        "the two-sample test where there is no coupling. A star: Theorem 4.1 says that laws are equal."
    )
    sections = [
        section("Infinite width", text, _table(results.predictions, None, "NTK", finite=False)),
        section("Finite width", finite, _table(results.numbers, results.methods, "networks", finite=True)),
        section("What a move costs", _accuracies(settings, results, folder)),
    ]
    facts = {
        "Data": f"{results.source}, {settings.pixels}×{settings.pixels} pixels",
        "Training images": f"{settings.train_images:,}; for GAP and LAP {settings.pooled_images:,}",
        "Hidden layers": f"{settings.depth} at infinite width, {settings.finite_depth} of {settings.width} channels at "
        "finite width (FCN 8 times as many)",
    }
    tables = {"symmetry": symmetry(results)}
    return Presentation(tables, sections, facts, finding=finding(results), sentence=sentence(results))


def finding(results: Results) -> str:
    """What Theorem 4.1 says, where the tables agree with it."""
    kept = max(results.predictions[pair] for pair in entries(True, finite=False))
    changed = min(results.predictions[pair] for pair in entries(False, finite=False))
    if kept < changed:
        return "Infinitely wide VEC has the symmetry O(3)^d, VEC of finite width has not"
    return "Which learning algorithm is symmetric under which group"


def sentence(results: Results) -> str:
    """Our numbers beside the theorem's."""
    kept = max(results.kernels[pair] for pair in entries(True, finite=False))
    changed = min(results.predictions[pair] for pair in entries(False, finite=False))
    coupled = max(results.numbers[pair] for pair in entries(True, finite=True))
    small = lambda value: format_number(value)
    return (
        f"Under the groups that Theorem 4.1 names, infinitely wide kernels change by at most {small(kept)} and coupled "
        f"networks of finite width by {small(coupled)} (source: not at all); under all others predictions change by "
        f"{100 * changed:.0f} % of the largest or more."
    )


def symmetry(results: Results) -> Columns:
    """One row for every architecture and group."""
    theorem = {finite: set(entries(True, finite=finite)) for finite in (False, True)}
    rows = [
        (a, g, (a, g) in theorem[False], results.kernels[a, g], results.predictions[a, g], results.right[a, g].mean(),
         (a, g) in theorem[True], results.methods[a, g], results.numbers[a, g])
        for a in ARCHITECTURES for g in GROUPS
    ]  # fmt: skip
    return columns(
        ("architecture", "group", "theorem_infinite", "kernels", "predictions", "accuracy", "theorem_finite", "method",
         "number"), rows,
    )  # fmt: skip


def _table(
    numbers: dict[tuple[str, str], float], methods: dict[tuple[str, str], str] | None, of: str, *, finite: bool
) -> Table:
    theorem = set(entries(True, finite=finite))

    def cell(name: str, group: str) -> str:
        p = "p = " if methods is not None and methods[name, group] == "two-sample" else ""
        text = f"{p}{numbers[name, group]:.1g}".replace("-", "−")
        return f"{text} *" if (name, group) in theorem else text

    rows = [[name, *(cell(name, group) for group in GROUPS)] for name in ARCHITECTURES]
    return Table(f"{of}; * where Theorem 4.1 says that nothing changes.", ["", *GROUPS], rows)


def _accuracies(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=("",),
        ylabel="accuracy",
        caption="Accuracy of infinitely wide networks on test images, all images moved by one random element of each "
        f"group, with 95 % intervals over {len(results.right['FCN', 'I'])} test images. {' and '.join(POOLED[:1])} has "
        f"{settings.pooled_images:,} training images, FCN and VEC {settings.train_images:,}.",
        alt="Accuracy by group",
    ) as drawn:
        place = np.arange(len(GROUPS))
        for i, (name, colour) in enumerate(_COLOURS.items()):
            values = [accuracy(results.right[name, group]) for group in GROUPS]
            drawing.estimates(drawn[0], place + 0.06 * (i - 1), values, colour.light, label=name, fmt="o")
        drawn[0].set_xticks(place, GROUPS)
        drawn.legend()
    return drawn.figure
