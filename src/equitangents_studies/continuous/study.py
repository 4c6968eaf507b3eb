"""A continuous group sampled by finite ones: SO(2) after augmentation with C_k.

Claimed (Lemma 6.2): the mean changes by at most κ C(x) under any rotation, κ the distance of the group from C_k. Images
are rotated in two ways: on rings, where rotation by any angle is exact, and by resampling pixels, which has a floor.
Ensembles of CNNs are trained on images in k orientations and asked at all angles, with what each k costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equitangents import actions, nn
from equitangents.statistics import Estimate, squared_mean
from equitangents_studies import data
from equitangents_studies.common.image_ensembles import (
    AnswersOnOrbits,
    Recipe,
    check_images,
    rotations,
    train_on_orbits,
)
from equitangents_studies.common.images import Chosen, load_images, standardise
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import by_element, there_and_back
from equitangents_studies.common.rotation_bound import coarseness, largest_gradients, representation
from equitangents_studies.common.scores import table_mean
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.measured import Keyed, Measured, Part, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Task, at_least, check, presets


@dataclass(frozen=True)
class Settings:
    """Models are augmented with C_k for every k of `orders` and tested at `angles` angles, a multiple of each k.

    `rings` × `samples` (odd) read an image along circles; `points`² places on every chord are searched for the largest
    gradient; `trained` are orders k at which finite ensembles are trained too. `rate` is a fraction of the largest
    stable learning rate. `pixels` averages images down for the closed form. Sizes are our choice.

    Image ensembles are CNNs of `channels`, the first layer of which reads patches of `patch` × `patch` pixels, trained
    with C_k for every k of `image_orders` (none: left out) for as many `epochs`, each of which shows every image in k
    orientations: the cost is in proportion to k. `ensembles` disjoint ones have `image_members` members each.
    `foreign` are sets unlike the training data: "photographs", "noise" or data sets.
    """

    data: str = "digits"
    train_images: int = 40
    test_images: int = 24
    pixels: int | None = None
    orders: tuple[int, ...] = (2, 4, 8, 16, 32)
    angles: int = 128
    rings: int = 4
    samples: int = 15
    points: int = 5
    steps: tuple[int, ...] = (1, 10, 100)
    trained: tuple[int, ...] = (2, 4)
    members: int = 60
    width: int = 256
    hidden_layers: int = 2
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    image_orders: tuple[int, ...] = (2, 4, 8, 16, 32)
    image_train: int | None = 200
    image_test: int | None = 80
    image_pixels: int | None = None
    foreign: tuple[str, ...] = ("photographs", "noise")
    foreign_images: int = 40
    image_members: int = 4
    ensembles: int = 10
    patch: int = 2
    channels: tuple[int, ...] = (16, 16)
    epochs: int = 4
    batch: int = 32
    learning_rate: float = 0.02
    seed: int = 0

    @property
    def images(self) -> Chosen:
        """The images of the image ensembles."""
        return Chosen(
            self.data, self.foreign, self.image_train, self.image_test, self.foreign_images, self.image_pixels,
            self.seed,
        )  # fmt: skip

    @property
    def recipe(self) -> Recipe:
        """How image ensembles are trained."""
        return Recipe(self.patch, self.channels, self.image_members, self.ensembles, self.batch, self.learning_rate)

    @property
    def recorded_epochs(self) -> tuple[int, ...]:
        """1, 2, 4, … and the last: k orientations after 2e epochs cost what 2k cost after e."""
        return tuple(sorted({2**i for i in range(self.epochs.bit_length()) if 2**i < self.epochs} | {self.epochs}))


PRESETS = presets(
    Settings(),
    desk="data=fashion_mnist train_images=60 test_images=40 pixels=14 rings=7 samples=25 points=3 trained=2,4,8 "
    "members=100 image_train=1600 foreign=mnist,cifar10,noise foreign_images=30 image_members=5 epochs=8",
    paper="data=fashion_mnist train_images=100 test_images=100 rings=14 samples=45 points=3 steps=1,10,100,1000 "
    "trained=2,4,8 members=500 width=512 image_train=20000 image_test=300 foreign=mnist,cifar10,noise "
    "foreign_images=100 image_members=10 channels=64,64,64 epochs=16 batch=128 learning_rate=0.01",
)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Angles that meet every subgroup; the images are there."""
    for name in ("orders", "image_orders"):
        orders = getattr(settings, name)
        check(all(settings.angles % k == 0 for k in orders), "angles", settings.angles, f"a multiple of each of {name}")
        increasing = len(orders) >= 2 and list(orders) == sorted(set(orders))
        check(increasing or (name == "image_orders" and not orders), name, orders, "at least two orders, increasing")
    check(settings.samples % 2 == 1, "samples", settings.samples, "odd")
    check(set(settings.trained) <= set(settings.orders), "trained", settings.trained, "among orders")
    at_least(settings, members=3, image_members=2, ensembles=1, epochs=1, batch=1, patch=1, foreign_images=1)
    side = data.load(settings.data, data_dir).shape[0]
    fits = settings.pixels is None or 2 <= settings.pixels <= side
    check(fits, "pixels", settings.pixels, f"between 2 and the {side} that images of {settings.data!r} have")
    if settings.image_orders:
        check_images(settings.images, settings.recipe, data_dir)


WAYS = ("rings", "pixels")


class Results(Measured):
    """By way ("rings", "pixels"): `kappa`, `profile`, |f̄(ρ(g)x) − f̄(x)|, and `size`, the root mean square prediction.
    `floor`, |f̄(ρ(g)⁻¹ρ(g)x) − f̄(x)| by resampling pixels, `round_trip` the relative change of the images themselves,
    `constant`, C(x) on rings. `members`, finite ensembles on rings after the last step. `images` are the image
    ensembles, None where they were left out.
    """

    steps: np.ndarray
    kappa: Keyed[np.ndarray] = by("way", "k", of="kappa.{way}")
    profile: Keyed[np.ndarray] = by("way", "k step angle image", of="{way}.profile")
    size: Keyed[np.ndarray] = by("way", "k step", of="{way}.size")
    floor: np.ndarray = by("", "k step angle image", of="pixels.floor")
    round_trip: np.ndarray = by("", "angle")
    constant: np.ndarray = by("", "k step image", of="rings.constant")
    members: Keyed[np.ndarray] = by("trained", "member angle image class")
    images: ImageEnsembles | None = None

    def relative(self, way: str) -> np.ndarray:
        """Mean square violation over angles, relative to the mean square prediction: (orders, T, N)."""
        return (self.profile[way] ** 2).mean(axis=2) / self.size[way][..., None] ** 2

    def relative_floor(self) -> np.ndarray:
        """Mean square floor over the angles that resample, relative to the mean square prediction: (orders, T, N)."""
        return (self.floor[:, :, self.round_trip > 0] ** 2).mean(axis=2) / self.size["pixels"][..., None] ** 2


def finite_violation(settings: Settings, results: Results, k: int, level: float = 0.95) -> Estimate:
    """Mean square violation of the mean of infinitely many members, over that of the closed form, square root."""
    y = results.members[k].astype(np.float64)
    found = squared_mean((y[:, 1:] - y[:, :1]).reshape(len(y), -1), confidence=level)
    outputs = y.shape[-1]
    expected = (results.profile["rings"][settings.orders.index(k), -1, 1:] ** 2).mean() / outputs
    root = lambda v: float(np.sqrt(max(v, 0) / expected))
    return Estimate(root(found.value), root(found.low), root(found.high), level)


def bound_share(results: Results) -> np.ndarray:
    """max_g |f̄(ρ(g)x) − f̄(x)| / (κ C(x)) on rings: (orders, T, N)."""
    return results.profile["rings"].max(axis=2) / (results.kappa["rings"][:, None, None] * results.constant)


@dataclass(frozen=True, eq=False)
class ImageEnsembles(AnswersOnOrbits):
    """Ensembles trained with C_k, by k; their answers are those at the E epochs of `epochs`: (E, R, angles, N).

    Agreement is the share of all angles at which the predicted class is that of the image as it is.
    """

    epochs: np.ndarray

    SHARES = True

    @property
    def orders(self) -> tuple[int, ...]:
        """Every k."""
        return tuple(self.answers)

    def steps(self, k: int) -> np.ndarray:
        """Training steps up to every recorded epoch."""
        return np.array([self.recipe.steps(k * len(self.images.train_x), int(e)) for e in self.epochs])

    def mean_difference(self, off: np.ndarray, level: float = 0.95) -> Estimate:
        """The mean of differences of shares (R, N), paired."""
        return table_mean(off, (-1.0, 1.0), level)

    def mean(self, shares: np.ndarray, level: float = 0.95) -> Estimate:
        """The mean of shares (R, N)."""
        return table_mean(shares, (0.0, 1.0), level)


def _images(
    settings: Settings, data_dir: Path | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Training inputs, test inputs, each by way, and targets."""
    source = data.load(settings.data, data_dir).subset(settings.train_images, settings.test_images, seed=settings.seed)
    side = source.shape[0] if settings.pixels is None else settings.pixels
    sized = (data.resize(x, (side, side)) for x in (source.train_x, source.test_x))
    train, test = (standardise(x).astype(np.float64) for x in sized)
    rings = lambda x: actions.to_rings(x, settings.rings, settings.samples)
    # outside the disc nothing comes back after a turn: the mask leaves out the corners
    cut = lambda x: np.asarray(_action("pixels", 4)(0, x))
    targets = np.eye(source.classes)[source.train_y] - 1 / source.classes
    return {"rings": rings(train), "pixels": cut(train)}, {"rings": rings(test), "pixels": cut(test)}, targets


def _action(way: str, n: int) -> actions.Action:
    return actions.ring_rotations(n) if way == "rings" else actions.image_rotations(n, mask="circle")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Both ways in closed form for every k, then finite ensembles on rings."""
    train, test, y = _images(settings, folder.data_dir)
    levels = {"way": WAYS, "k": settings.orders, "step": _steps(settings), "trained": settings.trained}
    closed = [
        Part(f"{way}-{{k}}", f"C{{k}} on {way}, closed form", partial(_closed, settings, way, train[way], y, test[way]))
        for way in WAYS
    ]
    found = measured(
        folder,
        Part("kappa", "Distance of C_k from SO(2)", partial(_kappa, settings, test["pixels"])),
        *closed,
        levels=levels,
    )
    rates = found.by("k", "rings.rate")
    title = f"Training {settings.members} members, C{{trained}} on rings"
    train_one = partial(_trained, settings, folder, rates, train["rings"], y, test["rings"])
    found |= measured(folder, Part("ensemble-{trained}", title, train_one), levels=levels)
    images = _image_ensembles(settings, folder) if settings.image_orders else None
    return Results.read(found, steps=_steps(settings), images=images)


def _trained(
    settings: Settings, folder: RunFolder, rates: Mapping[int, float], x: np.ndarray, y: np.ndarray, test: np.ndarray,
    k: int, task: Task,
) -> Arrays:  # fmt: skip
    recorded = train_to_last(
        folder.checkpoints(f"ensemble-{k}"),
        _network(settings, settings.width, y.shape[1]),
        x,
        y,
        task,
        augmentation=_action("rings", k),
        members=settings.members,
        learning_rate=rates[k],
        record={"members": test},
        record_at=[int(_steps(settings)[-1])],
        orbits=_action("rings", settings.angles),
        seed=settings.seed,
    )
    return {"members": recorded["members"][0].astype(np.float32)}


def _image_ensembles(settings: Settings, folder: RunFolder) -> ImageEnsembles:
    """One training of all networks for every k, each a stage of its own."""
    images, recipe = load_images(settings.images, folder.data_dir), settings.recipe
    fine = rotations(settings.angles)
    trained = {
        k: train_on_orbits(
            folder,
            f"images-{k}",
            f"Training {recipe.networks} CNNs, images in {k} orientations",
            recipe,
            images,
            fine,
            settings.recorded_epochs,
            augmentation=rotations(k),
            seed=settings.seed,
        )
        for k in settings.image_orders
    }
    return ImageEnsembles(
        images, fine, recipe, folder.stages(trained), np.array(settings.recorded_epochs),
    )  # fmt: skip


def _steps(settings: Settings) -> np.ndarray:
    return np.array(sorted(set(settings.steps)))


def _network(settings: Settings, width: int, outputs: int) -> nn.Sequential:
    return mlp(width, settings.hidden_layers, outputs, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def _kappa(settings: Settings, images: np.ndarray, task: Task) -> Arrays:
    # every ring turns alike, so that one is enough
    shapes = {"rings": (1, settings.samples, 1), "pixels": (*images.shape[1:-1], 1)}
    arrays: Arrays = {}
    for i, (way, shape) in enumerate(shapes.items()):
        matrices = representation(_action(way, settings.angles), shape)
        arrays[way] = np.array([coarseness(matrices, k) for k in settings.orders])
        task.step(i + 1, len(shapes))
    changes = _action("pixels", settings.angles).resampling_error(images).mean(axis=1)
    return {**arrays, "round_trip": np.where(changes < 1e-12, 0, changes)}


def _closed(
    settings: Settings, way: str, train: np.ndarray, y: np.ndarray, x: np.ndarray, k: int, task: Task
) -> Arrays:
    fine, times = _action(way, settings.angles), _steps(settings)
    model = gradient_descent(_network(settings, 1, y.shape[1]), train, y, settings.rate, augmentation=_action(way, k))
    predict = lambda z: model.predict(z, time=times)
    means = orbit_means(model, fine, x, times)
    arrays: Arrays = {
        "rate": np.array(model.learning_rate),
        "profile": np.linalg.norm(means - means[:, :1], axis=-1),
        "size": np.sqrt((means[:, 0] ** 2).sum(axis=-1).mean(axis=-1)),
    }
    if way == "pixels":
        back = predict(there_and_back(fine, x))
        arrays["floor"] = np.linalg.norm(by_element(fine, back) - means[:, :1], axis=-1)
    else:
        turn = lambda z, angle: np.asarray(actions.turn_rings(z, np.array([angle])))[0]
        gradients = largest_gradients(predict, turn, x, k, settings.points)
        arrays["constant"] = gradients * np.sqrt((x**2).sum(axis=(1, 2, 3)))
    return arrays
