"""Claims about the change under rotations between the elements of C_k, and how it is shown: against κ, k and cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, bootstrap, exactly, power_law, shared_level, t_interval
from equitangents_studies.common.scores import covered
from equitangents_studies.continuous.study import (
    PRESETS,
    ImageEnsembles,
    Results,
    Settings,
    bound_share,
    check_settings,
    finite_violation,
    measure,
)
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import (
    Claim,
    Records,
    after,
    claim,
    exact,
    ours,
    proved,
    theirs,
    to_rounding,
)
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The lemma, invariance under C_k itself, the slope, the floor of resampling, finite and image ensembles."""
    times, orders, finest = range(len(results.steps)), settings.orders, settings.orders[-1]
    when = lambda t: after(int(results.steps[t]))
    words = lambda k, t: f"C{k}, {when(t)}"
    share, floor, each = bound_share(results), results.relative_floor()[-1], shared_level(len(times))
    over_inputs, chosen = partial(claim, covers="inputs"), ours("our question; the bound is our choice")

    def own(k: int, t: int) -> Estimate:
        i = orders.index(k)
        return exactly(results.profile["rings"][i, t, :: settings.angles // k].max() / results.size["rings"][i, t])

    def over_floor(way: str) -> Records:
        both = [np.stack([results.relative(way)[-1, t], floor[t]], axis=1) for t in times]
        root = lambda m: np.sqrt(m[:, 0] / m[:, 1])
        return Records.over(lambda t: bootstrap(both[t], root, confidence=each), when, t=times)

    slope = lambda t: power_law(results.kappa["rings"], results.relative("rings")[:, t].T, confidence=each)
    found = [
        exact(
            "On the test images the mean changes by at most κ C(x) under any rotation tried",
            Records.over(lambda k, t: exactly(share[orders.index(k), t].max()), words, k=orders, t=times),
            measure="On rings: largest change over angles divided by κ C(x), for the worst input. C(x) = |x| times "
            f"the largest gradient of the closed-form mean at {settings.points}² places on the chords, by central "
            "differences.",
            at_most=1,
            by=proved(EMERGENT_EQUIVARIANCE, "Lemma 6.2", "at most 1"),
        ),
        to_rounding(
            "On the test images the mean does not change under the rotations of C_k, to rounding",
            Records.over(own, words, k=orders, t=times),
            measure="On rings: largest change under C_k, relative to the root mean square prediction.",
            by=proved(EMERGENT_EQUIVARIANCE, "main theorem", "0"),
        ),
        over_inputs(
            "The change under all rotations falls at least in proportion to κ",
            Records.over(slope, when, t=times),
            measure="On rings: exponent of the root mean square change against κ.",
            at_least=1,
            by=ours("expected from the lemma, which bounds the change by κ", stated="at least 1"),
        ),
        over_inputs(
            f"After augmentation with C{finest} the change on pixels is at most twice the error of resampling",
            over_floor("pixels"),
            measure="Root mean square change when pixels are rotated, over that when they are rotated there and back.",
            at_most=2,
            by=chosen,
        ),
        over_inputs(
            f"After augmentation with C{finest} exact rotations of rings change the mean by at most half of what "
            "resampling pixels does",
            over_floor("rings"),
            measure="Root mean square relative change on rings over the floor of resampled pixels.",
            at_most=0.5,
            by=chosen,
        ),
    ]
    if settings.trained:
        violation = partial(finite_violation, settings, results, level=shared_level(len(settings.trained)))
        found.append(
            claim(
                "Trained ensembles, less their sampling error, violate the symmetry as much as the closed form says, "
                "to within a factor of 2",
                Records.over(lambda k: violation(k), lambda k: f"C{k}", k=settings.trained),
                measure=f"On rings {when(len(times) - 1)}: root mean square change of the mean of members of width "
                f"{settings.width}, without sampling bias, over that of the closed form.",
                covers="members",
                at_least=0.5,
                at_most=2,
                by=ours("expected; the bounds are our choice"),
            )
        )
    return found if results.images is None else [*found, *image_claims(results.images)]


_PLACE = "experiments on rotated FashionMNIST: emergent continuous invariance"
_OF_FLOOR, _GAIN = 0.02, 0.01  # shares of the angles


def image_claims(found: ImageEnsembles) -> Sequence[Claim]:
    """What C_k for larger k brings, against the members, the floor of resampling, and the cost."""
    first, before, last = found.orders[0], found.orders[-2], found.orders[-1]
    sets, titles, epochs, ensembles = found.sets, found.images.titles, found.epochs[-1], found.recipe.ensembles
    each, over = shared_level(len(sets)), covered(ensembles, "ensembles")
    agreement = f"Agreement: share of {found.order} angles at which the predicted class is that of the image as it is"
    end = lambda k, name: found.agreement(k, name)[-1]
    members = lambda k, name: found.of_members(k, name)[-1]
    floor = lambda k, name: found.floor(k, name)[-1]
    chosen = ours("our question; the bound is our choice")

    def on_sets(of: Callable[[str], np.ndarray]) -> Records:
        return Records.over(lambda name: found.mean_difference(of(name), each), lambda name: titles[name], name=sets)

    def ahead(k: int, name: str) -> Estimate:
        return found.mean_difference(end(k, name) - members(k, name), shared_level(len(sets) * len(found.orders)))

    rises = lambda name: end(last, name) - end(first, name)
    leads = [end(k, name) - members(k, name) for k in found.orders for name in sets]
    over_sets = lambda tables: t_interval(np.mean([one.mean(axis=-1) for one in tables], axis=0), 0.95, (-1.0, 1.0))
    judged = [
        claim(
            f"Over all angles image ensembles trained with C{last} agree with themselves more often than with C{first}",
            on_sets(rises),
            covers=over,
            measure=f"{agreement}; C{last} minus C{first}, after {epochs} epochs each.",
            at_least=0,
            aggregate=(f"the mean over {len(sets)} sets of inputs", over_sets([rises(name) for name in sets])),
            by=theirs(EMERGENT_EQUIVARIANCE, _PLACE, "emergent invariance under SO(2), up to the discretisation"),
        ),
        claim(
            "Over all angles image ensembles agree with themselves more often than their members do",
            Records.over(ahead, lambda k, name: f"C{k}, {titles[name]}", k=found.orders, name=sets),
            covers=over,
            measure=f"{agreement}; the mean of {found.recipe.members} networks minus its members’ mean.",
            at_least=0,
            aggregate=(f"the mean over {len(found.orders)} groups and {len(sets)} sets of inputs", over_sets(leads)),
            by=theirs(EMERGENT_EQUIVARIANCE, _PLACE),
        ),
        claim(
            f"Over all angles image ensembles trained with C{last} err less often than with C{first}",
            {"test": found.mean_difference(found.accuracy(last)[-1] - found.accuracy(first)[-1])},
            covers=over,
            measure=f"Share of {found.order} angles at which test images are given a wrong class; C{first} minus "
            f"C{last}, after {epochs} epochs each.",
            at_least=0,
            by=ours("ours: the error over all angles"),
        ),
        claim(
            f"After training with C{last} image ensembles agree with themselves at all angles as often as resampling "
            "allows, to within 2 % of the angles",
            on_sets(lambda name: floor(last, name) - end(last, name)),
            covers=over,
            measure=f"{agreement}; that of images turned there and back, the floor of resampling, minus that of images "
            "turned once.",
            at_most=_OF_FLOOR,
            by=chosen,
        ),
        claim(
            f"From C{before} to C{last} agreement over all angles gains at most 1 % of the angles",
            on_sets(lambda name: end(last, name) - end(before, name)),
            covers=over,
            measure=f"{agreement}; C{last} minus C{before}, after {epochs} epochs each.",
            at_most=_GAIN,
            by=chosen,
        ),
    ]
    return [*judged, *_at_equal_cost(found, agreement, over)]


def _at_equal_cost(found: ImageEnsembles, agreement: str, over: str) -> list[Claim]:
    """More orientations or more epochs, for pairs that take equally many steps; none where no two do."""
    epochs = [int(e) for e in found.epochs]
    early = lambda k, more: epochs[-1] * k // more  # epochs of the larger group that take as many steps
    costly = itertools.pairwise(found.orders)
    pairs = [(k, more) for k, more in costly if epochs[-1] * k % more == 0 and early(k, more) in epochs]
    if not pairs:
        return []

    def ahead(pair: tuple[int, int], name: str) -> Estimate:
        k, more = pair
        off = found.agreement(more, name)[epochs.index(early(k, more))] - found.agreement(k, name)[-1]
        return found.mean_difference(off, shared_level(len(pairs) * len(found.sets)))

    words = lambda pair, name: f"C{pair[1]} against C{pair[0]}, {found.images.titles[name]}"
    return [
        claim(
            "At equally many training steps more orientations agree with themselves at all angles more often than "
            "more epochs",
            Records.over(ahead, words, pair=pairs, name=found.sets),
            measure=f"{agreement}; the larger group for fewer epochs minus the smaller one for {epochs[-1]}, at equal "
            "cost.",
            at_least=0,
            by=ours("our question"),
            covers=over,
        )
    ]


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Agreement over angles of image ensembles, which may be left out."""
    found = results.images
    return [] if found is None else [_images_over_angles(found, folder)]


_DASHED = (0, (3, 3))
_FLOOR = "floor of resampling"


def _at_angles(found: ImageEnsembles, k: int, name: str) -> np.ndarray:
    """Share of inputs and ensembles, after the last epoch, whose class is that of the image as it is: (angles,)."""
    labels = found.labels(k, name)[-1]
    share: np.ndarray = (labels == labels[:, :1]).mean(axis=(0, 2))
    return share


def _images_over_angles(found: ImageEnsembles, folder: RunFolder) -> Figure:
    degrees = 360 * np.arange(found.order) / found.order
    half, last = degrees <= 180, found.orders[-1]
    titles = [found.images.titles[name] for name in found.sets]
    with drawing.panels(
        folder,
        "agreement-over-angles",
        titles=[drawing.heading(title) for title in titles],
        xlabel="angle, degrees",
        ylabel="agreement, % of inputs",
        size=(8.6, 3.2),
        sharey=True,
        caption=(
            "Share of inputs whose predicted class at an angle is that of the image as it is, after the "
            "last epoch: the mean over ensembles of CNNs. Dashed: the floor of resampling for the largest"
            " group, where images are turned by the angle and back."
        ),
        alt="Agreement of image ensembles against the angle of rotation, for every k",
    ) as drawn:
        for axes, name in zip(drawn, found.sets, strict=True):
            for k, colour in drawing.shades_of(found.orders):
                axes.plot(degrees[half], 100 * _at_angles(found, k, name)[half], color=colour, lw=1.2, label=f"C{k}")
            floor = found.answers[last][f"floor_{name}"][-1] == found.labels(last, name)[-1][:, :1]
            axes.plot(
                degrees[half],
                100 * floor.mean(axis=(0, 2))[half],
                color=palette.MUTED.light,
                lw=1,
                ls=_DASHED,
                label=_FLOOR,
            )
            axes.set_xticks([0, 45, 90, 135, 180])
            axes.set_ylim(0, 101)
    return drawn.figure


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
