"""Claims about budgets of augmented samples.

Claims about trained ensembles: do systematic and random group elements make a difference, as the source asks it?

The source shows in each epoch all elements of every image, or as many random ones, and leaves none out for good.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.statistics import Estimate, exactly, log_ratio, power_law, shared_level
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import Claim, Records, claim, ours, theirs, to_rounding
from equitangents_studies.framework.drawing import name_of
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE
from equitangents_studies.sampling import study
from equitangents_studies.sampling.study import PAIRS, SETS, Results, Settings, TrainedEnsembles, compared

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
        values = results.violation["own"][j]
        return log_ratio(
            values[:, late, s], values[:, 0, s], confidence=shared_level(len(SETS) * len(settings.budgets))
        )

    exponent = lambda s: power_law(
        np.array(settings.budgets), results.distance["uniform"][:, :, 0, s].T ** 2, confidence=each
    )
    own, subgroup = family("own", "shared", several), family("subgroup", "own", [len(settings.budgets) - 1])
    important = family("important", "uniform", several)
    growth = Records.over(growing, words, j=range(len(settings.budgets)), s=sets)
    ratio = "Root mean square violation of the first way over that of the second; geometric means over draws."
    found = [
        to_rounding(
            "Complete augmentation leaves the mean invariant at all times, to rounding",
            Records.over(lambda t, s: exactly(float(results.complete[t, s])), words, t=times, s=sets),
            measure="Root mean square change over orbits, relative to the prediction.",
            by=theirs(EMERGENT_EQUIVARIANCE, "main theorem", "exactly invariant"),
        ),
        claim(
            "Random elements of each input’s own violate the symmetry less than as many that all inputs share, at "
            "every budget and time",
            own,
            measure=ratio,
            covers="draws of elements",
            at_most=1,
            by=ours(OPEN),
        ),
        claim(
            f"A subgroup of order {largest} violates the symmetry less than {largest} random elements of each input’s "
            "own, at every time",
            subgroup,
            measure=ratio + " The subgroup is not random.",
            covers="draws of elements",
            at_most=1,
            by=ours("ours: the source compares random elements with all of them"),
        ),
        claim(
            "Elements drawn by how far they move the input violate the symmetry less than those drawn uniformly, at "
            "every budget and time",
            important,
            measure=ratio + " Both with replacement, the first with weights that make the loss unbiased.",
            covers="draws of elements",
            at_most=1,
            by=ours(OPEN),
        ),
        claim(
            "Early in training the distance from the complete ensemble falls as one over the square root of the budget",
            Records.over(exponent, words, s=sets),
            measure=f"Exponent of the root mean square distance of the means against the budget {when[0]}, elements "
            "drawn with replacement.",
            covers="draws of elements",
            at_least=-0.6,
            at_most=-0.4,
            by=ours("theory of unbiased estimates of the gradient; the bounds are our choice", stated="−1/2"),
        ),
        claim(
            f"With random elements of each input’s own the violation is larger {when[late]} than {when[0]}, at every "
            "budget",
            growth,
            measure=f"Violation {when[late]} over that {when[0]}; geometric means over draws.",
            covers="draws of elements",
            at_least=1,
            by=ours(OPEN),
        ),
    ]
    return found if results.trained is None else [*found, *trained_claims(results.trained)]


_ACCURACY, _AGREEMENT = 0.01, 0.02  # of the images, and of the rotations
_SOURCE, _PLACE = "arXiv 2403.03103; the bounds are our choice", "discussion of sampling: systematic or random"
_STATED = "no notable difference"
_SYSTEMATIC, _RANDOM = PAIRS[0]


def trained_claims(found: TrainedEnsembles) -> Sequence[Claim]:
    """Accuracy and agreement of all elements and of random ones, after equally many steps."""
    return [_accuracy(found), _agreement(found)]


def _accuracy(found: TrainedEnsembles) -> Claim:
    shown = f"{found.titles[_SYSTEMATIC]} or {found.titles[_RANDOM]}"
    difference = found.more_accurate(_SYSTEMATIC, _RANDOM)
    return claim(
        f"Ensembles that are shown {shown} are equally accurate over the orbits of test images, to within 1 percentage "
        "point",
        {found.images.titles["test"]: difference},
        measure=f"Accuracy over all {found.order} orientations, systematic minus random elements, after equally many "
        "steps.",
        covers=(covered(found.repetitions, "repetitions"), found.repetitions),
        at_least=-_ACCURACY,
        at_most=_ACCURACY,
        by=theirs(_SOURCE, _PLACE, _STATED),
    )


def _agreement(found: TrainedEnsembles) -> Claim:
    shown = f"{found.titles[_SYSTEMATIC]} or {found.titles[_RANDOM]}"
    each = Records.over(
        lambda name: found.steadier(_SYSTEMATIC, _RANDOM, name),
        lambda name: found.images.titles[name],
        name=found.sets,
    )
    whole = found.steadier_overall(_SYSTEMATIC, _RANDOM)
    bound = _AGREEMENT * found.order
    return claim(
        f"Ensembles that are shown {shown} agree with themselves equally often, in and out of distribution, to within "
        "2 % of the rotations",
        each,
        measure=f"Orbit same predictions out of {found.order}, systematic minus random elements, after equally many "
        "steps.",
        covers=(covered(found.repetitions, "repetitions"), found.repetitions),
        at_least=-bound,
        at_most=bound,
        aggregate=(f"the mean over {len(found.sets)} sets of inputs", whole),
        by=theirs(_SOURCE, _PLACE, _STATED),
    )


STUDY: Study[Settings, Results] = Study(
    study.PRESETS, study.measure, claims, (EMERGENT_EQUIVARIANCE,), study.check_settings
)
