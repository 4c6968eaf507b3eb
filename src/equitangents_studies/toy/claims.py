"""Members against their mean and against infinite width, at each step, on the training disc and beyond it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from equitangents.statistics import shared_level, t_interval
from equitangents_studies.framework.claims import EXACT, Claim, Records, after, claim
from equitangents_studies.toy.results import Results, largest_change, member_sizes, parts, surviving
from equitangents_studies.toy.settings import REGIONS, Settings

WORK = "arXiv 2403.03103"
_THEOREM = "theorem of emergent equivariance"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The four claims of the source and a control."""
    both = tuple(range(len(REGIONS)))
    level = shared_level(len(both) * len(settings.steps))
    words = lambda region, step: f"{after(step)}, {REGIONS[region]}"
    each = lambda number: Records.over(number, words, region=both, step=settings.steps)

    def averaged(values: Callable[[Results, int, int], np.ndarray]) -> np.ndarray:
        return np.mean([values(results, region, step) for region in both for step in settings.steps], axis=0)

    single = t_interval(averaged(member_sizes))
    together = settings.members // 10
    return [
        claim(
            "Single members are not invariant",
            each(lambda region, step: t_interval(member_sizes(results, region, step))),
            aggregate=("the mean over steps and regions", single),
            measure="Root mean square change of a member when its input is turned, relative to the standard deviation "
            "of the true function; mean over members.",
            covers="members",
            repeated=settings.members,
            at_least=0.01,
            origin="source",
            source=f"{WORK}; the bound is our choice",
            place="slides, members at steps 0, 1, 2, 3 and 2000",
            holds="Augmentation alone does not make a network invariant: a turn changes one network’s answer by "
            f"{100 * single.value:.0f} % of the true function’s standard deviation.",
            fails="A single augmented network can be nearly invariant here; test it before training many.",
        ),
        claim(
            "The ensemble mean is invariant, at initialisation and at every later step",
            each(lambda region, step: surviving(results, region, step, level)),
            measure="Share of the members’ mean square change that averaging over ever more members would leave "
            "(unbiased, so it may come out negative).",
            covers="members",
            repeated=settings.members,
            at_most=2,
            unit="%",
            origin="source",
            source=f"{WORK}; the bound is our choice",
            place=_THEOREM + "; slides",
            stated="0 %",
            holds="Average: M networks leave about 1/√M of one network’s change, on the data and away from them, "
            "whenever training is stopped.",
            fails="Averaging leaves a violation that more members do not remove: train wider networks, or use "
            "an equivariant architecture.",
            undecided="There are too few members to tell whether averaging removes the violation: train more "
            "before relying on it.",
        ),
        claim(
            "At infinite width the mean is exactly invariant",
            each(lambda region, step: largest_change(results, results.augmented, region, step)),
            measure="Largest change of the closed-form mean when its input is turned, relative to the standard "
            "deviation of the true function.",
            covers=EXACT,
            at_most=1e-8,
            origin="source",
            source=WORK,
            place=_THEOREM,
            stated="0",
            holds="Where its kernel matrix is affordable, the closed form gives the invariant mean without "
            "training a network.",
            fails="The closed form of these networks is not invariant to rounding: do not take it for the limit.",
        ),
        claim(
            "Without augmentation the mean at infinite width is not invariant",
            Records.over(
                lambda region, step: largest_change(results, results.plain, region, step),
                words,
                region=both,
                step=(max(settings.steps),),
            ),
            measure="The same of an ensemble that saw every training point in one orientation only, after the last "
            "step.",
            covers=EXACT,
            at_least=0.01,
            origin="ours",
            source="our control",
            holds="The symmetry comes from the augmentation: averaging networks trained without it does not help.",
            fails="The mean is invariant without augmentation too, so this task does not need it.",
        ),
        claim(
            f"The mean of {together} members changes at most half as much under a turn as they do",
            each(lambda region, step: t_interval(parts(results, region, step))),
            aggregate=("the mean over steps and regions", t_interval(averaged(parts))),
            measure=f"Root mean square change of the mean of {together} members over that of single members; mean "
            "over ten disjoint parts of the ensemble. An invariant expectation leaves 1/√"
            f"{together} = {together**-0.5 if together else np.nan:.3f}.",
            covers="parts of the ensemble",
            repeated=10,
            at_most=0.5,
            origin="source",
            source=f"{WORK}; the bound is our choice",
            place="slides, members and mean at steps 0, 1, 2, 3 and 2000",
            holds=f"Even {together} networks, averaged, are much nearer to invariance than one of them.",
            fails=f"Averaging {together} networks does not bring them much nearer to invariance: take another method.",
            undecided=f"Whether averaging {together} networks halves the change is not decided: train more of them.",
        ),
    ]
