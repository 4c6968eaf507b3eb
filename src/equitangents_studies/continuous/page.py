"""Claims about the change under rotations between the elements of C_k, and how it is shown: against κ, k and cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Table, palette
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
    table,
    theirs,
    to_rounding,
)
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE


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
            by=proved(EMERGENT_EQUIVARIANCE, "Lemma 6.2", "at most 1"),
        ),
        to_rounding(
            "On the test images the mean does not change under the rotations of C_k, to rounding",
            Records.over(own, words, k=settings.orders, t=times),
            measure="On rings: largest change under C_k, relative to the root mean square prediction.",
            by=proved(EMERGENT_EQUIVARIANCE, "main theorem", "0"),
        ),
        claim(
            "The change under all rotations falls at least in proportion to κ",
            Records.over(slope, when, t=times),
            measure="On rings: exponent of the root mean square change against κ.",
            covers="inputs",
            at_least=1,
            by=ours("expected from the lemma, which bounds the change by κ", stated="at least 1"),
        ),
        claim(
            f"After augmentation with C{finest} the change on pixels is at most twice the error of resampling",
            pixels,
            measure="Root mean square change when pixels are rotated, over that when they are rotated there and back.",
            covers="inputs",
            at_most=2,
            by=ours("our question; the bound is our choice"),
        ),
        claim(
            f"After augmentation with C{finest} exact rotations of rings change the mean by at most half of what "
            "resampling pixels does",
            rings,
            measure="Root mean square relative change on rings over the floor of resampled pixels.",
            covers="inputs",
            at_most=0.5,
            by=ours("our question; the bound is our choice"),
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
    judged = [
        claim(
            f"Over all angles image ensembles trained with C{last} agree with themselves more often than with C{first}",
            more,
            covers=(over, found.recipe.ensembles),
            measure=f"{agreement}; C{last} minus C{first}, after {found.epochs[-1]} epochs each.",
            at_least=0,
            aggregate=(f"the mean over {len(sets)} sets of inputs", over_sets(rises)),
            by=theirs(EMERGENT_EQUIVARIANCE, _PLACE, "emergent invariance under SO(2), up to the discretisation"),
        ),
        claim(
            "Over all angles image ensembles agree with themselves more often than their members do",
            members,
            covers=(over, found.recipe.ensembles),
            measure=f"{agreement}; the mean of {found.recipe.members} networks minus its members’ mean.",
            at_least=0,
            aggregate=(f"the mean over {len(found.orders)} groups and {len(sets)} sets of inputs", over_sets(leads)),
            by=theirs(EMERGENT_EQUIVARIANCE, _PLACE),
        ),
        claim(
            f"Over all angles image ensembles trained with C{last} err less often than with C{first}",
            error,
            covers=over,
            measure=f"Share of {found.order} angles at which test images are given a wrong class; C{first} minus "
            f"C{last}, after {found.epochs[-1]} epochs each.",
            at_least=0,
            by=ours("ours: the error over all angles"),
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
        ),
        claim(
            f"From C{before} to C{last} agreement over all angles gains at most 1 % of the angles",
            gain,
            covers=over,
            measure=f"{agreement}; C{last} minus C{before}, after {found.epochs[-1]} epochs each.",
            at_most=_GAIN,
            by=ours("our question; the bound is our choice"),
        ),
    ]
    return [*judged, *_at_equal_cost(found, agreement, over)]


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
            covers=over,
        )
    ]


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Agreement over angles of image ensembles, which may be left out."""
    found = results.images
    return [] if found is None else [_images_over_angles(found, folder), _table(found)]


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


def _table(found: ImageEnsembles) -> Table:
    titles = [found.images.titles[name] for name in found.sets]
    percent = lambda shares: found.mean(shares).times(100)
    rows: list[list[object]] = []
    for k in found.orders:
        scores = [found.error(k)[-1], *(found.agreement(k, name)[-1] for name in found.sets)]
        floors = [found.floor_error(k)[-1], *(found.floor(k, name)[-1] for name in found.sets)]
        rows.append([f"C{k}", f"{found.steps(k)[-1]:,}", *map(percent, scores)])
        rows.append([f"C{k}, {_FLOOR}", "", *map(percent, floors)])
    return table(
        "Training steps after the last epoch, error over all angles of the test images and agreement over all angles, "
        "in percent; in brackets 95 % intervals. Below each, the floor of resampling.",
        ["", "steps", "error", *(f"agreement, {title}" for title in titles)],
        rows,
    )


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
