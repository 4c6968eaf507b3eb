"""Which ensembles come close to invariance: claims, the change against size, and what stays in expectation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import bootstrap, exactly, log_ratio, shared_level
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Claim, Records, claim, exact, ours, proved, theirs
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.framework.works import AUGMENTED_POSTERIORS, EMERGENT_EQUIVARIANCE
from equitangents_studies.other_ensembles.study import (
    CLOSED,
    CONTROL,
    INDEPENDENT,
    POSTERIORS,
    PRESETS,
    SETS,
    TITLES,
    Results,
    Settings,
    check_settings,
    exponent,
    measure,
    share,
    squares,
)

OPEN = f"open question of {EMERGENT_EQUIVARIANCE}"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What the source says of plain averages; then expectations, closed forms and growth of the other kinds."""
    s, most, kinds = settings, max(settings.sizes), tuple(INDEPENDENT)
    title = lambda kind: _ALL[kind]
    of_members = partial(claim, covers="members", unit="%")
    of_posteriors = partial(claim, covers="posteriors")
    as_members = partial(claim, at_least=-0.6, at_most=-0.4)

    def shares(*kinds: str) -> Records:
        level = shared_level(len(kinds))
        return Records.over(lambda kind: share(results, kind, level).times(100), title, kind=kinds)

    def exponents(*kinds: str) -> Records:
        level = shared_level(len(kinds))
        return Records.over(lambda kind: exponent(s, results, kind, level), title, kind=kinds)

    return [
        exact(
            "Bayesian posteriors, random priors and bagging of inputs are invariant at infinite width",
            Records.over(
                lambda kind, of: exactly(results.closed[kind][("mean", "covariance").index(of)]),
                lambda kind, of: f"{CLOSED[kind]}, {of}",
                kind=("posterior", "random-prior", "bagged"),
                of=("mean", "covariance"),
            ),
            measure="Largest change over orbits of the mean, and of Σ(gx, gx′), relative to the largest entry. Bagging "
            f"of inputs: over the {s.resamples} resamples drawn, each with all its copies.",
            at_most=1e-8,
            by=ours(OPEN),
        ),
        claim(
            "Bagging of augmented copies is not invariant over finitely many resamples, not even at infinite width",
            {"": bootstrap(100 * results.broken)},
            measure=f"Largest relative change over orbits of the closed-form mean over {s.resamples} resamples, mean "
            f"over {SETS} independent sets of them.",
            covers="sets of resamples",
            at_least=0.1,
            unit="%",
            by=ours("expected; the bound is our choice"),
        ),
        of_members(
            "The expectation over all that is random is invariant for every kind of ensemble, to within 4 % of one "
            "member’s mean square change",
            shares(*kinds),
            measure="Share of the mean square change of one member that averaging over ever more independent "
            "ones would leave (unbiased, so it may come out negative).",
            at_most=4,
            by=ours(OPEN + "; the bound is our choice"),
        ),
        as_members(
            "The change of an ensemble falls about as one over the square root of the number of independent members",
            exponents(*kinds),
            measure="Exponent of the root mean square change of M members against M.",
            covers="batches of members",
            by=ours("expected of independent members; the bounds are our choice", stated="−1/2 (theory)"),
        ),
        of_members(
            "The mean of ever more plainly trained, augmented networks is invariant, to within 2 % of one’s mean "
            "square change",
            shares("plain"),
            measure="Share of the mean square change of one member that averaging over ever more of them would leave "
            "(unbiased, so it may come out negative).",
            at_most=2,
            by=proved(f"{EMERGENT_EQUIVARIANCE}; the bound is our choice", "theorem of emergent equivariance", "0 %"),
        ),
        of_members(
            "Without augmentation the mean of ever more networks is not invariant: more than 2 % of one’s mean square "
            "change survives",
            shares(*CONTROL),
            measure="The same share, of networks that saw every configuration in one orientation.",
            at_least=2,
            by=ours("our control; the bound is that of augmented networks"),
        ),
        claim(
            "More draws from the posterior of one run do not bring invariance: the change falls more slowly than their "
            "number to the power −0.2",
            {"": exponent(s, results, "draws")},
            measure="Exponent of the root mean square change against the number of draws from the posterior of one "
            "run.",
            covers="runs",
            at_least=-0.2,
            by=ours(OPEN + "; the bound is our choice"),
        ),
        of_posteriors(
            "The mean over ever more variational posteriors of augmented data is invariant, to within 4 % of one’s "
            "mean square change",
            shares("variational", "draws", "expanded"),
            measure="Share of the mean square change of one posterior (or one draw of it) that averaging over ever "
            "more of them would leave (unbiased, so it may come out negative).",
            at_most=4,
            unit="%",
            by=ours(f"expected of the law in {AUGMENTED_POSTERIORS}; the bound is our choice"),
        ),
        as_members(
            "Draws of one posterior that was made symmetric gain as independent members do",
            exponents("averaged", "projected"),
            measure="Exponent of the root mean square change against the number of draws.",
            covers="posteriors",
            by=ours("expected of what is invariant in the mean; the bounds are our choice", stated="−1/2 (theory)"),
        ),
        of_posteriors(
            "A posterior that begins as an orbit changes less under turns than one that begins anywhere",
            {"": log_ratio(*(squares(s, results, kind)[:, -1] ** 0.5 for kind in ("expanded", "draws")))},
            measure=f"Ratio of the changes of the mean over {most} draws of one posterior, as wide and trained alike "
            "(root mean squares; geometric means over posteriors).",
            at_most=1,
            by=theirs(str(AUGMENTED_POSTERIORS), "orbit expansion against augmentation alone, on images"),
        ),
    ]


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


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Changes against size, of ensembles and of posteriors."""
    figure = lambda kinds, name, label: _sizes(settings, results, folder, list(kinds), name, label)
    return [
        figure(TITLES, "change-against-size", "members"),
        figure(POSTERIORS, "posteriors-against-size", "posteriors, or draws of one"),
    ]


def _sizes(
    settings: Settings, results: Results, folder: RunFolder, kinds: Sequence[str], name: str, xlabel: str
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
        alt="Change under rotations against the size of ensembles",
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


WORKS = (EMERGENT_EQUIVARIANCE, AUGMENTED_POSTERIORS)
STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, WORKS, check_settings)
