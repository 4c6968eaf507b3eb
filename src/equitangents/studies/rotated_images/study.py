"""Images and their rotations: how often a prediction stays the same over an orbit, in and out of distribution.

CNNs are trained on images in all |G| orientations. Claimed: the mean of an ensemble agrees with itself over the orbit
more often than any of its members, throughout training and off the data; at infinite width it always does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level
from equitangents.studies.common.images import Images, load_images
from equitangents.studies.common.infinite import largest_rate
from equitangents.studies.common.orbits import by_element, orbit_batch, same_predictions
from equitangents.studies.common.training import train_stage
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.claims import EXACT, Claim, Records, claim
from equitangents.studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check

STATED = "stated in arXiv 2403.03103"
_PREDICTED, _DRAWS = 100, 200  # inputs whose orbits are drawn jointly, and ensembles drawn
STATED_AGREEMENT = {  # of rotated Fashion-MNIST, out of distribution: an ensemble, one augmented network
    "C4": "3.85 ± 0.12 of 4 for an ensemble, 3.41 ± 0.18 for one network",
    "C8": "7.72 ± 0.34 of 8 for an ensemble, 6.73 ± 0.24 for one network",
    "C16": "15.24 ± 0.69 of 16 for an ensemble, 12.77 ± 0.71 for one network",
}
TISSUE = ("histology_crc5", "histology_lc25000_colon", "nct_crc_he")
_START = "before training"
_TOLERANCE = 0.05  # of |G|
_RESAMPLED = "Turns by less than 90° resample the image; the source’s proof asks for an exact action."


@dataclass(frozen=True)
class Settings:
    """`data` is "digits" or a data set in the data folder, averaged down to `pixels` (None: as it is); `foreign` lists
    "photographs", "noise" or data sets.

    The first layer cuts the image into 2×2 patches, each further one is a 3×3 convolution; `channels` has one entry a
    layer. `rate` is a fraction of the largest stable learning rate; `infinite_train` images train the infinitely wide
    ensemble (0: leave it out). Architecture, sizes and rates are our choice.
    """

    data: str = "digits"
    foreign: tuple[str, ...] = ("photographs", "noise")
    group: Literal["C4", "C8", "C16"] = "C4"
    train_images: int | None = 400
    test_images: int | None = None
    foreign_images: int = 300
    pixels: int | None = None
    members: int = 64
    channels: tuple[int, ...] = (32, 32)
    padding: Literal["circular", "zero"] = "circular"
    loss: Literal["mse", "cross_entropy"] = "mse"
    optimizer: Literal["sgd", "momentum", "adam"] = "sgd"
    rate: float = 0.25
    batch: int = 32
    epochs: int = 12
    recorded_epochs: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8, 10, 12)
    output_std: float = 0.2
    infinite_train: int = 400
    seed: int = 0

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.group[1:])


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        data="fashion_mnist",
        foreign=("mnist", "cifar10", "noise"),
        train_images=6000,
        test_images=500,
        foreign_images=300,
        members=64,
        channels=(16, 16),
        batch=32,
        epochs=12,
        recorded_epochs=(0, 1, 2, 4, 6, 8, 10, 12),
        infinite_train=1000,
    ),
    "paper": Settings(
        data="fashion_mnist",
        foreign=("mnist", "cifar10", "noise"),
        train_images=None,
        test_images=1000,
        foreign_images=1000,
        members=100,
        channels=(64, 64, 64),
        batch=128,
        epochs=20,
        recorded_epochs=(0, 1, 2, 3, 5, 7, 10, 15, 20),
        infinite_train=2000,
    ),
}


@dataclass(frozen=True, eq=False)
class Results:
    """Predicted classes on orbits, by set of inputs ("test" and the foreign ones).

    `members[set]` (E, M, |G|, N), `mean[set]` and `infinite[set]` (E, |G|, N) at the E epochs of `epochs`;
    `outputs[set]` (M, |G|, N, K) are the members' outputs after the last epoch. `infinite` is empty where it was left
    out. `predicted[set]` (sizes, 3) are the orbit same predictions that theory expects of M members after the last
    epoch, with the interval that holds 95 % of ensembles, for exact actions and squared loss.
    """

    images: Images
    action: actions.Action
    epochs: np.ndarray
    learning_rate: float
    members: dict[str, np.ndarray]
    mean: dict[str, np.ndarray]
    infinite: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray] = field(default_factory=dict)

    def agreement(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Orbit same predictions of every input."""
        return same_predictions(self.action, labels)

    @property
    def scales(self) -> dict[str, tuple[float, float]]:
        """Between which values either score lies."""
        return {"agreement": (1.0, float(self.action.group.order)), "accuracy": (0.0, 1.0)}

    def accuracy(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Share of the orbit of every test input on which the prediction is right."""
        return (labels == self.images.test_y).mean(axis=-2)


def network(settings: Settings, outputs: int) -> nn.Sequential:
    """The CNN: its windows are carried to windows by quarter turns, so its kernel is invariant under them."""
    W_std, b_std = 2**0.5, 0.1
    first, *others = settings.channels
    # On images of even size these windows never meet the border, and keeping its kind keeps the kernel cheap.
    layers = [nn.Conv(first, (2, 2), stride=2, padding=settings.padding, W_std=W_std, b_std=b_std), nn.Relu()]
    for channels in others:
        layers += [nn.Conv(channels, (3, 3), padding=settings.padding, W_std=W_std, b_std=b_std), nn.Relu()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dense(outputs, W_std=settings.output_std))


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes and epochs that fit each other, and images that are there."""
    at_least(settings, members=2)
    check(len(settings.channels) >= 1, "channels", settings.channels, "a list with an entry per layer")
    distinct = len(settings.foreign) == len(set(settings.foreign))
    check(distinct, "foreign", settings.foreign, "a list without repetitions")
    recorded = settings.recorded_epochs
    check(max(recorded) <= settings.epochs, "recorded_epochs", recorded, "at most epochs")
    load_images(settings, data_dir)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Train the ensemble and solve the infinitely wide one, at the same times."""
    images = load_images(settings, folder.data_dir)
    action, names = actions.image_rotations(settings.order), images.sets
    epochs = np.array(sorted({0, *settings.recorded_epochs, settings.epochs}))
    rate = float(folder.stage("rate", "Largest stable learning rate", lambda task: _rate(settings, images))["rate"])
    infinite: Arrays = {}
    if settings.infinite_train:
        title = f"Infinite width, closed form, {settings.infinite_train} training images"
        infinite = folder.stage("infinite", title, partial(_infinite, settings, images, epochs, rate))
    finite = train_stage(
        folder,
        "ensemble",
        f"Training {settings.members} CNNs together",
        network(settings, images.classes),
        images.train_x,
        images.targets if settings.loss == "mse" else images.probabilities,
        augmentation=action,
        members=settings.members,
        optimizer=settings.optimizer,
        learning_rate=rate,
        epochs=settings.epochs,
        batch_size=settings.batch,
        loss=settings.loss,
        seed=settings.seed,
        record=images.sets,
        record_at=epochs,
        orbits=action,
        keep=partial(_kept, settings),
    )
    return Results(
        images=images,
        action=action,
        epochs=epochs,
        learning_rate=rate,
        infinite={name: infinite[name] for name in names} if infinite else {},
        predicted={name: infinite[f"predicted_{name}"] for name in names if f"predicted_{name}" in infinite},
        **{of: {name: finite[f"{of}_{name}"] for name in names} for of in ("members", "mean", "outputs")},
    )


def ensemble_sizes(settings: Settings) -> list[int]:
    """Powers of 2, and all members."""
    return sorted({min(2**k, settings.members) for k in range(int(np.ceil(np.log2(settings.members))) + 1)})


def _rate(settings: Settings, images: Images) -> Arrays:
    few = min(128, len(images.train_x))
    x, augmentation = images.train_x[:few].astype(np.float64), actions.image_rotations(settings.order)
    largest = largest_rate(network(settings, images.classes), x, images.targets[:few], augmentation=augmentation)
    return {"rate": np.array(settings.rate * largest)}


def _infinite(settings: Settings, images: Images, epochs: np.ndarray, rate: float, task: Task) -> Arrays:
    """Predicted classes of the closed form, in float64, on every element of every orbit: nothing is assumed equal."""
    action = actions.image_rotations(settings.order)
    model = InfiniteEnsemble(network(settings, images.classes), augmentation=action, time=0.0, learning_rate=rate)
    count = min(settings.infinite_train, len(images.train_x))
    model.fit(images.train_x[:count].astype(np.float64), images.targets[:count])
    steps_per_epoch = -(-len(images.train_x) * settings.order // settings.batch)
    times = epochs * float(steps_per_epoch)
    arrays: Arrays = {}
    for i, (name, x) in enumerate(images.sets.items()):
        mean = model.predict(orbit_batch(action, x.astype(np.float64)), time=times)
        arrays[name] = by_element(action, mean).argmax(axis=-1).astype(np.int16)
        if action.exact and settings.loss == "mse":
            statistics = model.orbit_statistics(
                action, x[:_PREDICTED].astype(np.float64), ensemble_sizes(settings), time=float(times[-1]), draws=_DRAWS
            )
            arrays[f"predicted_{name}"] = np.column_stack([statistics.osp.expected, statistics.osp.interval])
        task.step(i + 1, len(images.sets))
    return arrays


def _kept(settings: Settings, recorded: Arrays) -> Arrays:
    """Predicted classes of members and of their mean at every time, and outputs after the last epoch."""
    arrays: Arrays = {}
    for name, outputs in recorded.items():
        arrays[f"members_{name}"] = outputs.argmax(axis=-1).astype(np.int16)
        arrays[f"mean_{name}"] = ensemble_labels(settings, outputs, axis=1)
        arrays[f"outputs_{name}"] = outputs[-1]
    return arrays


def ensemble_labels(settings: Settings, outputs: np.ndarray, axis: int) -> np.ndarray:
    """Class predicted by the mean over members: of outputs for squared loss, of probabilities for cross-entropy."""
    if settings.loss == "cross_entropy":
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs = outputs / outputs.sum(axis=-1, keepdims=True)
    return outputs.mean(axis=axis).argmax(axis=-1).astype(np.int16)


def stated_agreement(settings: Settings) -> str:
    """The source's numbers, which are of Fashion-MNIST; of tissue it states none."""
    if settings.data in TISSUE:
        return ""
    return f"{STATED_AGREEMENT[settings.group]} (rotated Fashion-MNIST, out of distribution)"


def lead(results: Results, name: str, epoch: int, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the mean minus those of the best member, bootstrapped over inputs."""
    mean = results.agreement(results.mean[name][epoch])
    members = results.agreement(results.members[name][epoch])
    most = results.scales["agreement"][1] - 1
    return bootstrap((mean - members).T, lambda means: means.min(axis=1), level=level, bounds=(-most, most))


def excess(results: Results, name: str, level: float = 0.95) -> Estimate:
    """Orbit same predictions of single members after the last epoch, less those expected of infinitely wide ones."""
    scores = results.agreement(results.members[name][-1])[:, :_PREDICTED].mean(axis=-1)
    expected = float(results.predicted[name][0, 0])
    low, high = results.scales["agreement"]
    return bootstrap(scores, lambda means: means - expected, level=level, bounds=(low - expected, high - expected))


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's claims, on every set at every recorded epoch; initialisation and finite width apart."""
    epochs, names = [int(e) for e in results.epochs], tuple(results.images.sets)
    trained, order = [e for e in epochs if e > 0], settings.order
    words = lambda name, epoch: f"{results.images.titles[name]} {f'after epoch {epoch}' if epoch else _START}"

    def ahead(level: float, at: Sequence[int]) -> Records:
        of = lambda epoch, name: lead(results, name, epochs.index(epoch), level)
        return Records.over(of, words, epoch=at, name=names)

    measure = f"Orbit same predictions of the mean of {settings.members} CNNs minus those of the best of them, in "
    how: dict[str, Any] = {"measure": measure + f"rotations out of {order}.", "covers": "inputs", "at_least": 0}
    judged = [
        claim(
            "From the first recorded epoch on, the ensemble agrees with itself over rotations more often than any of "
            "its members",
            ahead(shared_level(len(trained) * len(names)), trained),
            source=STATED + "; to ask it against the best member is our choice",
            stated=stated_agreement(settings),
            holds="Once training has begun, average: the mean keeps its prediction more often than even the best "
            "single network, also on images unlike the training data.",
            fails="A single well-chosen network can agree with itself as often as the mean: compare before paying "
            "for an ensemble.",
            undecided="Whether averaging beats the best single network is not decided on these images: take more.",
            **how,
        ),
        claim(
            "Before training, the ensemble agrees with itself over rotations more often than any of its members",
            ahead(shared_level(len(names)), [0]),
            source="ours: the same question at initialisation",
            holds="Averaging helps even before training has begun.",
            fails="Before training averaging does not help: the mean of untrained networks is one more random "
            "function.",
            **how,
        ),
    ]
    if results.predicted:
        level = shared_level(len(results.predicted))
        off = Records.over(
            lambda name: excess(results, name, level),
            lambda name: results.images.titles[name],
            name=tuple(results.predicted),
        )
        found = ", ".join(
            f"{e.value:+.2f} ({results.images.titles[name]})".replace("-", "−")
            for name, e in zip(results.predicted, off.estimates, strict=True)
        )
        judged.append(
            claim(
                "Single members agree with themselves as often as infinitely wide ones, to within "
                f"{100 * _TOLERANCE:g} % of the rotations",
                off,
                measure="Orbit same predictions of a member after the last epoch, mean over members, minus those that "
                f"GP(μ, Σ) expects, in rotations out of {order}.",
                covers="members",
                at_least=-_TOLERANCE * order,
                at_most=_TOLERANCE * order,
                source=STATED + " in the limit of width; the bound is our choice",
                holds="Numbers of members planned from infinite width are good for networks of this width.",
                fails=f"Plan the number of members from a pilot of trained networks: at {settings.channels[-1]} "
                f"channels single ones differ from infinite width by {found} rotations out of {order}.",
                undecided="Whether infinite width tells how often networks of this width agree with themselves is "
                "not decided: use a pilot of trained networks to plan.",
            )
        )
    if results.infinite:
        agreed = lambda name, epoch: exactly(results.agreement(results.infinite[name][epochs.index(epoch)]).min())
        judged.append(
            claim(
                "At infinite width the prediction is the same for all rotations, at every time, on and off the data",
                Records.over(agreed, words, name=names, epoch=epochs),
                measure=f"Orbit same predictions of the infinitely wide ensemble on the worst input, out of {order}."
                + ("" if results.action.exact else f" {_RESAMPLED}"),
                covers=EXACT,
                at_least=order,
                source=STATED,
                holds="Where its kernel matrix is affordable, the infinitely wide ensemble gives predictions that "
                "no rotation changes.",
                fails="Even the infinitely wide ensemble changes its prediction under some rotation: more members "
                "or more width will not help.",
            )
        )
    return judged


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
