"""Claims about trained ensembles: do systematic and random group elements make a difference?"""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.statistics import shared_level
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import Claim, Records, claim
from equitangents_studies.sampling.trained_results import PAIRS, TrainedEnsembles

_ACCURACY, _AGREEMENT = 0.01, 0.02  # of the images, and of the rotations
_SOURCE = "arXiv 2403.03103, on systematic and random elements; the bounds are our choice"
_STATED = "no notable difference"


def trained_claims(found: TrainedEnsembles) -> Sequence[Claim]:
    """Accuracy and agreement of either pair, each a claim of its own."""
    return [judged for pair in PAIRS for judged in (_accuracy(found, *pair), _agreement(found, *pair))]


def _accuracy(found: TrainedEnsembles, systematic: str, random: str) -> Claim:
    shown = f"{found.titles[systematic]} or {found.titles[random]}"
    difference = Records.over(
        lambda name: found.more_accurate(systematic, random), lambda name: found.images.titles[name], name=("test",)
    )
    off = f"the former less the latter is {difference.times(100).span()} percentage points"
    return claim(
        f"Ensembles that are shown {shown} are equally accurate over the orbits of test images, to within 1 percentage "
        "point",
        difference,
        measure=f"Accuracy over all {found.order} orientations, systematic minus random elements, after equally many "
        "steps.",
        covers=covered(found.repetitions, "repetitions"),
        at_least=-_ACCURACY,
        at_most=_ACCURACY,
        source=_SOURCE,
        stated=_STATED,
        holds=f"For accuracy, take whichever is easier, {shown}: {off}.",
        fails=f"For accuracy the choice matters, {shown}: {off}.",
        undecided=f"Whether the choice matters for accuracy, {shown}, is not decided: {off}.",
    )


def _agreement(found: TrainedEnsembles, systematic: str, random: str) -> Claim:
    shown, level = f"{found.titles[systematic]} or {found.titles[random]}", shared_level(len(found.sets))
    difference = Records.over(
        lambda name: found.steadier(systematic, random, name, level),
        lambda name: found.images.titles[name],
        name=found.sets,
    )
    bound = _AGREEMENT * found.order
    off = f"the former less the latter is {difference.span()} of {found.order} rotations"
    return claim(
        f"Ensembles that are shown {shown} agree with themselves equally often, in and out of distribution, to within "
        "2 % of the rotations",
        difference,
        measure=f"Orbit same predictions out of {found.order}, systematic minus random elements, after equally many "
        "steps.",
        covers=covered(found.repetitions, "repetitions"),
        at_least=-bound,
        at_most=bound,
        source=_SOURCE,
        stated=_STATED,
        holds=f"For invariance, take whichever is easier, {shown}: {off}.",
        fails=f"For invariance the choice matters on some set, {shown}: {off}.",
        undecided=f"Whether the choice matters for invariance, {shown}, is not decided: {off}.",
    )
