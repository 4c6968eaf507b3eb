"""Claims about the change under rotations between the elements of C_k."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from equitangents.statistics import Estimate, bootstrap, exactly, power_law, shared_level, t_interval
from equitangents_studies.common.scores import covered
from equitangents_studies.continuous import study
from equitangents_studies.continuous.study import ImageEnsembles, Results, Settings, bound_share, finite_violation
from equitangents_studies.framework.claims import (
    Claim,
    Records,
    after,
    claim,
    exact,
    in_words,
    ours,
    theirs,
    to_rounding,
)
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The lemma, invariance under C_k itself, the slope, the floor of resampling, finite and image ensembles."""
    times, finest = range(len(results.steps)), settings.orders[-1]
    when = lambda t: after(int(results.steps[t]))
    words = lambda k, t: f"C{k}, {when(t)}"
    share, floor, each = bound_share(results), results.relative_floor()[-1], shared_level(len(times))

    def own(k: int, t: int) -> Estimate:
        i = settings.orders.index(k)
        return exactly(results.profile["rings"][i, t, :: settings.angles // k].max() / results.size["rings"][i, t])

    def over_floor(way: str) -> Records:
        both = [np.stack([results.relative(way)[-1, t], floor[t]], axis=1) for t in times]
        root = lambda m: np.sqrt(m[:, 0] / m[:, 1])
        return Records.over(lambda t: bootstrap(both[t], root, confidence=each), when, t=times)

    slope = lambda t: power_law(results.kappa["rings"], results.relative("rings")[:, t].T, confidence=each)
    pixels, rings = over_floor("pixels"), over_floor("rings")
    found = [
        exact(
            "On the test images the mean changes by at most κ C(x) under any rotation tried",
            Records.over(
                lambda k, t: exactly(share[settings.orders.index(k), t].max()), words, k=settings.orders, t=times
            ),
            measure="On rings: largest change over angles divided by κ C(x), for the worst input. C(x) = |x| times "
            f"the largest gradient of the closed-form mean at {settings.points}² places on the chords, by central "
            "differences.",
            at_most=1,
            by=theirs(THEIRS, "Lemma 6.2", "at most 1"),
            holds="κ C(x) is a safe bound when choosing how many orientations to show: the change takes up at most "
            f"{share.max():.0%} of it here.".replace("%", " %"),
            fails="With the gradient searched at so few places κ C(x) is no safe bound: raise the setting points.",
        ),
        to_rounding(
            "On the test images the mean does not change under the rotations of C_k, to rounding",
            Records.over(own, words, k=settings.orders, t=times),
            measure="On rings: largest change under C_k, relative to the root mean square prediction.",
            by=theirs(THEIRS, "main theorem", "0"),
            holds="If only finitely many orientations occur in use, show exactly those: the infinitely wide "
            "ensemble is then invariant under them.",
            fails="The closed-form mean changes even under the rotations that the data show: find out why before "
            "looking at those between them.",
        ),
        claim(
            "The change under all rotations falls at least in proportion to κ",
            Records.over(slope, when, t=times),
            measure="On rings: exponent of the root mean square change against κ.",
            covers="inputs",
            at_least=1,
            by=ours("expected from the lemma, which bounds the change by κ", stated="at least 1"),
            holds="Each further doubling of the orientations shown at least halves the change under all rotations, "
            "where it halves κ.",
            fails="More orientations reduce the change under all rotations more slowly than κ: measure it at the "
            "number that is to be used.",
            undecided="How fast the change under all rotations falls with κ is not decided: more test images or "
            "more orders would tell.",
        ),
        claim(
            f"After augmentation with C{finest} the change on pixels is at most twice the error of resampling",
            pixels,
            measure="Root mean square change when pixels are rotated, over that when they are rotated there and back.",
            covers="inputs",
            at_most=2,
            by=ours("our question; the bound is our choice"),
            holds=f"On pixels more than {finest} orientations would gain little: resampling sets the limit (the "
            f"change is {pixels.span()} times its error).",
            fails=f"On pixels {finest} orientations are not enough to reach the limit that resampling sets: the "
            f"change is {pixels.span()} times its error at the recorded steps.",
            undecided=f"Whether more than {finest} orientations would gain much on pixels is not decided: the "
            f"change is {pixels.span()} times the error of resampling.",
        ),
        claim(
            f"After augmentation with C{finest} exact rotations of rings change the mean by at most half of what "
            "resampling pixels does",
            rings,
            measure="Root mean square relative change on rings over the floor of resampled pixels.",
            covers="inputs",
            at_most=0.5,
            by=ours("our question; the bound is our choice"),
            holds="Where invariance below the error of resampling is needed, use a representation that can "
            "be rotated exactly, such as rings.",
            fails="An exact representation does not bring the change clearly below the error of resampling with "
            f"{finest} orientations: show more of them.",
            undecided=f"Whether an exact representation pays with {finest} orientations is not decided: more test "
            "images would tell.",
        ),
    ]
    if settings.trained:
        level = shared_level(len(settings.trained))
        finite = Records.over(
            lambda k: finite_violation(settings, results, k, level), lambda k: f"C{k}", k=settings.trained
        )
        found.append(
            claim(
                "Trained ensembles, less their sampling error, violate the symmetry as much as the closed form says, "
                "to within a factor of 2",
                finite,
                measure=f"On rings {when(len(times) - 1)}: root mean square change of the mean of members of width "
                f"{settings.width}, without sampling bias, over that of the closed form.",
                covers="members",
                at_least=0.5,
                at_most=2,
                by=ours("expected; the bounds are our choice"),
                holds="The number of orientations can be chosen in closed form, before any network is trained: "
                f"measured over predicted is {finite.span()}.",
                fails="Choose the number of orientations from trained networks, not in closed form: measured over "
                f"predicted is {finite.span()} at width {settings.width}.",
                undecided="Whether the closed form tells how much trained ensembles violate the symmetry is not "
                f"decided (measured over predicted is {finite.span()}): more members would tell.",
            )
        )
    return found if results.images is None else [*found, *image_claims(settings, results.images)]


_PLACE = "experiments on rotated FashionMNIST: emergent continuous invariance"
_OF_FLOOR, _GAIN = 0.02, 0.01  # shares of the angles


def image_claims(settings: Settings, found: ImageEnsembles) -> Sequence[Claim]:
    """What C_k for larger k brings, against the members, the floor of resampling, and the cost."""
    first, last = found.orders[0], found.orders[-1]
    sets, titles = found.sets, found.images.titles
    each = shared_level(len(sets))
    on = lambda name: titles[name]
    agreement = f"Agreement: share of {found.order} angles at which the predicted class is that of the image as it is"
    over = covered(found.recipe.ensembles, "ensembles")

    def rise(k: int, less: int, level: float) -> Records:
        end = lambda order, name: found.agreement(order, name)[-1]
        return Records.over(lambda name: found.difference(end(k, name), end(less, name), level), on, name=sets)

    def ahead(k: int, name: str) -> Estimate:
        level = shared_level(len(sets) * len(found.orders))
        return found.difference(found.agreement(k, name)[-1], found.of_members(k, name)[-1], level)

    more = rise(last, first, each)
    members = Records.over(ahead, lambda k, name: f"C{k}, {titles[name]}", k=found.orders, name=sets)
    short = Records.over(
        lambda name: found.difference(found.floor(last, name)[-1], found.agreement(last, name)[-1], each), on, name=sets
    )
    rises = [found.agreement(last, name)[-1] - found.agreement(first, name)[-1] for name in sets]
    leads = [found.agreement(k, name)[-1] - found.of_members(k, name)[-1] for k in found.orders for name in sets]
    over_sets = lambda tables: t_interval(np.mean([one.mean(axis=-1) for one in tables], axis=0), 0.95, (-1.0, 1.0))
    error = {"test": found.difference(found.error(first)[-1], found.error(last)[-1])}
    before = found.orders[-2]
    gain = rise(last, before, each)
    dearer = f"{last / first:g} times the training cost"
    judged = [
        claim(
            f"Over all angles image ensembles trained with C{last} agree with themselves more often than with C{first}",
            more,
            covers=(over, found.recipe.ensembles),
            measure=f"{agreement}; C{last} minus C{first}, after {found.epochs[-1]} epochs each.",
            at_least=0,
            aggregate=(f"the mean over {len(sets)} sets of inputs", over_sets(rises)),
            by=theirs(THEIRS, _PLACE, "emergent invariance under SO(2), up to the discretisation"),
            holds=f"More orientations steady predictions between them too: from C{first} to C{last} agreement over all "
            f"angles rises by {_points(more)} at {dearer}.",
            fails=f"More orientations do not steady predictions at all angles on every set: from C{first} to C{last} "
            f"agreement changes by {_points(more)}.",
            undecided=f"Whether more orientations steady predictions at all angles on every set is not decided: from "
            f"C{first} to C{last} agreement changes by {_points(more)}.",
        ),
        claim(
            "Over all angles image ensembles agree with themselves more often than their members do",
            members,
            covers=(over, found.recipe.ensembles),
            measure=f"{agreement}; the mean of {found.recipe.members} networks minus its members’ mean.",
            at_least=0,
            aggregate=(f"the mean over {len(found.orders)} groups and {len(sets)} sets of inputs", over_sets(leads)),
            by=theirs(THEIRS, _PLACE),
            holds=f"Averaging steadies predictions also at angles that training did not show: by {_points(members)}.",
            fails="Averaging does not steady predictions at all angles for every number of orientations and set: the "
            f"lead of the mean is {_points(members)}.",
            undecided="Whether averaging steadies predictions at all angles for every number of orientations and set "
            f"is not decided: the lead of the mean is {_points(members)}.",
        ),
        claim(
            f"Over all angles image ensembles trained with C{last} err less often than with C{first}",
            error,
            covers=over,
            measure=f"Share of {found.order} angles at which test images are given a wrong class; C{first} minus "
            f"C{last}, after {found.epochs[-1]} epochs each.",
            at_least=0,
            by=ours("ours: the error over all angles"),
            holds=f"Where images come at any angle, C{last} in place of C{first} lowers the error by "
            f"{100 * error['test'].value:.3g} percentage points, at {dearer}.",
            fails=f"C{last} does not lower the error over all angles below that of C{first}.",
            undecided=f"Whether C{last} lowers the error over all angles below that of C{first} is not decided: more "
            "test images or ensembles would tell.",
        ),
        claim(
            f"After training with C{last} image ensembles agree with themselves at all angles as often as resampling "
            "allows, to within 2 % of the angles",
            short,
            covers=over,
            measure=f"{agreement}; that of images turned there and back, the floor of resampling, minus that of images "
            "turned once.",
            at_most=_OF_FLOOR,
            by=ours("our question; the bound is our choice"),
            holds=f"Further orientations would gain little: agreement lies {_points(short)} below what resampling "
            "allows.",
            fails=f"C{last} is not enough to reach what resampling allows on every set: agreement lies "
            f"{_points(short)} below.",
            undecided=f"Whether C{last} reaches what resampling allows on every set is not decided: agreement lies "
            f"{_points(short)} below.",
        ),
        claim(
            f"From C{before} to C{last} agreement over all angles gains at most 1 % of the angles",
            gain,
            covers=over,
            measure=f"{agreement}; C{last} minus C{before}, after {found.epochs[-1]} epochs each.",
            at_most=_GAIN,
            by=ours("our question; the bound is our choice"),
            holds=f"C{before} is enough: C{last} costs {last / before:g} times as much and changes agreement by "
            f"{_points(gain)}.",
            fails=f"C{last} still pays on some set: at {last / before:g} times the cost of C{before} it changes "
            f"agreement by {_points(gain)}.",
            undecided=f"Whether C{last} pays at {last / before:g} times the cost of C{before} is not decided: it "
            f"changes agreement by {_points(gain)}.",
        ),
    ]
    return [*judged, *_at_equal_cost(found, agreement, over)]


def headline(found: ImageEnsembles) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    first, last = found.orders[0], found.orders[-1]
    ends = [100 * _mean_over_sets(found, k, found.agreement).value for k in (first, last)]
    mean, member, floor = (
        _mean_over_sets(found, last, of).times(100) for of in (found.agreement, found.of_members, found.floor)
    )
    title = (
        f"An ensemble trained on {last} rotations keeps its class at {ends[1]:.1f} % of all angles, one trained on "
        f"{first} at {ends[0]:.1f} %"
    )
    said = (
        f"The source says that ensembles become invariant under SO(2) up to the discretisation; ours, trained with "
        f"C{last}, keep their class at {in_words(mean)} % of {found.order} angles on "
        f"average over {len(found.sets)} sets of inputs, with C{first} at {ends[0]:.1f} %, single networks at "
        f"{member.value:.1f} %, and resampling alone leaves {floor.value:.1f} %."
    )
    return title, said


def _mean_over_sets(found: ImageEnsembles, k: int, of: Callable[[int, str], np.ndarray]) -> Estimate:
    """The mean over sets, each with the same weight, of a share after the last epoch."""
    each = [of(k, name)[-1].mean(axis=-1) for name in found.sets]
    return t_interval(np.mean(each, axis=0), 0.95, (0.0, 1.0))


def _at_equal_cost(found: ImageEnsembles, agreement: str, over: str) -> list[Claim]:
    """More orientations or more epochs, for pairs that take equally many steps; none where no two do."""
    epochs = [int(e) for e in found.epochs]
    pairs = [
        (k, more)
        for k, more in zip(found.orders, found.orders[1:], strict=False)
        if epochs[-1] * k % more == 0 and epochs[-1] * k // more in epochs
    ]
    if not pairs:
        return []
    level = shared_level(len(pairs) * len(found.sets))

    def ahead(pair: tuple[int, int], name: str) -> Estimate:
        k, more = pair
        early = epochs.index(epochs[-1] * k // more)
        return found.difference(found.agreement(more, name)[early], found.agreement(k, name)[-1], level)

    lead = Records.over(
        ahead,
        lambda pair, name: f"C{pair[1]} against C{pair[0]}, {found.images.titles[name]}",
        pair=pairs,
        name=found.sets,
    )
    return [
        claim(
            "At equally many training steps more orientations agree with themselves at all angles more often than "
            "more epochs",
            lead,
            measure=f"{agreement}; the larger group for fewer epochs minus the smaller one for {epochs[-1]}, at equal "
            "cost.",
            at_least=0,
            by=ours("our question"),
            holds="Spend training time on orientations before epochs: at equal cost agreement changes by "
            f"{_points(lead)} with the larger group.",
            fails="More orientations at equal cost do not pay for every group and set: agreement changes by "
            f"{_points(lead)}. See where the curves of agreement against cost cross.",
            undecided="Whether more orientations at equal cost pay for every group and set is not decided: agreement "
            f"changes by {_points(lead)}.",
            covers=over,
        )
    ]


def _points(shares: Records) -> str:
    """A span of shares of the angles, in percentage points."""
    return f"{shares.times(100).span()} percentage points"


STUDY: Study[Settings, Results] = Study(study.PRESETS, study.measure, claims, (THEIRS,), study.check_settings)
