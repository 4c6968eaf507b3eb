"""Settings and presets of the study of SO(2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equitangents_studies import data
from equitangents_studies.common.image_ensembles import Chosen, Recipe, check_images
from equitangents_studies.framework.settings import at_least, check


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


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        data="fashion_mnist",
        train_images=60,
        test_images=40,
        pixels=14,
        rings=7,
        samples=25,
        points=3,
        trained=(2, 4, 8),
        members=100,
        image_train=1600,
        image_test=80,
        foreign=("mnist", "cifar10", "noise"),
        foreign_images=30,
        image_members=5,
        epochs=8,
    ),
    "paper": Settings(
        data="fashion_mnist",
        train_images=100,
        test_images=100,
        rings=14,
        samples=45,
        points=3,
        steps=(1, 10, 100, 1000),
        trained=(2, 4, 8),
        members=500,
        width=512,
        image_train=20000,
        image_test=300,
        foreign=("mnist", "cifar10", "noise"),
        foreign_images=100,
        image_members=10,
        channels=(64, 64, 64),
        epochs=16,
        batch=128,
        learning_rate=0.01,
    ),
}


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
