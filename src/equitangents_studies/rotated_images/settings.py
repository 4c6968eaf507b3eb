"""Settings and presets of `rotated-images`, its network, and the numbers that the source states."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from equitangents import actions, nn
from equitangents_studies.common.images import Images, load_images
from equitangents_studies.common.networks import patch_cnn
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.common.scores import powers_of_two
from equitangents_studies.framework.settings import at_least, check, presets

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


PRESETS = presets(
    Settings(),
    desk="data=fashion_mnist foreign=mnist,cifar10,noise train_images=2000 test_images=500 channels=16,16 "
    "narrow=4,4 recorded_epochs=0,1,2,4,6,8,10,12 infinite_train=2000",
    paper="data=fashion_mnist foreign=mnist,cifar10,noise train_images=none test_images=1000 foreign_images=1000 "
    "members=100 channels=64,64,64 batch=128 epochs=20 recorded_epochs=0,1,2,3,5,7,10,15,20 infinite_train=2000",
    # resampled turns have no irreps to solve by: these kernel matrices have 8,000 rows
    paper_c8="paper group=C8 infinite_train=1000",
    paper_c16="paper group=C16 infinite_train=500",
)


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


@dataclass(frozen=True, eq=False)
class Results:
    """Predicted classes on orbits, by set of inputs ("test" and the foreign ones).

    `members[set]` (E, M, |G|, N), `mean[set]` and `infinite[set]` (E, |G|, N) at the E epochs of `epochs`;
    `outputs[set]` (M, |G|, N, K) are the members' outputs after the last epoch. `infinite` is empty where it was left
    out; of the mean that it predicts classes by, `deviation[set]` (E,) is the largest change under any element and
    `margin[set]` (E,) the smallest lead of the largest output over the second, both relative to the root mean square
    of the outputs. `predicted[set]` (sizes, 3) are the orbit same predictions that theory expects of M members after
    the last epoch, with the interval that holds 95 % of ensembles, for exact actions, squared loss and an infinitely
    wide ensemble with the same training images. `narrow[set]` (M, |G|, N) are classes from narrower members after the
    last epoch. `floor[set]` (|G|, n) are classes from an invariant function on the first n inputs, for actions that
    resample.
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
    floor: dict[str, np.ndarray] = field(default_factory=dict)
    narrow: dict[str, np.ndarray] = field(default_factory=dict)
    deviation: dict[str, np.ndarray] = field(default_factory=dict)
    margin: dict[str, np.ndarray] = field(default_factory=dict)

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


def ensemble_labels(settings: Settings, outputs: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Class predicted by the mean over members: of outputs for squared loss, of probabilities for cross-entropy."""
    if settings.loss == "cross_entropy":
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs = outputs / outputs.sum(axis=-1, keepdims=True)
    return outputs.mean(axis=axis).argmax(axis=-1).astype(np.int16)
