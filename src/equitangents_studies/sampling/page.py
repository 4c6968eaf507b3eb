"""Claims about budgets of augmented samples, and how they are shown: against the budget, over time, trained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, exactly, log_ratio, power_law, shared_level, t_interval
from equitangents_studies.common.scores import covered, table_mean
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Claim, Records, claim, ours, proved, theirs, to_rounding
from equitangents_studies.framework.drawing import name_of
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE
from equitangents_studies.sampling.study import (
    PRESETS,
    SETS,
    Results,
    Settings,
    TrainedEnsembles,
    check_settings,
    compared,
    measure,
)

OPEN = "open question of arXiv 2403.03103"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What the complete ensemble does, and which way of choosing does better than which, trained ensembles included."""
    times, sets, late = range(len(results.times)), range(len(SETS)), len(results.times) - 1
    several = [j for j, b in enumerate(settings.budgets) if b > 1]
    largest, when = settings.budgets[-1], [name_of(t) for t in results.times]
    each = shared_level(len(SETS))

    def words(s: int, t: int | None = None, j: int | None = None) -> str:
        parts = ["" if j is None else f"{settings.budgets[j]} of {settings.order}", "" if t is None else when[t]]
        return ", ".join([part for part in parts if part] + [SETS[s]])

    def family(a: str, b: str, budgets: Sequence[int]) -> Records:
        level = shared_level(len(budgets) * len(times) * len(sets))
        of = lambda j, t, s: compared(results, a, b, j, t, s, level)
        return Records.over(of, words, j=budgets, t=times, s=sets)

    def growing(j: int, s: int) -> Estimate:
        values, level = results.violation["own"][j], shared_level(len(SETS) * len(settings.budgets))
        return log_ratio(values[:, late, s], values[:, 0, s], confidence=level)

    def exponent(s: int) -> Estimate:
        return power_law(np.array(settings.budgets), results.distance["uniform"][:, :, 0, s].T ** 2, confidence=each)

    own, subgroup = family("own", "shared", several), family("subgroup", "own", [len(settings.budgets) - 1])
    important = family("important", "uniform", several)
    ratio = "Root mean square violation of the first way over that of the second; geometric means over draws."
    over_draws = partial(claim, covers="draws of elements")
    found = [
        to_rounding(
            "Complete augmentation leaves the mean invariant at all times, to rounding",
            Records.over(lambda t, s: exactly(float(results.complete[t, s])), words, t=times, s=sets),
            measure="Root mean square change over orbits, relative to the prediction.",
            by=proved(EMERGENT_EQUIVARIANCE, "main theorem", "exactly invariant"),
        ),
        over_draws(
            "Random elements of each input’s own violate the symmetry less than as many that all inputs share, at "
            "every budget and time",
            own,
            measure=ratio,
            at_most=1,
            by=ours(OPEN),
        ),
        over_draws(
            f"A subgroup of order {largest} violates the symmetry less than {largest} random elements of each input’s "
            "own, at every time",
            subgroup,
            measure=ratio + " The subgroup is not random.",
            at_most=1,
            by=ours("ours: the source compares random elements with all of them"),
        ),
        over_draws(
            "Elements drawn by how far they move the input violate the symmetry less than those drawn uniformly, at "
            "every budget and time",
            important,
            measure=ratio + " Both with replacement, the first with weights that make the loss unbiased.",
            at_most=1,
            by=ours(OPEN),
        ),
        over_draws(
            "Early in training the distance from the complete ensemble falls as one over the square root of the budget",
            Records.over(exponent, words, s=sets),
            measure=f"Exponent of the root mean square distance of the means against the budget {when[0]}, elements "
            "drawn with replacement.",
            at_least=-0.6,
            at_most=-0.4,
            by=ours("theory of unbiased estimates of the gradient; the bounds are our choice", stated="−1/2"),
        ),
        over_draws(
            f"With random elements of each input’s own the violation is larger {when[late]} than {when[0]}, at every "
            "budget",
            Records.over(growing, words, j=range(len(settings.budgets)), s=sets),
            measure=f"Violation {when[late]} over that {when[0]}; geometric means over draws.",
            at_least=1,
            by=ours(OPEN),
        ),
    ]
    return found if results.trained is None else [*found, *trained_claims(results.trained)]


_ACCURACY, _AGREEMENT = 0.01, 0.02  # of the images, and of the rotations
_SOURCE, _PLACE = "arXiv 2403.03103; the bounds are our choice", "discussion of sampling: systematic or random"
_STATED = "no notable difference"
_SYSTEMATIC, _RANDOM = "complete", "anew"


def trained_claims(found: TrainedEnsembles) -> Sequence[Claim]:
    """Accuracy and agreement of all elements and of random ones, after equally many steps.

    The source shows in each epoch all elements of every image, or as many random ones, and leaves none out for good.
    """
    shown = f"{found.titles[_SYSTEMATIC]} or {found.titles[_RANDOM]}"
    over = (covered(found.repetitions, "repetitions"), found.repetitions)
    bound, bounds = _AGREEMENT * found.order, (1.0 - found.order, found.order - 1.0)
    less = lambda score, *at: score(_SYSTEMATIC, *at) - score(_RANDOM, *at)
    agreement = lambda name: less(found.agreement, name)
    return [
        claim(
            f"Ensembles that are shown {shown} are equally accurate over the orbits of test images, to within 1 "
            "percentage point",
            {found.images.titles["test"]: table_mean(less(found.accuracy), (-1.0, 1.0))},
            measure=f"Accuracy over all {found.order} orientations, systematic minus random elements, after equally "
            "many steps.",
            covers=over,
            at_least=-_ACCURACY,
            at_most=_ACCURACY,
            by=theirs(_SOURCE, _PLACE, _STATED),
        ),
        claim(
            f"Ensembles that are shown {shown} agree with themselves equally often, in and out of distribution, to "
            "within 2 % of the rotations",
            Records.over(
                lambda name: table_mean(agreement(name), bounds),
                lambda name: found.images.titles[name],
                name=found.sets,
            ),
            measure=f"Orbit same predictions out of {found.order}, systematic minus random elements, after equally "
            "many steps.",
            covers=over,
            at_least=-bound,
            at_most=bound,
            aggregate=(
                f"the mean over {len(found.sets)} sets of inputs",
                t_interval(np.mean([agreement(name).mean(axis=1) for name in found.sets], axis=0), bounds=bounds),
            ),
            by=theirs(_SOURCE, _PLACE, _STATED),
        ),
    ]


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Scores of trained ensembles, which may be left out."""
    found = results.trained
    return [] if found is None else [_figure(found, folder)]


_FLOOR = "floor of resampling"
_TRAINED_COLOURS = (palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE)


def _figure(found: TrainedEnsembles, folder: RunFolder) -> Figure:
    ways = list(found.answers)
    with drawing.panels(
        folder,
        "systematic-and-random",
        titles=(f"Accuracy, {found.images.titles['test']}, %", f"Orbit same predictions, of {found.order}"),
        size=(8.6, 3.6),
        caption=(
            "Ensembles of CNNs, trained on systematic elements and on random ones for equally many steps,"
            " with 95 % intervals over repetitions. Left: accuracy over all orientations of the test "
            "images. Right: agreement over orbits. Squares: the floor of resampling."
        ),
        alt="Accuracy and agreement of ensembles trained on systematic and on random elements",
    ) as drawn:
        left, right = drawn
        accuracy = lambda way: table_mean(100 * found.accuracy(way), (0.0, 100.0))
        _row(left, [accuracy(way) for way in ways], 0.0, palette.BLUE.light, "ensembles")
        floors = [100 * found.floor_accuracy(way).mean() for way in ways]
        left.plot(range(len(ways)), floors, "s", color=palette.MUTED.light, ms=4, mfc="none", label=_FLOOR)
        for i, name in enumerate(found.sets):
            colour = _TRAINED_COLOURS[i % len(_TRAINED_COLOURS)]
            shift = 0.14 * (i - (len(found.sets) - 1) / 2)
            scores = [_osp(found, way, name) for way in ways]
            _row(right, scores, shift, colour.light, found.images.titles[name])
            floors = [found.floor(way, name).mean() for way in ways]
            right.plot(np.arange(len(ways)) + shift, floors, "s", color=colour.light, ms=4, mfc="none")
        right.plot([], [], "s", color=palette.MUTED.light, ms=4, mfc="none", label=_FLOOR)
        labels = [f"all {found.order}", "random,\nevery visit", f"{found.budget} equally\nspaced",
                  f"{found.budget} random,\neach its own"]  # fmt: skip
        for axes in drawn:
            axes.set_xticks(range(len(ways)), labels, fontsize=8)
            axes.set_xlim(-0.5, len(ways) - 0.5)
        drawn.legend(right)
    return drawn.figure


def _osp(found: TrainedEnsembles, way: str, name: str) -> Estimate:
    return table_mean(found.agreement(way, name), (1.0, float(found.order)))


def _row(axes: Axes, values: list[Estimate], shift: float, colour: str, label: str) -> None:
    drawing.estimates(axes, np.arange(len(values)) + shift, values, colour, fmt="o", label=label)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
