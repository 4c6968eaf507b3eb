"""What is claimed of ensembles on spins, and what each verdict means for somebody who must choose."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.statistics import (
    Estimate,
    quotient_of_squared_means,
    second_moment_share,
    shared_level,
)
from equitangents_studies.framework.claims import Claim, Records, after, claim, ours, theirs
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.ising import study
from equitangents_studies.ising.study import (
    SETS,
    Results,
    Settings,
    distance_exponent,
    falls,
    overall_ratio,
    share_left,
    spread_ratio,
)

_WIDTHS = "experiments, Ising model: mean predictions against the NTK’s"
_SPREAD = "experiments, Ising model: relative orbit standard deviation"
_ENOUGH = 30  # disjoint groups of M members that an interval for M needs


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's four claims, and the rate at which the means approach each other."""
    return [*_means(settings, results), *_spreads(settings, results), _rate(settings, results)]


def _means(settings: Settings, results: Results) -> list[Claim]:
    narrow, wide = min(settings.widths), max(settings.widths)
    trained = [t for t in settings.steps if t > 0]
    late = trained[-2:]

    def decrease(step: int, name: str) -> Estimate:
        of = lambda width: results.errors(width, name, results.at(step))
        return quotient_of_squared_means(of(wide), of(narrow), confidence=shared_level(len(late)))

    def left(step: int, name: str) -> Estimate:
        outputs = results.members[wide, name][results.at(step)].reshape(settings.members, -1)
        return second_moment_share(results.errors(wide, name, results.at(step)), outputs).times(100)

    return [
        claim(
            "The ensemble’s mean approaches the NTK’s as the width grows",
            Records.over(decrease, words=_words, step=late, name=("training",)),
            measure=f"Squared distance between the two means at width {wide}, divided by that at width {narrow}; free "
            "of the bias that a finite number of members brings.",
            covers=("members", settings.members),
            at_most=0.5,
            by=theirs(f"{THEIRS}; the bound is our choice", _WIDTHS),
            holds="Wider networks bring the ensemble’s mean closer to the closed form.",
            fails="Wider networks do not bring the ensemble’s mean closer to the closed form: do not expect width "
            "to mend a difference between the two.",
        ),
        claim(
            f"At width {wide} the ensemble’s mean is the NTK’s, to within 5 % of the mean square prediction",
            Records.over(left, words=_words, step=trained, name=SETS),
            aggregate=("the mean over sets after the last step", share_left(results, wide, -1).times(100)),
            measure="Squared distance between the two means as a share of the mean square prediction of one network; "
            "free of the bias that a finite number of members brings, so it may come out negative.",
            covers=("members", settings.members),
            at_most=5,
            unit="%",
            by=theirs(f"{THEIRS}; the bound is our choice", _WIDTHS),
            holds=f"At width {wide} the closed form can stand in for the mean of many networks, on the training "
            "set and away from it.",
            fails=f"At width {wide} the closed form is not yet the mean of many networks: take wider ones, or "
            "train the ensemble.",
            undecided=f"Whether the closed form can stand in for the mean of networks of width {wide} is not "
            "decided: more members would tell.",
        ),
    ]


def _spreads(settings: Settings, results: Results) -> list[Claim]:
    wide, most = max(settings.widths), max(settings.groups)
    trained, blocks = [t for t in settings.steps if t > 0], settings.members // most
    sizes = [m for m in settings.groups if settings.members // m >= _ENOUGH] or [min(settings.groups)]

    def ratio(step: int, name: str, size: int) -> Estimate:
        return spread_ratio(settings, results, wide, name, results.at(step), size)

    ratios = Records.over(ratio, words=_words, step=trained, name=SETS, size=sizes)
    fall, predicted = falls(settings, results, wide, SETS)
    of_sets = {f"{name} spins": falls(settings, results, wide, (name,))[0] for name in SETS}
    return [
        claim(
            "The orbit spread of M members is that of GP(μ, Σ/M), to within a tenth",
            ratios,
            aggregate=("the geometric mean over M, steps and sets", overall_ratio(settings, results, wide, trained)),
            measure=f"Relative orbit standard deviation at width {wide}, measured over predicted; the mean over M = "
            f"{', '.join(map(str, settings.groups))}, the family for M up to {max(sizes)}.",
            covers=(f"blocks of {most} members", blocks),
            at_least=0.9,
            at_most=1.1,
            by=theirs(f"{THEIRS}; the bounds are our choice", _SPREAD, "1"),
            holds="The closed form tells the spread, and so how many members a target needs: measured over predicted "
            f"is {ratios.span('.2f')} by M, step and set.",
            fails="Leave a margin when planning the number of members from the closed form at this width: the spread "
            f"is {ratios.span('.2f')} times predicted by M, step and set.",
            undecided="Whether the closed form tells the spread to within a tenth is not decided "
            f"({ratios.span('.2f')} times predicted by M, step and set): more members would tell.",
        ),
        claim(
            f"The mean of {most} members spreads at least 30 % less over orbits than one, in and out of distribution",
            of_sets,
            aggregate=("the geometric mean over sets", fall),
            measure=f"Relative orbit standard deviation of means of {most} members of width {wide} over that of single "
            f"ones, after the last step; GP(μ, Σ/M) has {predicted:.3f}.",
            covers=(f"blocks of {most} members", blocks),
            at_most=0.7,
            by=theirs(f"{THEIRS}; the bound is our choice", _SPREAD),
            holds=f"Averaging {most} members divides the spread over orbits by {1 / fall.value:.2f}, on spins like "
            "those of the training set and on others.",
            fails=f"Averaging {most} members leaves {fall.value:.2f} of the spread: take an invariant network.",
        ),
    ]


def _rate(settings: Settings, results: Results) -> Claim:
    found, widths = distance_exponent(settings, results, "training"), (min(settings.widths), max(settings.widths))
    number = f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})".replace("-", "−")
    between = f"between widths {widths[0]} and {widths[1]}"
    return claim(
        "The distance of the ensemble’s mean to the NTK’s falls as one over the width, the exponent to within a tenth",
        {"": found},
        measure="Exponent of the distance of the two means on the training spins after the last step against width, by "
        "weighted least squares on logarithms.",
        covers=("members", settings.members),
        at_least=-1.1,
        at_most=-0.9,
        by=ours("the first correction in 1/width has exponent −1; the source states no rate", stated="−1 (theory)"),
        holds=f"Twice the width halves the distance to the closed form: the exponent is {number}.",
        fails=f"The exponent is {number} {between}, which excludes theory’s −1 there: twice the width divides the "
        f"distance by {2**-found.value:.2f}, not by 2; why was not measured.",
        undecided=f"The exponent is {number} {between}; theory has −1: wider networks or more members would decide "
        "whether it is met to within a tenth.",
    )


def _words(step: int, name: str, size: int | None = None) -> str:
    return ("" if size is None else f"M = {size}, ") + f"{after(step)}, {name} spins"


STUDY: Study[Settings, Results] = Study(study.PRESETS, study.measure, claims, (THEIRS,), study.check_settings)
