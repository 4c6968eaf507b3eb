"""Images and their rotations: how often a prediction stays the same over an orbit, in and out of distribution.

CNNs are trained on images in all |G| orientations. Claimed: the mean of an ensemble agrees with itself over the orbit
more often than any of its members, throughout training and off the data; at infinite width it always does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.stats
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from equitangents import actions, nn
from equitangents.actions import Action
from equitangents.ensembles import InfiniteEnsemble
from equitangents.report import Figure, Table, format_number, palette
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level
from equitangents_studies.baselines.networks import patch_cnn
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.images import Chosen, Images, load_images, zero_at_border
from equitangents_studies.common.infinite import largest_rate
from equitangents_studies.common.orbits import by_element, orbit_batch, same_predictions
from equitangents_studies.common.scores import COVERS, TrainedScores, disjoint_scores, powers_of_two
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import (
    P_VALUE,
    Claim,
    Records,
    claim,
    exact,
    identity,
    ours,
    proved,
    table,
    theirs,
)
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.systems import architecture

ROTATIONS = actions.image_rotations(4)
STATED_AGREEMENT = {
    "C4": "3.85 ± 0.12 of 4 for an ensemble, 3.41 ± 0.18 for one network",
    "C8": "7.72 ± 0.34 of 8 for an ensemble, 6.73 ± 0.24 for one network",
    "C16": "15.24 ± 0.69 of 16 for an ensemble, 12.77 ± 0.71 for one network",
}
TISSUE = ("histology_crc5", "histology_lc25000_colon", "nct_crc_he")


@dataclass(frozen=True)
class RotatedSettings(Chosen):
    """`group` rotates images, or rotates and reflects them; where it resamples pixels, the corners of a rotated image
    are filled with the image's mean or, after a shift, with its border (`zero`), and no network is exactly invariant.
    With `net` "patches" the first layer cuts the image into 2×2 patches, further ones are 3×3 convolutions; FCN, LCN,
    VEC and GAP are those of arXiv 2207.04612, with its readout and all layers of one width. `channels` has one entry a
    layer, and `narrow` those of a second ensemble, trained likewise, that shows what width does (empty: leave it out).
    The `readout` of "patches" takes all positions or their mean. `rate` is a fraction of the largest stable learning
    rate; `infinite_train` of the images train the infinitely wide ensemble (0: leave it out); with all of them it
    predicts the scores of the trained one. Architecture, sizes and rates are our choice.
    """

    group: Literal["C2", "C4", "C8", "C16", "D4", "D8"] = "C4"
    zero: Literal["mean", "border"] = "mean"
    train_images: int | None = 400
    members: int = 64
    net: Literal["patches", "FCN", "LCN", "VEC", "GAP"] = "patches"
    channels: tuple[int, ...] = (32, 32)
    narrow: tuple[int, ...] = ()
    readout: Literal["flatten", "pool"] = "flatten"
    rate: float = 0.25
    batch: int = 32
    epochs: int = 12
    recorded_epochs: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8, 10, 12)
    output_std: float = 0.2
    infinite_train: int = 400


PRESETS = presets(
    RotatedSettings(),
    desk="data=fashion_mnist foreign=mnist,cifar10,noise train_images=2000 test_images=500 channels=16,16 "
    "narrow=4,4 recorded_epochs=0,1,2,4,6,8,10,12 infinite_train=2000",
    paper="data=fashion_mnist foreign=mnist,cifar10,noise train_images=none test_images=1000 foreign_images=1000 "
    "members=100 channels=64,64,64 batch=128 epochs=20 recorded_epochs=0,1,2,3,5,7,10,15,20 infinite_train=2000",
    desk_c8="desk group=C8 zero=border narrow= infinite_train=0",  # kernel matrices have |G| rows for each image
    desk_c16="desk-c8 group=C16",
)


def network(settings: RotatedSettings, outputs: int) -> nn.Sequential:
    """The network: C4 and D4 carry its windows to windows, so its kernel is invariant under them."""
    if settings.net != "patches":
        return architecture(settings.net, len(settings.channels), settings.channels[0], outputs)
    pooled = settings.readout == "pool"
    return patch_cnn(settings.channels, outputs, padding="circular", output_std=settings.output_std, pooled=pooled)


def check_settings(settings: RotatedSettings, data_dir: Path | None) -> None:
    """Require sizes and epochs that fit each other, and available images."""
    at_least(settings, members=2)
    deep = len(settings.narrow) in (0, len(settings.channels))
    check(deep, "narrow", settings.narrow, "empty, or as many layers as channels has")
    check(settings.narrow[-1:] < settings.channels[-1:], "narrow", settings.narrow, "narrower than channels")
    check(len(settings.channels) >= 1, "channels", settings.channels, "a list with an entry per layer")
    if settings.net != "patches":
        for name in ("channels", "narrow"):
            widths = getattr(settings, name)
            check(len(set(widths)) <= 1, name, widths, f"the same number for each layer of {settings.net}")
        for name in ("readout", "output_std"):  # of "patches" alone
            check(getattr(settings, name) == getattr(RotatedSettings, name), name, getattr(settings, name), "not given")
    recorded = settings.recorded_epochs
    check(max(recorded, default=0) <= settings.epochs, "recorded_epochs", recorded, "at most epochs")
    chosen_images(settings, data_dir)


def chosen_images(settings: RotatedSettings, data_dir: Path | None) -> Images:
    """The images, shifted so that their border is 0 where `zero` says so."""
    images = load_images(settings, data_dir)
    return images if settings.zero == "mean" else zero_at_border(images)


def image_action(settings: RotatedSettings, images: Images) -> Action:
    """How the group moves the images."""
    action: Action = actions.as_action("group", settings.group, images.train_x.shape)
    return action


def experiment(settings: RotatedSettings) -> str:
    """The place in the source of the experiment that this study repeats."""
    of = "histological images" if settings.data in TISSUE else "rotated FashionMNIST"
    return f"experiment on {of}" + ("" if settings.group == "C4" else f", {settings.group}")


def motions(settings: RotatedSettings) -> str:
    """What the group does to images."""
    return "rotations and reflections" if settings.group.startswith("D") else "rotations"


def stated_agreement(settings: RotatedSettings) -> str:
    """The source's numbers, which are of Fashion-MNIST; of tissue it states none."""
    if settings.data in TISSUE or settings.group not in STATED_AGREEMENT:
        return ""
    return f"{STATED_AGREEMENT[settings.group]} (rotated Fashion-MNIST, out of distribution)"


@dataclass(frozen=True, eq=False)
class RotatedResults:
    """Predicted classes on orbits, by set of inputs ("test" and the foreign ones).

    `members[set]` (E, M, |G|, N), `mean[set]` and `infinite[set]` (E, |G|, N) at the E epochs of `epochs`;
    `outputs[set]` (M, |G|, N, K) are the members' outputs after the last epoch. `infinite` is empty where it was left
    out; of the mean that it predicts classes by, `deviation[set]` (E,) is the largest change under any element and
    `margin[set]` (E,) the smallest lead of the largest output over the second, both relative to the root mean square
    of the outputs. `predicted[set]` (sizes, 3) are the orbit same predictions that theory expects of M members after
    the last epoch, with the interval that holds 95 % of ensembles, where the infinitely wide ensemble has the same
    training images. `narrow[set]` (M, |G|, N) are classes from narrower members after the last epoch.
    """

    images: Images
    epochs: np.ndarray
    members: dict[str, np.ndarray]
    mean: dict[str, np.ndarray]
    infinite: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray] = field(default_factory=dict)
    narrow: dict[str, np.ndarray] = field(default_factory=dict)
    deviation: dict[str, np.ndarray] = field(default_factory=dict)
    margin: dict[str, np.ndarray] = field(default_factory=dict)
    action: Action = ROTATIONS

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.action.group.order)

    @property
    def scales(self) -> dict[str, tuple[float, float]]:
        """The range of each score."""
        return {"agreement": (1.0, float(self.order)), "accuracy": (0.0, 1.0)}

    def agreement(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Orbit same predictions of every input."""
        return same_predictions(self.action, labels)

    def accuracy(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Share of the orbit of every test input on which the prediction is right."""
        return (labels == self.images.test_y).mean(axis=-2)

    @property
    def trained_epochs(self) -> list[int]:
        """Recorded epochs after the first step."""
        return [int(e) for e in self.epochs if e > 0]

    def at(self, epoch: int) -> int:
        """The index of a recorded epoch."""
        return list(map(int, self.epochs)).index(epoch)

    def label(self, name: str, epoch: int | None = None) -> str:
        """A set, after an epoch, in a family of numbers."""
        return self.images.titles[name] + ("" if epoch is None else f" after epoch {epoch}")


Keep = Callable[[Arrays], Arrays]


def measure(settings: RotatedSettings, folder: RunFolder) -> RotatedResults:
    """Train the ensemble and solve the infinitely wide one, at the same times."""
    images = chosen_images(settings, folder.data_dir)
    action, names = image_action(settings, images), images.sets
    epochs = np.array(sorted({0, *settings.recorded_epochs, settings.epochs}))
    rate = float(
        folder.stage("rate", "Largest stable learning rate", lambda task: _rate(settings, images, action))["rate"]
    )
    infinite: Arrays = {}
    if settings.infinite_train:
        title = f"Infinite width, closed form, {settings.infinite_train} training images"
        infinite = folder.stage("infinite", title, partial(_infinite, settings, images, action, epochs, rate))

    def train(stage: str, which: str, channels: tuple[int, ...], record_at: Sequence[int], keep: Keep) -> Arrays:
        compute = partial(
            train_to_last, folder.checkpoints(stage), network(replace(settings, channels=channels), images.classes),
            images.train_x, images.targets, augmentation=action, optimizer="sgd", learning_rate=rate,
            epochs=settings.epochs, batch_size=settings.batch, seed=settings.seed, members=settings.members,
            record=images.sets, record_at=record_at, orbits=action, keep=keep,
        )  # fmt: skip
        return folder.stage(stage, f"Training {settings.members} {which}networks together", compute)

    finite = train("ensemble", "", settings.channels, epochs.tolist(), _kept)
    last = lambda recorded: {name: _classes(outputs[-1]) for name, outputs in recorded.items()}
    narrow = train("narrow", "narrower ", settings.narrow, [settings.epochs], last) if settings.narrow else {}
    of = lambda what: {name: infinite[what + name] for name in names if what + name in infinite}
    return RotatedResults(
        images=images,
        action=action,
        epochs=epochs,
        infinite=of(""),
        predicted=of("predicted_"),
        deviation=of("deviation_"),
        margin=of("margin_"),
        narrow=narrow,
        **{of: {name: finite[f"{of}_{name}"] for name in names} for of in ("members", "mean", "outputs")},
    )


def _rate(settings: RotatedSettings, images: Images, action: Action) -> Arrays:
    few = min(128, len(images.train_x))
    x, net = images.train_x[:few].astype(np.float64), network(settings, images.classes)
    largest = largest_rate(net, x, images.targets[:few], augmentation=action)
    return {"rate": np.array(settings.rate * largest)}


def _infinite(
    settings: RotatedSettings, images: Images, action: Action, epochs: np.ndarray, rate: float, task: Task
) -> Arrays:
    """Predicted classes of the closed form, in float64, on every element of every orbit: nothing is assumed equal."""
    model = InfiniteEnsemble(network(settings, images.classes), augmentation=action, time=0.0, learning_rate=rate)
    count = min(settings.infinite_train, len(images.train_x))
    model.fit(images.train_x[:count].astype(np.float64), images.targets[:count])
    steps_per_epoch = -(-len(images.train_x) * action.group.order // settings.batch)
    times = epochs * float(steps_per_epoch)
    arrays: Arrays = {}
    for i, (name, x) in enumerate(images.sets.items()):
        mean = model.predict(orbit_batch(action, x.astype(np.float64)), time=times)
        each = by_element(action, mean)  # (E, |G|, N, K)
        arrays[name] = _classes(each)
        arrays[f"deviation_{name}"], arrays[f"margin_{name}"] = margins(action, each)
        if count == len(images.train_x):
            few, sizes = x[:PREDICTED].astype(np.float64), powers_of_two(settings.members)
            statistics = model.orbit_statistics(action, few, sizes, time=float(times[-1]), draws=DRAWS)
            arrays[f"predicted_{name}"] = np.column_stack([statistics.osp.expected, statistics.osp.interval])
        task.step(i + 1, len(images.sets))
    return arrays


def margins(action: Action, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(E,) each: the largest |μ(ρ(g)x) − μ(x)| and the smallest lead of the largest output of (E, |G|, N, K).

    Both relative to the root mean square of the outputs; where all outputs are 0, before training, both are 0.
    """
    size = np.sqrt((outputs**2).mean(axis=(1, 2, 3)))
    moved = np.abs(outputs - outputs[:, action.group.identity, None]).max(axis=(1, 2, 3))
    second, first = np.moveaxis(np.partition(outputs, -2, axis=-1)[..., -2:], -1, 0)
    lead = (first - second).min(axis=(1, 2))
    return tuple(np.divide(found, size, out=np.zeros_like(size), where=size != 0) for found in (moved, lead))


def _classes(outputs: np.ndarray) -> np.ndarray:
    return outputs.argmax(axis=-1).astype(np.int16)


def _kept(recorded: Arrays) -> Arrays:
    """Predicted classes of members and of their mean at every time, and outputs after the last epoch."""
    arrays: Arrays = {}
    for name, outputs in recorded.items():
        arrays[f"members_{name}"] = _classes(outputs)
        arrays[f"mean_{name}"] = _classes(outputs.mean(axis=1))
        arrays[f"outputs_{name}"] = outputs[-1]
    return arrays


PREDICTED, DRAWS = 100, 200  # inputs whose orbits are drawn jointly, and ensembles drawn
TOLERANCE = 0.05  # of |G|


def trained(settings: RotatedSettings, results: RotatedResults, name: str, members: int) -> TrainedScores:
    """Disjoint ensembles of `members` trained networks on the inputs that the prediction is for."""
    labels = lambda groups: results.agreement(groups.mean(axis=1).argmax(axis=-1))
    scores = disjoint_scores(results.outputs[name][:, :, :PREDICTED], members, labels)
    expected, low, high = results.predicted[name][powers_of_two(settings.members).index(members)]
    return TrainedScores(scores, float(expected), float(low), float(high))


def judged_sets(results: RotatedResults) -> tuple[str, ...]:
    """Sets of inputs with a prediction and with the outputs of trained members."""
    return tuple(name for name in results.predicted if name in results.outputs)


def differences(settings: RotatedSettings, results: RotatedResults) -> Records:
    """Trained minus expected for every set and every M, with intervals that hold together."""
    sizes, names = powers_of_two(settings.members), judged_sets(results)
    level, bounds = shared_level(len(sizes) * len(names)), results.scales["agreement"]
    return Records.over(
        lambda name, members: trained(settings, results, name, members).difference(bounds, level),
        lambda name, members: f"{members} member{'' if members == 1 else 's'}, {results.images.titles[name]}",
        name=names,
        members=sizes,
    )


def _nearer(results: RotatedResults, names: tuple[str, ...], level: float) -> Estimate:
    """Difference from the prediction of the narrow minus that of the wide networks, mean over `names`."""
    scores = lambda labels: results.agreement(labels[:, :, :PREDICTED]).mean(axis=-1)  # of every member
    columns = [scores(results.narrow[name]) for name in names] + [scores(results.members[name][-1]) for name in names]
    expected = np.array([results.predicted[name][0, 0] for name in names])
    off = lambda means: np.abs(means.reshape(*means.shape[:-1], 2, len(names)) - expected).mean(axis=-1)
    nearer = lambda means: off(means)[..., 0] - off(means)[..., 1]
    return bootstrap(np.column_stack(columns), nearer, confidence=level)


def approach_claim(settings: RotatedSettings, results: RotatedResults) -> Claim:
    """Whether the agreement of wider networks is nearer to that of infinitely wide ones."""
    names = judged_sets(results)
    each = Records.over(lambda name: _nearer(results, (name,), shared_level(len(names))), results.label, name=names)
    few, many = settings.narrow[-1], settings.channels[-1]
    return claim(
        f"The wider the networks, the nearer their agreement over {motions(settings)} to what infinite width predicts",
        each,
        measure="Distance of members’ orbit same predictions after the last epoch from those that GP(μ, Σ) expects of "
        f"networks with the same training images and time: at {few} channels minus at {many}, in {motions(settings)} "
        f"out of {results.order}.",
        covers="members",
        at_least=0,
        aggregate=(f"the mean over {len(names)} sets of inputs", _nearer(results, names, 0.95)),
        by=theirs(EMERGENT_EQUIVARIANCE, f"{experiment(settings)}; stated in the limit of width"),
    )


def members_finding(settings: RotatedSettings, results: RotatedResults) -> Claim:
    """Trained against predicted ensembles of every size, to within our tolerance."""
    return claim(
        f"Ensembles of every size agree with themselves as often as infinitely wide ones, to within "
        f"{100 * TOLERANCE:g} % of the {motions(settings)}",
        differences(settings, results),
        measure=f"Orbit same predictions of disjoint ensembles of M networks on {PREDICTED} inputs of each set, minus "
        f"those that GP(μ, Σ/M) expects for the same training images and time, in {motions(settings)} out of "
        f"{results.order}.",
        covers=COVERS,
        at_least=-TOLERANCE * results.order,
        at_most=TOLERANCE * results.order,
        by=ours("ours: whether this width suffices to plan with"),
    )


_ROUNDING = 1e-9  # of the root mean square of the outputs
_RARE = 0.001  # the level of the test that the untrained mean is one more member


def lead(results: RotatedResults, name: str, epoch: int, level: float = 0.95, *, best: bool = False) -> Estimate:
    """Orbit same predictions of the mean minus those of a member, or of the best one; bootstrapped over inputs."""
    mean, members = (results.agreement(of[name][epoch]) for of in (results.mean, results.members))
    bounds = (1.0 - results.order, results.order - 1.0)
    if best:
        return bootstrap((mean - members).T, lambda means: means.min(axis=1), confidence=level, bounds=bounds)
    return bootstrap(mean - members.mean(axis=0), confidence=level, bounds=bounds)


def over_sets(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates from independent inputs; half widths add in squares."""
    value = float(np.mean([e.value for e in estimates]))
    below = float(np.hypot.reduce([e.value - e.low for e in estimates])) / len(estimates)
    above = float(np.hypot.reduce([e.high - e.value for e in estimates])) / len(estimates)
    return Estimate(value, value - below, value + above, estimates[0].confidence)


def claims(settings: RotatedSettings, results: RotatedResults) -> Sequence[Claim]:
    """The source's claims, our own questions, and the check that untrained means have the law of a member."""
    judged = [ahead(settings, results)]
    if results.infinite and results.action.exact:
        judged.append(invariant(settings, results))
    if results.narrow and judged_sets(results):
        judged.append(approach_claim(settings, results))
    judged.append(_best(settings, results))
    if judged_sets(results):
        judged.append(members_finding(settings, results))
    return [*judged, _untrained(results)]


def ahead(settings: RotatedSettings, results: RotatedResults) -> Claim:
    """The mean against its members, as the source shows them: at every recorded time, on every set."""
    epochs, names = results.trained_epochs, tuple(results.images.sets)
    of = lambda epoch, name: lead(results, name, results.at(epoch), shared_level(len(epochs)))
    each = Records.over(of, results.label, epoch=epochs, name=names)
    means = {e: over_sets([of(e, name) for name in names]) for e in epochs}
    least = min(epochs, key=lambda e: means[e].low)
    return claim(
        f"Throughout training the ensemble agrees with itself over {motions(settings)} more often than its members do, "
        "on and off the data",
        each,
        measure=f"Orbit same predictions of the mean of {settings.members} networks minus those of a member, mean over "
        f"members, in {motions(settings)} out of {results.order}.",
        covers="inputs",
        at_least=0,
        aggregate=(
            f"the mean over {len(names)} sets of inputs after epoch {least}, of {len(epochs)} recorded epochs the one "
            "where it is least sure",
            means[least],
        ),
        by=theirs(EMERGENT_EQUIVARIANCE, experiment(settings), stated_agreement(settings)),
    )


def invariant(settings: RotatedSettings, results: RotatedResults) -> Claim:
    """Change of μ_t over the smallest lead of one output over the next; at t = 0 all are 0."""
    epochs, names, at = results.trained_epochs, tuple(results.images.sets), results.at
    moved = lambda name, epoch: exactly(results.deviation[name][at(epoch)])
    margin = min(float(results.margin[name][at(epoch)]) for name in names for epoch in epochs)
    return exact(
        f"At infinite width the mean is the same for all {motions(settings)}, at every time, on and off the data",
        Records.over(moved, results.label, name=names, epoch=epochs),
        measure=f"Largest change of the infinitely wide ensemble’s mean μ_t under {motions(settings)} of any input, in "
        "units of the root mean square of its outputs, at all recorded times but the first: before training it is 0, "
        "whatever the network. The classes are not equal for want of a difference: the largest output leads the second "
        f"by {format_number(margin)} at least, in the same units.",
        at_most=_ROUNDING,
        by=proved(EMERGENT_EQUIVARIANCE, "main theorem", "0"),
    )


def _best(settings: RotatedSettings, results: RotatedResults) -> Claim:
    names, level = tuple(results.images.sets), shared_level(len(results.images.sets))
    each = Records.over(lambda name: lead(results, name, -1, level, best=True), results.label, name=names)
    return claim(
        f"After training the ensemble agrees with itself more often than the best of its {settings.members} members",
        each,
        measure=f"Orbit same predictions of the mean of {settings.members} networks minus those of the best of them "
        f"after epoch {settings.epochs}, in {motions(settings)} out of {results.order}; the best is chosen in every "
        "resample.",
        covers="inputs",
        at_least=0,
        by=ours("ours: choosing a member in place of averaging"),
    )


def _untrained(results: RotatedResults) -> Claim:
    """√M times the mean of M draws from a centred Gaussian process is a draw from it."""
    names = tuple(results.images.sets)
    agreement = lambda labels, name: results.agreement(labels[name][results.at(0)]).mean(axis=-1)
    of_mean, of_members = (
        np.array([agreement(of, name) for name in names]).mean(axis=0) for of in (results.mean, results.members)
    )
    std = float(of_members.std(ddof=1)) * (1 + 1 / len(of_members)) ** 0.5
    off = float(of_mean - of_members.mean())
    p = 2 * scipy.stats.t.sf(abs(off) / std, len(of_members) - 1) if std > 0 else float(off == 0)
    return claim(
        "Before training the ensemble agrees with itself as often as one more member",
        {"before training": exactly(p)},
        measure="Student’s test of the untrained mean’s orbit same predictions, averaged over all sets, as one more "
        f"of the members’: {of_mean:.2f} against {of_members.mean():.2f} (standard deviation "
        f"{of_members.std(ddof=1):.2f}).",
        covers=P_VALUE,
        at_least=_RARE,
        by=identity("check: a mean of centred Gaussian processes is one of them, up to scale"),
    )


def present(settings: RotatedSettings, results: RotatedResults, folder: RunFolder) -> list[Shown]:
    """Agreement over training, and the scores after the last epoch."""
    return [agreement_figure(settings, results, folder), _final_table(settings, results)]


def _through_training(axes: Axes, settings: RotatedSettings, results: RotatedResults, name: str, which: str) -> None:
    """Members, their mean with its interval over inputs, and infinite width, against the epochs."""
    score: Callable[[np.ndarray], np.ndarray] = getattr(results, which)
    axes.plot(
        results.epochs, score(results.members[name]).mean(axis=-1), color=palette.MEMBER.light, lw=0.8, alpha=0.75
    )
    axes.plot([], [], color=palette.MEMBER.light, label="members")
    means = [bootstrap(score(labels), resamples=1000, bounds=results.scales[which]) for labels in results.mean[name]]
    low, high = [e.low for e in means], [e.high for e in means]
    axes.fill_between(results.epochs, low, high, color=palette.BLUE.light, alpha=0.2, lw=0)
    axes.plot(results.epochs, [e.value for e in means], color=palette.BLUE.light, lw=2.2, label="their mean")
    if results.infinite:
        later = results.epochs > 0  # before training all outputs are 0, and every class is as good as another
        exactly_so, colour = score(results.infinite[name]).mean(axis=-1)[later], palette.VERMILLION.light
        axes.plot(results.epochs[later], exactly_so, color=colour, lw=2.2, clip_on=False, label="infinite width")
    axes.set_xlim(0, settings.epochs)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def agreement_figure(settings: RotatedSettings, results: RotatedResults, folder: RunFolder) -> Figure:
    """The study's main figure."""
    with drawing.panels(
        folder,
        "agreement-over-training",
        titles=[drawing.heading(results.images.titles[name]) for name in results.images.sets],
        ylabel=f"orbit same predictions, of {results.order}",
        size=(8.6, 3.4),
        sharey=True,
        caption="Orbit same predictions over training: members, the mean of their outputs (band: 95 % interval over "
        "inputs), and the infinitely wide ensemble in closed form, where it was computed. At initialisation a mean of "
        "wide networks is distributed like one of them, up to scale.",
        alt="Orbit same predictions against epochs",
    ) as drawn:
        for axes, name in zip(drawn, results.images.sets, strict=True):
            _through_training(axes, settings, results, name, "agreement")
            axes.set_ylim(1, results.order * 1.005)
    return drawn.figure


def _final_table(settings: RotatedSettings, results: RotatedResults) -> Table:
    def row(title: str, name: str, which: str, digits: int) -> list[object]:
        score: Callable[[np.ndarray], np.ndarray] = getattr(results, which)
        members = score(results.members[name][-1]).mean(axis=-1)
        infinite = [score(results.infinite[name][-1]).mean()] if results.infinite else []
        best, mean, *exactly_so = (f"{x:.{digits}f}" for x in (members.max(), members.mean(), *infinite))
        ensemble = bootstrap(score(results.mean[name][-1]), bounds=results.scales[which])
        return [title, best, mean, ensemble, *(exactly_so or ["–"])]

    titles = results.images.titles
    rows = [
        row(f"Agreement on {titles[name]}, of {results.order}", name, "agreement", 2) for name in results.images.sets
    ]
    rows.append(row(f"Accuracy on {titles['test']}", "test", "accuracy", 3))
    numbers = stated_agreement(settings)
    stated = f" The source states {numbers}." if numbers else ""
    header = ["After the last epoch", "best member", "members’ mean score", "ensemble", "infinite width"]
    return table(f"After the last epoch; in brackets 95 % intervals over inputs.{stated}", header, rows)


STUDY = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
