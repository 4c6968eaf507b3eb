"""Settings and presets of `rotated-images`, its network, and the numbers that the source states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from equitangents import nn
from equitangents_studies.common.images import load_images
from equitangents_studies.common.networks import patch_cnn
from equitangents_studies.common.scores import powers_of_two
from equitangents_studies.framework.settings import at_least, check

SOURCE = "arXiv 2403.03103"
STATED_AGREEMENT = {  # of rotated Fashion-MNIST, out of distribution: an ensemble, one augmented network
    "C4": "3.85 ± 0.12 of 4 for an ensemble, 3.41 ± 0.18 for one network",
    "C8": "7.72 ± 0.34 of 8 for an ensemble, 6.73 ± 0.24 for one network",
    "C16": "15.24 ± 0.69 of 16 for an ensemble, 12.77 ± 0.71 for one network",
}
TISSUE = ("histology_crc5", "histology_lc25000_colon", "nct_crc_he")


@dataclass(frozen=True)
class Settings:
    """`data` is "digits" or a data set in the data folder, averaged down to `pixels` (None: as it is); `foreign` lists
    "photographs", "noise" or data sets.

    The first layer cuts the image into 2×2 patches, each further one is a 3×3 convolution; `channels` has one entry a
    layer, and `narrow` those of a second ensemble, trained likewise, that shows what width does (empty: leave it out).
    The `readout` takes all positions or their mean. `rate` is a fraction of the largest stable learning rate;
    `infinite_train` of the images train the infinitely wide ensemble (0: leave it out); with all of them it tells what
    to expect of the trained one. Architecture, sizes and rates are our choice.
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
    narrow: tuple[int, ...] = ()
    readout: Literal["flatten", "pool"] = "flatten"
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


_PAPER = Settings(
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
)
PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        data="fashion_mnist",
        foreign=("mnist", "cifar10", "noise"),
        train_images=2000,
        test_images=500,
        foreign_images=300,
        members=64,
        channels=(16, 16),
        narrow=(4, 4),
        batch=32,
        epochs=12,
        recorded_epochs=(0, 1, 2, 4, 6, 8, 10, 12),
        infinite_train=2000,
    ),
    "paper": _PAPER,
    # resampled turns have no irreps to solve by: these kernel matrices have 8,000 rows
    "paper-c8": replace(_PAPER, group="C8", infinite_train=1000),
    "paper-c16": replace(_PAPER, group="C16", infinite_train=500),
}


def network(settings: Settings, outputs: int) -> nn.Sequential:
    """The CNN: its windows are carried to windows by quarter turns, so its kernel is invariant under them."""
    # On images of even size the first windows never meet the border, and keeping its kind keeps the kernel cheap.
    pooled = settings.readout == "pool"
    return patch_cnn(
        settings.channels, outputs, padding=settings.padding, output_std=settings.output_std, pooled=pooled
    )


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes and epochs that fit each other, and images that are there."""
    at_least(settings, members=2)
    deep = len(settings.narrow) in (0, len(settings.channels))
    check(deep, "narrow", settings.narrow, "empty, or as many layers as channels has")
    check(settings.narrow[-1:] < settings.channels[-1:], "narrow", settings.narrow, "narrower than channels")
    check(len(settings.channels) >= 1, "channels", settings.channels, "a list with an entry per layer")
    distinct = len(settings.foreign) == len(set(settings.foreign))
    check(distinct, "foreign", settings.foreign, "a list without repetitions")
    recorded = settings.recorded_epochs
    check(max(recorded) <= settings.epochs, "recorded_epochs", recorded, "at most epochs")
    load_images(settings, data_dir)


def ensemble_sizes(settings: Settings) -> list[int]:
    """Powers of 2, and all members."""
    return powers_of_two(settings.members)


def experiment(settings: Settings) -> str:
    """Where in the source the experiment stands that this is a copy of."""
    return "experiment on histological images" if settings.data in TISSUE else "experiment on rotated FashionMNIST"


def stated_agreement(settings: Settings) -> str:
    """The source's numbers, which are of Fashion-MNIST; of tissue it states none."""
    if settings.data in TISSUE:
        return ""
    return f"{STATED_AGREEMENT[settings.group]} (rotated Fashion-MNIST, out of distribution)"
