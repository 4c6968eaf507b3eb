"""Claims about image ensembles: what more orientations bring at all angles, in and out of distribution, and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equitangents.report import with_interval
from equitangents.statistics import Estimate, shared_level, t_interval
from equitangents_studies.common.scores import covered
from equitangents_studies.continuous.image_results import ImageEnsembles
from equitangents_studies.continuous.settings import Settings
from equitangents_studies.framework.claims import Claim, Records, claim

SOURCE, _PLACE = "arXiv 2403.03103", "experiments on rotated FashionMNIST: emergent continuous invariance"
_OF_FLOOR, _GAIN = 0.02, 0.01  # shares of the angles


def image_claims(settings: Settings, found: ImageEnsembles) -> Sequence[Claim]:
    """What C_k for larger k brings, against the members, the floor of resampling, and the cost."""
    first, last = found.orders[0], found.orders[-1]
    sets, titles = found.sets, found.images.titles
    each = shared_level(len(sets))
    on = lambda name: titles[name]
    agreement = f"Agreement: share of {found.angles} angles at which the predicted class is that of the image as it is"
    how: dict[str, Any] = {"covers": covered(found.recipe.ensembles, "ensembles")}

    def rise(k: int, less: int, level: float, names: Sequence[str] = sets) -> Records:
        end = lambda order, name: found.agreement(order, name)[-1]
        return Records.over(lambda name: found.difference(end(k, name), end(less, name), level), on, name=names)

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
            measure=f"{agreement}; C{last} minus C{first}, after {found.epochs[-1]} epochs each.",
            at_least=0,
            aggregate=(f"the mean over {len(sets)} sets of inputs", over_sets(rises)),
            repeated=found.recipe.ensembles,
            origin="source",
            source=SOURCE,
            place=_PLACE,
            stated="emergent invariance under SO(2), up to the discretisation",
            holds=f"More orientations steady predictions between them too: from C{first} to C{last} agreement over all "
            f"angles rises by {_points(more)} at {dearer}.",
            fails=f"More orientations do not steady predictions at all angles on every set: from C{first} to C{last} "
            f"agreement changes by {_points(more)}.",
            undecided=f"Whether more orientations steady predictions at all angles on every set is not decided: from "
            f"C{first} to C{last} agreement changes by {_points(more)}.",
            **how,
        ),
        claim(
            "Over all angles image ensembles agree with themselves more often than their members do",
            members,
            measure=f"{agreement}; the mean of {found.recipe.members} networks minus its members’ mean.",
            at_least=0,
            aggregate=(f"the mean over {len(found.orders)} groups and {len(sets)} sets of inputs", over_sets(leads)),
            repeated=found.recipe.ensembles,
            origin="source",
            source=SOURCE,
            place=_PLACE,
            holds=f"Averaging steadies predictions also at angles that training did not show: by {_points(members)}.",
            fails="Averaging does not steady predictions at all angles for every number of orientations and set: the "
            f"lead of the mean is {_points(members)}.",
            undecided="Whether averaging steadies predictions at all angles for every number of orientations and set "
            f"is not decided: the lead of the mean is {_points(members)}.",
            **how,
        ),
        claim(
            f"Over all angles image ensembles trained with C{last} err less often than with C{first}",
            error,
            measure=f"Share of {found.angles} angles at which test images are given a wrong class; C{first} minus "
            f"C{last}, after {found.epochs[-1]} epochs each.",
            at_least=0,
            origin="ours",
            source="ours: the error over all angles",
            holds=f"Where images come at any angle, C{last} in place of C{first} lowers the error by "
            f"{100 * error['test'].value:.3g} percentage points, at {dearer}.",
            fails=f"C{last} does not lower the error over all angles below that of C{first}.",
            undecided=f"Whether C{last} lowers the error over all angles below that of C{first} is not decided: more "
            "test images or ensembles would tell.",
            **how,
        ),
        claim(
            f"After training with C{last} image ensembles agree with themselves at all angles as often as resampling "
            "allows, to within 2 % of the angles",
            short,
            measure=f"{agreement}; that of images turned there and back, the floor of resampling, minus that of images "
            "turned once.",
            at_most=_OF_FLOOR,
            origin="ours",
            source="our question; the bound is our choice",
            holds=f"Further orientations would gain little: agreement lies {_points(short)} below what resampling "
            "allows.",
            fails=f"C{last} is not enough to reach what resampling allows on every set: agreement lies "
            f"{_points(short)} below.",
            undecided=f"Whether C{last} reaches what resampling allows on every set is not decided: agreement lies "
            f"{_points(short)} below.",
            **how,
        ),
        claim(
            f"From C{before} to C{last} agreement over all angles gains at most 1 % of the angles",
            gain,
            measure=f"{agreement}; C{last} minus C{before}, after {found.epochs[-1]} epochs each.",
            at_most=_GAIN,
            origin="ours",
            source="our question; the bound is our choice",
            holds=f"C{before} is enough: C{last} costs {last / before:g} times as much and changes agreement by "
            f"{_points(gain)}.",
            fails=f"C{last} still pays on some set: at {last / before:g} times the cost of C{before} it changes "
            f"agreement by {_points(gain)}.",
            undecided=f"Whether C{last} pays at {last / before:g} times the cost of C{before} is not decided: it "
            f"changes agreement by {_points(gain)}.",
            **how,
        ),
    ]
    return [*judged, *_at_equal_cost(found, agreement, how)]


def finding(found: ImageEnsembles) -> str:
    """The page's title."""
    ends = [100 * _mean_over_sets(found, k, found.agreement).value for k in (found.orders[0], found.orders[-1])]
    return (
        f"Shown C{found.orders[-1]} in place of C{found.orders[0]}, an ensemble keeps its class at {ends[1]:.1f} in "
        f"place of {ends[0]:.1f} % of all angles"
    )


def sentence(found: ImageEnsembles) -> str:
    """Our numbers beside what the source says."""
    last = found.orders[-1]
    mean, member, floor = (
        _mean_over_sets(found, last, of).times(100) for of in (found.agreement, found.of_members, found.floor)
    )
    return (
        f"The source says that ensembles become invariant under SO(2) up to the discretisation; ours, trained with "
        f"C{last}, keep their class at {with_interval(mean.value, mean.interval)} % of {found.angles} angles on "
        f"average over {len(found.sets)} sets of inputs, single networks at {member.value:.1f} %, and resampling alone "
        f"leaves {floor.value:.1f} %."
    )


def _mean_over_sets(found: ImageEnsembles, k: int, of: Callable[[int, str], np.ndarray]) -> Estimate:
    """The mean over sets, each with the same weight, of a share after the last epoch."""
    each = [of(k, name)[-1].mean(axis=-1) for name in found.sets]
    return t_interval(np.mean(each, axis=0), 0.95, (0.0, 1.0))


def _at_equal_cost(found: ImageEnsembles, agreement: str, how: dict[str, Any]) -> list[Claim]:
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
            origin="ours",
            source="our question",
            holds="Spend training time on orientations before epochs: at equal cost agreement changes by "
            f"{_points(lead)} with the larger group.",
            fails="More orientations at equal cost do not pay for every group and set: agreement changes by "
            f"{_points(lead)}. See where the curves of agreement against cost cross.",
            undecided="Whether more orientations at equal cost pay for every group and set is not decided: agreement "
            f"changes by {_points(lead)}.",
            **how,
        )
    ]


def _points(shares: Records) -> str:
    """A span of shares of the angles, in percentage points."""
    return f"{shares.times(100).span()} percentage points"
