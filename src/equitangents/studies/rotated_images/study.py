"""Images and their rotations: how often a prediction stays the same over an orbit, in and out of distribution.

CNNs are trained on images in all |G| orientations. Claimed: the mean of an ensemble agrees with itself over the orbit
more often than any of its members, throughout training and off the data; at infinite width it always does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.report.verdict import Verdict
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level
from equitangents.studies.common.orbits import by_element, orbit_batch, same_predictions
from equitangents.studies.common.training import train_recorded
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.claims import judge
from equitangents.studies.framework.folder import Arrays, RunFolder
from equitangents.studies.framework.progress import Task
from equitangents.studies.framework.settings import check
from equitangents.studies.framework.study import Presentation, Study
from equitangents.studies.rotated_images.inputs import Images, load_images

STATED = "stated in arXiv 2403.03103"
_PREDICTED, _DRAWS = 100, 200  # inputs whose orbits are drawn jointly, and ensembles drawn
_RESAMPLED = "Turns by less than 90° resample the image; the source’s proof asks for an exact action."


@dataclass(frozen=True)
class Settings:
    """`data` is "digits" or a data set in the data folder; `foreign` lists "photographs", "noise" or data sets.

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


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Train the ensemble and solve the infinitely wide one, at the same times."""
    check(settings.members >= 2, "members", settings.members, "at least 2")
    check(len(settings.channels) >= 1, "channels", settings.channels, "a list with an entry per layer")
    check(
        len(settings.foreign) == len(set(settings.foreign)), "foreign", settings.foreign, "a list without repetitions"
    )
    check(
        max(settings.recorded_epochs) <= settings.epochs, "recorded_epochs", settings.recorded_epochs, "at most epochs"
    )
    images = load_images(settings, folder.data_dir)
    action = actions.image_rotations(settings.order)
    epochs = np.array(sorted({0, *settings.recorded_epochs, settings.epochs}))
    rate = float(folder.stage("rate", "Largest stable learning rate", lambda task: _rate(settings, images))["rate"])
    infinite: Arrays = {}
    if settings.infinite_train:
        infinite = folder.stage(
            "infinite",
            f"Infinite width, closed form, {settings.infinite_train} training images",
            lambda task: _infinite(settings, images, epochs, rate, task),
        )
    finite = folder.stage(
        "ensemble",
        f"Training {settings.members} CNNs together",
        lambda task: _finite(settings, folder, images, epochs, rate, task),
    )
    names = images.sets
    return Results(
        images=images,
        action=action,
        epochs=epochs,
        learning_rate=rate,
        members={name: finite[f"members_{name}"] for name in names},
        mean={name: finite[f"mean_{name}"] for name in names},
        infinite={name: infinite[name] for name in names} if infinite else {},
        outputs={name: finite[f"outputs_{name}"] for name in names},
        predicted={name: infinite[f"predicted_{name}"] for name in names if f"predicted_{name}" in infinite},
    )


def ensemble_sizes(settings: Settings) -> list[int]:
    """Powers of 2, and all members."""
    return sorted({min(2**k, settings.members) for k in range(int(np.ceil(np.log2(settings.members))) + 1)})


def _rate(settings: Settings, images: Images) -> Arrays:
    few = min(128, len(images.train_x))
    model = InfiniteEnsemble(
        network(settings, images.classes), augmentation=actions.image_rotations(settings.order), time=0.0
    )
    model.fit(images.train_x[:few].astype(np.float64), images.targets[:few])
    return {"rate": np.array(settings.rate * float(model.max_learning_rate_))}


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


def _finite(
    settings: Settings, folder: RunFolder, images: Images, epochs: np.ndarray, rate: float, task: Task
) -> Arrays:
    action = actions.image_rotations(settings.order)
    recorded = train_recorded(
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
        record={name: orbit_batch(action, x) for name, x in images.sets.items()},
        record_at=epochs,
        checkpoints=folder.checkpoints("ensemble"),
        task=task,
    )
    arrays: Arrays = {}
    for name in images.sets:
        outputs = by_element(action, recorded.pop(name))
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


def lead(results: Results, name: str, epoch: int, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the mean minus those of the best member, bootstrapped over inputs."""
    mean = results.agreement(results.mean[name][epoch])
    members = results.agreement(results.members[name][epoch])
    return bootstrap((mean - members).T, lambda means: means.min(axis=1), level=level)


def claims(settings: Settings, results: Results) -> Sequence[Verdict]:
    """The source's claims, on every set after every recorded epoch of training."""
    trained = [(i, int(e)) for i, e in enumerate(results.epochs) if e > 0]
    names = list(results.images.sets)
    level = shared_level(len(trained) * len(names))
    label = lambda name, epoch: f"{results.images.titles[name]} after epoch {epoch}"
    leads = {label(name, epoch): lead(results, name, i, level) for i, epoch in trained for name in names}
    verdicts = [
        judge(
            "The ensemble agrees with itself over rotations more often than any of its members, throughout training",
            leads,
            measure=f"Orbit same predictions of the mean of {settings.members} CNNs minus those of the best of them, "
            f"in rotations out of {settings.order}.",
            at_least=0,
            source=STATED,
        )
    ]
    if results.infinite:
        worst = {
            label(name, int(epoch)) if epoch else f"{results.images.titles[name]} at initialisation": exactly(
                results.agreement(results.infinite[name][i]).min()
            )
            for i, epoch in enumerate(results.epochs)
            for name in names
        }
        verdicts.append(
            judge(
                "At infinite width the prediction is the same for all rotations, at every time, on and off the data",
                worst,
                measure="Orbit same predictions of the infinitely wide ensemble on the worst input, out of "
                f"{settings.order}." + ("" if results.action.exact else f" {_RESAMPLED}"),
                at_least=settings.order,
                source=STATED,
            )
        )
    return verdicts


def _present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    from equitangents.studies.rotated_images.page import present  # which imports from here

    return present(settings, results, verdicts, folder)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, _present, (EMERGENT_EQUIVARIANCE,))
