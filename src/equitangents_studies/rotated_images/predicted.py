"""What theory expects of M members, beside trained ensembles of M with the same images and training time."""

from __future__ import annotations

import numpy as np

from equitangents.statistics import Estimate, bootstrap, shared_level
from equitangents_studies.common.scores import COVERS, Trained, disjoint_scores
from equitangents_studies.framework.claims import Claim, Records, claim
from equitangents_studies.rotated_images.results import Results, ensemble_labels
from equitangents_studies.rotated_images.settings import SOURCE, Settings, ensemble_sizes, experiment

PREDICTED, DRAWS = 100, 200  # inputs whose orbits are drawn jointly, and ensembles drawn
TOLERANCE = 0.05  # of |G|


def trained(settings: Settings, results: Results, name: str, members: int) -> Trained:
    """Disjoint ensembles of `members` trained networks on the inputs that the prediction is for."""
    labels = lambda groups: results.agreement(ensemble_labels(settings, groups, axis=1))
    scores = disjoint_scores(results.outputs[name][:, :, :PREDICTED], members, labels)
    expected, low, high = results.predicted[name][ensemble_sizes(settings).index(members)]
    return Trained(scores, float(expected), float(low), float(high))


def judged_sets(results: Results) -> tuple[str, ...]:
    """Sets of inputs with a prediction and with the outputs of trained members."""
    return tuple(name for name in results.predicted if name in results.outputs)


def differences(settings: Settings, results: Results) -> Records:
    """Trained minus expected for every set and every M, with intervals that hold together."""
    sizes, names = ensemble_sizes(settings), judged_sets(results)
    level, bounds = shared_level(len(sizes) * len(names)), results.scales["agreement"]
    return Records.over(
        lambda name, members: trained(settings, results, name, members).difference(bounds, level),
        lambda name, members: f"{members} member{'' if members == 1 else 's'}, {results.images.titles[name]}",
        name=names,
        members=sizes,
    )


def _scores(results: Results, labels: np.ndarray) -> np.ndarray:
    """(M,) orbit same predictions of every member on the inputs that the prediction is for."""
    return results.agreement(labels[:, :, :PREDICTED]).mean(axis=-1)


def distance(results: Results, members: dict[str, np.ndarray], level: float = 0.95) -> Estimate:
    """|trained − expected| of single networks, mean over sets; bootstrapped over members (M, |G|, N) of every set."""
    names = judged_sets(results)
    scores = np.column_stack([_scores(results, members[name]) for name in names])
    expected = np.array([results.predicted[name][0, 0] for name in names])
    return bootstrap(scores, lambda means: np.abs(means - expected).mean(axis=-1), confidence=level)


def last_members(results: Results) -> dict[str, np.ndarray]:
    """Classes of the members after the last epoch."""
    return {name: results.members[name][-1] for name in judged_sets(results)}


def _nearer(results: Results, names: tuple[str, ...], level: float) -> Estimate:
    """How much nearer than the narrow networks the others are to what is expected, mean over `names`."""
    wide, narrow = (
        np.column_stack([_scores(results, of[name]) for name in names])
        for of in (last_members(results), results.narrow)
    )
    expected = np.array([results.predicted[name][0, 0] for name in names])
    split = lambda means: np.abs(means.reshape(*means.shape[:-1], 2, len(names)) - expected).mean(axis=-1)
    return bootstrap(
        np.column_stack([narrow, wide]), lambda means: split(means)[..., 0] - split(means)[..., 1], confidence=level
    )


def approach_claim(settings: Settings, results: Results) -> Claim:
    """Whether wider networks agree with themselves more nearly as often as infinitely wide ones."""
    names = judged_sets(results)
    each = Records.over(
        lambda name: _nearer(results, (name,), shared_level(len(names))),
        lambda name: results.images.titles[name],
        name=names,
    )
    far, near = distance(results, results.narrow), distance(results, last_members(results))
    few, many = settings.narrow[-1], settings.channels[-1]
    power = float(np.log(near.value / far.value) / np.log(many / few))
    found = (
        f"{far.value:.2f} rotations out of {settings.order} at {few} channels, {near.value:.2f} at {many}: as the "
        f"width to the power {power:.2f}".replace("-", "−")
        + ", where theory’s leading order is −1"
    )
    return claim(
        "The wider the networks, the nearer their agreement over rotations to what infinite width predicts",
        each,
        measure="Distance of members’ orbit same predictions after the last epoch from those that GP(μ, Σ) expects of "
        f"networks with the same training images and time: at {few} channels minus at {many}, in rotations out of "
        f"{settings.order}.",
        covers="members",
        at_least=0,
        aggregate=(f"the mean over {len(names)} sets of inputs", _nearer(results, names, 0.95)),
        repeated=settings.members,
        origin="source",
        source=SOURCE,
        place=f"{experiment(settings)}; stated in the limit of width",
        holds=f"Networks approach the prediction of infinite width: they are {found}.",
        fails=f"These networks do not approach the prediction of infinite width: they are {found}.",
        undecided=f"Whether networks approach the prediction is not decided: they are {found}.",
    )


def members_finding(settings: Settings, results: Results) -> Claim:
    """Ensembles of every size, to within a tolerance that is ours."""
    found = differences(settings, results)
    least, most = -TOLERANCE * settings.order, TOLERANCE * settings.order
    outside = []
    for name in judged_sets(results):
        at = found.where(name=name)
        off = at.column("members")[~((least <= at.values) & (at.values <= most))]
        outside += [f"M = {', '.join(map(str, off))} ({results.images.titles[name]})"] if len(off) else []
    return claim(
        f"Ensembles of every size agree with themselves as often as infinitely wide ones, to within "
        f"{100 * TOLERANCE:g} % of the rotations",
        found,
        measure=f"Orbit same predictions of disjoint ensembles of M networks on {PREDICTED} inputs of each set, minus "
        f"those that GP(μ, Σ/M) expects for the same training images and time, in rotations out of {settings.order}.",
        covers=COVERS,
        at_least=least,
        at_most=most,
        origin="ours",
        source="ours: whether this width suffices to plan with",
        holds="Numbers of members can be planned from infinite width at this width.",
        fails=f"At {settings.channels[-1]} channels infinite width is off by more than {most:g} rotations out of "
        f"{settings.order} for {'; '.join(outside)}. The study `predicted-agreement` shows what width does to the "
        "difference.",
        undecided=f"At {settings.channels[-1]} channels the difference from infinite width is {found.span('.2g')} "
        f"rotations out of {settings.order}: not for every size and set is it told whether that is within {most:g}.",
    )
