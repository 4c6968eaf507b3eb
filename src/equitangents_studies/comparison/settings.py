"""Settings and presets of the comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from equitangents.statistics import FEWEST
from equitangents_studies.common.scores import covered


@dataclass(frozen=True)
class Settings:
    """`data` is "digits", a data set in the data folder, or a file `mine.npz` with x and y (and x_test, y_test).

    `pixels` averages images over areas to pixels × pixels. `contenders` are names, or "module:Name" of one's own.
    Every repetition has other initial weights, orders of data and, where there are more images than `train_images`,
    other training images. Networks see every training image `epochs` times; `kernel_images` train kernel machines.
    `shrink` are the factors by which channels are divided for ensembles of small networks (empty: none), each of which
    has as many members as one group-convolutional network costs, at most `most_members`.
    `zero`: the shade of an image that becomes 0, as what turns in at its corners: its mean, or its border's median.
    `tolerated`: the share of images, and of orientations, that a cheaper contender may lose to the best and still be
    recommended.
    """

    data: str = "digits"
    foreign: tuple[str, ...] = ("photographs", "noise")
    group: Literal["C2", "C4", "C8", "C16", "D4"] = "C4"
    pixels: int | None = None
    contenders: tuple[str, ...] = (
        "plain", "augmented", "ensemble", "gcnn", "gcnn-ensemble", "canonicalisation", "test-time", "infinite",
        "invariant-kernel",
    )  # fmt: skip
    repetitions: int = 3
    train_images: int | None = 800
    test_images: int | None = 300
    foreign_images: int = 150
    channels: tuple[int, ...] = (8, 16)
    members: int = 16
    group_members: int = 3
    epochs: int = 20
    batch: int = 32
    learning_rate: float = 0.02
    kernel_images: int = 200
    shrink: tuple[int, ...] = (1, 2)
    most_members: int = 32
    zero: Literal["mean", "border"] = "mean"
    tolerated: float = 0.02
    seed: int = 0


_DESK = Settings(
    data="fashion_mnist",
    foreign=("mnist", "cifar10", "noise"),
    pixels=14,
    repetitions=5,
    train_images=10000,
    test_images=1000,
    foreign_images=400,
    channels=(12, 16),
    members=25,
    group_members=4,
    epochs=15,
    kernel_images=1200,
    shrink=(1, 2, 4),
    most_members=64,
)
# Turns that resample: corners turn in; kernel matrices of 4,800 rows are solved whole, as there are no irreps; and
# ensembles of group-convolutional networks would take 24 min (C8) and 48 min (C16) more.
_RESAMPLED = replace(
    _DESK,
    # The source trains all of its networks on turned images, the group-convolutional ones too.
    contenders=tuple("gcnn-augmented" if name == "gcnn-ensemble" else name for name in _DESK.contenders),
    shrink=(),
    zero="border",
)
PRESETS = {
    "quick": Settings(),
    "desk": _DESK,
    "paper": Settings(
        data="fashion_mnist",
        foreign=("mnist", "cifar10", "noise"),
        repetitions=5,
        train_images=None,
        test_images=None,
        foreign_images=5000,
        channels=(32, 64, 64),
        members=100,
        group_members=10,
        epochs=30,
        batch=128,
        kernel_images=5000,
        shrink=(1, 2, 4),
        most_members=256,
    ),
    "desk-c8": replace(_RESAMPLED, group="C8", kernel_images=600),
    "desk-c16": replace(_RESAMPLED, group="C16", kernel_images=300),
}


def covers(settings: Settings) -> str:
    """What intervals are over."""
    return covered(settings.repetitions, "repetitions")


def repeated(settings: Settings) -> int | None:
    """How many repetitions intervals are over, None where they are over inputs."""
    return settings.repetitions if settings.repetitions >= FEWEST else None


def small_channels(settings: Settings, shrink: int) -> tuple[int, ...]:
    """Channels of the small networks: the large ones' divided by `shrink`, at least one a layer."""
    return tuple(max(1, channels // shrink) for channels in settings.channels)
