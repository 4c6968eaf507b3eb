"""How the study of other ensembles is shown: violation against size by kind, and a table of what stays and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Section, Table, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, SKY, VERMILLION
from equitangents.report.verdict import format_number
from equitangents.statistics import bootstrap, power_law
from equitangents.studies.framework import drawing
from equitangents.studies.framework.compatibility import Presentation, say
from equitangents.studies.framework.folder import RunFolder
from equitangents.studies.framework.tables import columns
from equitangents.studies.other_ensembles.study import CLOSED, TITLES, Results, Settings, share, squares

_COLOURS = dict(zip(TITLES, (INK, BLUE, PURPLE, GREEN, SKY, VERMILLION, ORANGE), strict=True))
_WHY = {
    "plain": "initialisation has no preferred orientation, the data have all of them",
    "nngp": "prior and data are invariant, so is the posterior; noise on targets is drawn alike for every copy",
    "ntk": "the random prior function has an invariant law",
    "bagged": "every resample keeps all copies of its inputs",
    "bagged-copies": "each resample is incomplete, but any resample is as likely as its rotation",
    "snapshots": "each snapshot’s law is invariant, but all share one initialisation, which is never averaged out",
    "boosted": "the law is invariant, but what a stage adds off the data is not taken back by later ones",
}


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {
        "size": columns(
            ("ensemble", "size", "unit", "mean_square_change"),
            [
                (title, m, i, v)
                for kind, title in TITLES.items()
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
    sections = [
        Section(
            "As ensembles grow",
            [
                "All learn the energy of spins on a torus from configurations in all four orientations. What is shown "
                "is the change of the prediction on new spins when they are turned. Independent members average it "
                "away. Snapshots of one run and stages of boosting have the same invariant law, but one run is one "
                "draw from it: more of them do not help. Averaging independent runs would.",
            ],
            [_sizes(settings, results, folder)],
        ),
        Section(
            "Which stay invariant, and why",
            [
                "The rule: if everything random in training has a law that the group does not change, the expectation "
                "is invariant; an ensemble comes close to its expectation if its members are independent.",
            ],
            [_table(settings, results)],
        ),
    ]
    facts = {
        "Group": f"C4 acting on a {settings.lattice}×{settings.lattice} lattice",
        "Networks": f"{settings.hidden_layers} hidden layers of {settings.width}, ReLU",
        "Members": f"{settings.members} of each independent kind; {settings.runs} runs of snapshots and of boosting",
        "Noise of posteriors": f"variance {settings.noise:g}",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(verdicts), tables, sections, facts)


def _summary(verdicts: Sequence[Verdict]) -> str:
    first = say(
        verdicts[0],
        holds="Bayesian posteriors, random priors and bagging stay invariant at infinite width",
        fails="Not all of Bayesian posteriors, random priors and bagging stay invariant at infinite width",
        undecided="The closed forms could not be judged",
    )
    second = say(
        verdicts[3],
        holds="finite ensembles of independent members approach invariance as one over the square root of their size",
        fails="finite ensembles of independent members do not all approach invariance as expected",
        undecided="how finite ensembles approach invariance cannot be told at this size",
    )
    third = say(
        verdicts[4],
        holds="snapshots of one run do not.",
        fails="snapshots of one run do too.",
        undecided="whether snapshots of one run do cannot be told.",
    )
    return f"{first}; {second}; {third}"


def _sizes(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with figures.canvas(8.6, 3.8) as canvas:
        axes = canvas.subplots()
        for k, (kind, title) in enumerate(TITLES.items()):
            values = [bootstrap(column, lambda m: np.sqrt(m)) for column in squares(settings, results, kind).T]
            drawing.estimates(
                axes, np.array(settings.sizes) * 1.012 ** (k - 3), values, _COLOURS[kind].light, label=title
            )
        sizes = np.array(settings.sizes, dtype=float)
        start = np.sqrt(squares(settings, results, "plain")[:, 0].mean())
        axes.plot(sizes, 0.8 * start / np.sqrt(sizes), color=MUTED.light, lw=0.9, ls=(0, (2, 2)), label="1/√size")
        drawing.logarithmic(axes, "both", settings.sizes, base=2, fine=True)
        axes.set_xlabel("members, snapshots or stages")
        axes.set_ylabel("change under rotations")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        svg = figures.save(canvas, folder.figures, "change-against-size")
    caption = (
        "Root mean square change of an ensemble’s prediction under turns by 90°, 180° and 270°, in units of the "
        "energies’ standard deviation, against its size, with 95 % intervals over independent ensembles."
    )
    return Figure("change-against-size", caption, svg, alt="Change under rotations against ensemble size")


def _table(settings: Settings, results: Results) -> Table:
    rows = []
    for kind, title in TITLES.items():
        left = share(results, kind).times(100)
        exponent = power_law(np.array(settings.sizes), squares(settings, results, kind))
        rows.append(
            (
                f"{title}: {_WHY[kind]}",
                f"{format_number(left.value, left.interval)} %",
                format_number(exponent.value, exponent.interval),
            )
        )
    caption = (
        "Share of the mean square change that averaging infinitely many independent members or runs would leave; "
        "exponent of the root mean square change against the size of one ensemble."
    )
    return Table(caption, ("ensemble, and why", "left in expectation", "exponent"), rows)
