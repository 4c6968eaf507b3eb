"""Claims about trained ensembles: do systematic and random group elements make a difference, as the source asks it?

The source shows in each epoch all elements of every image, or as many random ones, and leaves none out for good.
"""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.report import with_interval
from equitangents.statistics import Estimate
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import Claim, Records, claim
from equitangents_studies.sampling.trained_results import PAIRS, TrainedEnsembles

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
    off = f"the former less the latter is {_number(difference.times(100))} percentage points"
    return claim(
        f"Ensembles that are shown {shown} are equally accurate over the orbits of test images, to within 1 percentage "
        "point",
        {found.images.titles["test"]: difference},
        measure=f"Accuracy over all {found.order} orientations, systematic minus random elements, after equally many "
        "steps.",
        covers=covered(found.repetitions, "repetitions"),
        repeated=found.repetitions,
        at_least=-_ACCURACY,
        at_most=_ACCURACY,
        origin="source",
        source=_SOURCE,
        place=_PLACE,
        stated=_STATED,
        holds=f"For accuracy, take whichever is easier, {shown}: {off}.",
        fails=f"For accuracy the choice matters, {shown}: {off}.",
        undecided=f"Whether the choice matters for accuracy, {shown}, is not decided: {off}.",
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
    off = f"the former less the latter is {_number(whole)} of {found.order} rotations"
    return claim(
        f"Ensembles that are shown {shown} agree with themselves equally often, in and out of distribution, to within "
        "2 % of the rotations",
        each,
        measure=f"Orbit same predictions out of {found.order}, systematic minus random elements, after equally many "
        "steps.",
        covers=covered(found.repetitions, "repetitions"),
        repeated=found.repetitions,
        at_least=-bound,
        at_most=bound,
        aggregate=(f"the mean over {len(found.sets)} sets of inputs", whole),
        origin="source",
        source=_SOURCE,
        place=_PLACE,
        stated=_STATED,
        holds=f"For invariance, take whichever is easier, {shown}: {off}.",
        fails=f"For invariance the choice matters, {shown}: {off}.",
        undecided=f"Whether the choice matters for invariance, {shown}, is not decided: {off}.",
    )


def _number(e: Estimate) -> str:
    return with_interval(e.value, e.interval)


def finding(found: TrainedEnsembles) -> str:
    """The page's title."""
    points = 100 * abs(found.more_accurate(_SYSTEMATIC, _RANDOM).value)
    rotations = abs(found.steadier_overall(_SYSTEMATIC, _RANDOM).value)
    return (
        f"All {found.order} group elements or a random one at every visit: accuracies {points:.2f} points apart, "
        f"agreement {rotations:.2f} of {found.order} rotations"
    )


def sentence(found: TrainedEnsembles) -> str:
    """Our numbers beside what the source says."""
    points = found.more_accurate(_SYSTEMATIC, _RANDOM).times(100)
    return (
        "The source saw no notable difference between systematic and random group elements; ours, all "
        f"{found.order} less a random one at every visit, is {_number(points)} percentage points of accuracy and "
        f"{_number(found.steadier_overall(_SYSTEMATIC, _RANDOM))} of {found.order} rotations of agreement."
    )
