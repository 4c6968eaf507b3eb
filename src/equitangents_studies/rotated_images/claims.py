"""The claims of `rotated-images` and `histology`: the mean against its members, infinite width, and what width does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.stats

from equitangents.report import format_number
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level
from equitangents_studies.common.scores import COVERS, Trained, disjoint_scores, floor_control, twice_turned
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.claims import (
    EXACT,
    P_VALUE,
    By,
    Claim,
    Records,
    claim,
    identity,
    ours,
    theirs,
)
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.stage_files import Arrays
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.rotated_images.settings import (
    Results,
    Settings,
    ensemble_labels,
    ensemble_sizes,
    experiment,
    stated_agreement,
)

MEMBERS, INPUTS = 8, 100  # networks of the invariant function, and inputs of each set that it is shown


def floor_stage(settings: Settings, folder: RunFolder, results: Results, **training: Any) -> Arrays:
    """Classes (|G|, n) that the invariant function gives the orbits of the first n inputs of every set."""
    members = min(MEMBERS, settings.members)
    inputs = {name: twice_turned(results.action, x[:INPUTS]) for name, x in results.images.sets.items()}
    train = lambda task: train_to_last(
        folder.checkpoints("floor"),
        task=task,
        **training,
        members=members,
        record=inputs,
        record_at=[settings.epochs],
        keep=partial(_averaged, settings),
    )
    return folder.stage("floor", f"Resampling floor, {members} CNNs", train)


def _averaged(settings: Settings, recorded: Arrays) -> Arrays:
    order = settings.order
    split = lambda y: y[-1].reshape(len(y[-1]), order, order, -1, y.shape[-1])  # (M, h, g, n, K)
    return {name: ensemble_labels(settings, split(y), axis=(0, 1)) for name, y in recorded.items()}


def ahead_of_floor(results: Results, name: str, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the ensemble after the last epoch minus those of the floor, on the same inputs."""
    count = results.floor[name].shape[-1]
    ensemble = results.agreement(results.mean[name][-1])[:count]
    most = results.scales["agreement"][1] - 1
    return bootstrap(ensemble - results.agreement(results.floor[name]), confidence=level, bounds=(-most, most))


def floor_claim(settings: Settings, results: Results) -> Claim:
    """Whether more than resampling keeps the ensemble from being invariant."""
    names, least = tuple(results.floor), -TOLERANCE * settings.order
    level = shared_level(len(names))
    return claim(
        "The ensemble agrees with itself as often as resampled pixels allow, to within "
        f"{100 * TOLERANCE:g} % of the rotations",
        Records.over(
            lambda name: ahead_of_floor(results, name, level), lambda name: results.images.titles[name], name=names
        ),
        measure=f"Orbit same predictions of the mean of {settings.members} CNNs minus the resampling floor, on the "
        f"first {INPUTS} inputs of each set, in rotations out of {settings.order}.",
        covers="inputs",
        at_least=least,
        by=ours("ours: the source states no floor"),
    )


def floor_rows(results: Results) -> list[tuple[str, Estimate, Estimate]]:
    """For every set: its title, the floor, and the control over quarter turns alone."""
    four = (1.0, 4.0)
    return [
        (
            results.images.titles[name],
            bootstrap(results.agreement(labels), bounds=results.scales["agreement"]),
            bootstrap(np.asarray(floor_control(results.action, labels)), bounds=four),
        )
        for name, labels in results.floor.items()
    ]


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
    few, many = settings.narrow[-1], settings.channels[-1]
    return claim(
        "The wider the networks, the nearer their agreement over rotations to what infinite width predicts",
        each,
        measure="Distance of members’ orbit same predictions after the last epoch from those that GP(μ, Σ) expects of "
        f"networks with the same training images and time: at {few} channels minus at {many}, in rotations out of "
        f"{settings.order}.",
        covers=("members", settings.members),
        at_least=0,
        aggregate=(f"the mean over {len(names)} sets of inputs", _nearer(results, names, 0.95)),
        by=theirs(THEIRS, f"{experiment(settings)}; stated in the limit of width"),
    )


def members_finding(settings: Settings, results: Results) -> Claim:
    """Ensembles of every size, to within a tolerance that is ours."""
    found = differences(settings, results)
    least, most = -TOLERANCE * settings.order, TOLERANCE * settings.order
    return claim(
        f"Ensembles of every size agree with themselves as often as infinitely wide ones, to within "
        f"{100 * TOLERANCE:g} % of the rotations",
        found,
        measure=f"Orbit same predictions of disjoint ensembles of M networks on {PREDICTED} inputs of each set, minus "
        f"those that GP(μ, Σ/M) expects for the same training images and time, in rotations out of {settings.order}.",
        covers=COVERS,
        at_least=least,
        at_most=most,
        by=ours("ours: whether this width suffices to plan with"),
    )


_RESAMPLED = "Turns by less than 90° resample the image; the source’s proof asks for an exact action."
_ROUNDING = 1e-9  # of the root mean square of the outputs
_RARE = 0.001  # the level of the test that the untrained mean is one more member


def lead(results: Results, name: str, epoch: int, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the mean minus those of a member, mean over members; bootstrapped over inputs."""
    mean = results.agreement(results.mean[name][epoch])
    members = results.agreement(results.members[name][epoch]).mean(axis=0)
    most = results.scales["agreement"][1] - 1
    return bootstrap(mean - members, confidence=level, bounds=(-most, most))


def lead_of_best(results: Results, name: str, epoch: int, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the mean minus those of the best member, bootstrapped over inputs."""
    mean = results.agreement(results.mean[name][epoch])
    members = results.agreement(results.members[name][epoch])
    most = results.scales["agreement"][1] - 1
    return bootstrap((mean - members).T, lambda means: means.min(axis=1), confidence=level, bounds=(-most, most))


def over_sets(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates from independent inputs; half widths add in squares."""
    value = float(np.mean([e.value for e in estimates]))
    below = float(np.hypot.reduce([e.value - e.low for e in estimates])) / len(estimates)
    above = float(np.hypot.reduce([e.high - e.value for e in estimates])) / len(estimates)
    return Estimate(value, value - below, value + above, estimates[0].confidence)


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's claims, then what we asked besides, then that untrained means have the law of a member."""
    judged = [ahead(settings, results)]
    if results.infinite:
        judged.append(invariant(settings, results))
    if results.narrow and judged_sets(results):
        judged.append(approach_claim(settings, results))
    judged.append(_best(settings, results))
    if judged_sets(results):
        judged.append(members_finding(settings, results))
    if results.floor:
        judged.append(floor_claim(settings, results))
    return [*judged, _untrained(results)]


def _trained_epochs(results: Results) -> list[int]:
    return [int(e) for e in results.epochs if e > 0]


def _words(results: Results, name: str, epoch: int) -> str:
    return f"{results.images.titles[name]} after epoch {epoch}"


def ahead(settings: Settings, results: Results) -> Claim:
    """The mean against its members, as the source shows them: at every recorded time, on every set."""
    epochs, names = _trained_epochs(results), tuple(results.images.sets)
    place = list(map(int, results.epochs)).index
    each = Records.over(
        lambda epoch, name: lead(results, name, place(epoch), shared_level(len(epochs))),
        lambda epoch, name: _words(results, name, epoch),
        epoch=epochs,
        name=names,
    )
    means = {e: over_sets([lead(results, n, place(e), shared_level(len(epochs))) for n in names]) for e in epochs}
    least = min(epochs, key=lambda e: means[e].low)
    return claim(
        "Throughout training the ensemble agrees with itself over rotations more often than its members do, on and off "
        "the data",
        each,
        measure=f"Orbit same predictions of the mean of {settings.members} CNNs minus those of a member, mean over "
        f"members, in rotations out of {settings.order}.",
        covers="inputs",
        at_least=0,
        aggregate=(
            f"the mean over {len(names)} sets of inputs after epoch {least}, of {len(epochs)} recorded epochs the one "
            "where it is least sure",
            means[least],
        ),
        by=theirs(THEIRS, experiment(settings), stated_agreement(settings)),
    )


def invariant(settings: Settings, results: Results) -> Claim:
    """By how much μ_t changes, as a share of the smallest lead of one output over the next; at t = 0 all are 0."""
    epochs, names = _trained_epochs(results), tuple(results.images.sets)
    place = list(map(int, results.epochs)).index
    statement = "At infinite width the mean is the same for all rotations, at every time, on and off the data"
    if not results.action.exact or not results.deviation:
        agreed = lambda name, epoch: exactly(results.agreement(results.infinite[name][place(epoch)]).min())
        return claim(
            statement,
            Records.over(agreed, lambda name, epoch: _words(results, name, epoch), name=names, epoch=epochs),
            measure=f"Orbit same predictions of the infinitely wide ensemble on the worst input, out of "
            f"{settings.order}. {'' if results.action.exact else _RESAMPLED}".strip(),
            covers=EXACT,
            at_least=settings.order,
            by=By("source" if results.action.exact else "ours", THEIRS, "main theorem"),
        )
    moved = lambda name, epoch: exactly(results.deviation[name][place(epoch)])
    margin = min(float(results.margin[name][place(epoch)]) for name in names for epoch in epochs)
    return claim(
        statement,
        Records.over(moved, lambda name, epoch: _words(results, name, epoch), name=names, epoch=epochs),
        measure="Largest change of the infinitely wide ensemble’s mean μ_t under any rotation of any input, in units "
        "of the root mean square of its outputs, at all recorded times but the first: before training it is 0, "
        "whatever the network. The classes are not equal for want of a difference: the largest output leads the second "
        f"by {format_number(margin)} at least, in the same units.",
        covers=EXACT,
        at_most=_ROUNDING,
        by=theirs(THEIRS, "main theorem", "0"),
    )


def _best(settings: Settings, results: Results) -> Claim:
    names, level = tuple(results.images.sets), shared_level(len(results.images.sets))
    each = Records.over(
        lambda name: lead_of_best(results, name, -1, level), lambda name: results.images.titles[name], name=names
    )
    return claim(
        f"After training the ensemble agrees with itself more often than the best of its {settings.members} members",
        each,
        measure=f"Orbit same predictions of the mean of {settings.members} CNNs minus those of the best of them after "
        f"epoch {settings.epochs}, in rotations out of {settings.order}; the best is chosen anew in every resample.",
        covers="inputs",
        at_least=0,
        by=ours("ours: choosing a member in place of averaging"),
    )


def _untrained(results: Results) -> Claim:
    """Means of M networks drawn from a centred Gaussian process are, but for 1/√M, draws from it."""
    names = tuple(results.images.sets)
    start = list(map(int, results.epochs)).index(0)
    of_mean = np.array([results.agreement(results.mean[name][start]).mean() for name in names]).mean()
    of_members = np.array([results.agreement(results.members[name][start]).mean(axis=-1) for name in names]).mean(
        axis=0
    )
    spread = float(of_members.std(ddof=1)) * (1 + 1 / len(of_members)) ** 0.5
    off = float(of_mean - of_members.mean())
    p = 2 * scipy.stats.t.sf(abs(off) / spread, len(of_members) - 1) if spread > 0 else float(off == 0)
    return claim(
        "Before training the ensemble agrees with itself as often as one more member",
        {"before training": exactly(p)},
        measure="Student’s test of the untrained mean’s orbit same predictions, averaged over all sets, as one more of "
        f"the members’: {of_mean:.2f} beside {of_members.mean():.2f} with a spread of {of_members.std(ddof=1):.2f}.",
        covers=P_VALUE,
        at_least=_RARE,
        by=identity("check: a mean of centred Gaussian processes is one of them, up to scale"),
    )
