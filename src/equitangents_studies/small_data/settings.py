"""What the study of small training sets may be told, and its presets.

The networks, by name: 3×3 convolutions with zero padding and no biases, ReLU or the normalised exponential.

Myrtle-5  C C pool C pool C, then the mean over positions and a dense layer      (2 × 2 pools)
Myrtle-7  C C pool C C pool C C, then the same
GAP, VEC  convolutions, then the mean over positions (GAP) or all of them (VEC) into a dense layer
FCN       dense layers on all pixels

Source of Myrtle and of the normalised exponential kernel: arXiv 2003.02237. There three pools follow each other after
the last convolution, which on 32 × 32 pixels is the mean over all positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from equitangents import nn
from equitangents.statistics import Estimate
from equitangents_studies import data
from equitangents_studies.common.image_ensembles import Chosen
from equitangents_studies.common.images import Images, load_images, stands_for
from equitangents_studies.common.scores import table_mean
from equitangents_studies.framework.measured import Keyed, Measured, by
from equitangents_studies.framework.study import at_least, check, presets

KINDS = ("ntk", "nngp")
_FALLBACK = "digits"


@dataclass(frozen=True)
class Settings:
    """From a pool of `pool` training images, `draws` training sets of every size in `sizes`, classes in proportion;
    all are tested on the same `test_images`.

    `data` is a data set, or "auto": CIFAR-10 where the data folder has it, otherwise digits. Images are averaged down
    to at most `pixels`. GAP, VEC and FCN have `hidden_layers`. The trained CNN has `width` channels and takes `steps`
    steps of `batch` images by Adam; of `rates` it has the one that classifies best images of the pool that the first
    `tuned` draws leave. The random forest has `trees`. `checked` images compare averaged kernels with training on both
    copies. Sizes of images, networks and pools are our choice.
    """

    data: str = "auto"
    pixels: int = 12
    pool: int = 240
    test_images: int = 300
    sizes: tuple[int, ...] = (10, 20, 40, 80, 160)
    draws: int = 20
    hidden_layers: int = 4
    width: int = 32
    steps: int = 200
    batch: int = 32
    rates: tuple[float, ...] = (0.003, 0.01, 0.03)
    tuned: int = 2
    trees: int = 100
    checked: int = 6
    seed: int = 0

    def passes(self, size: int) -> int:
        """How often the CNN sees each of `size` training images: the whole passes that have `steps` steps or more."""
        return -(-self.steps // -(-size // self.batch))


_ALL_SIZES = (10, 20, 40, 80, 160, 320, 640, 1280)
PRESETS = presets(
    Settings(),
    desk="pool=1600 test_images=800 sizes=10,20,40,80,160,320,640,1280 width=64 steps=500 tuned=4 checked=12",
    paper="data=cifar10 pixels=32 pool=12800 test_images=10000 sizes=10,20,40,80,160,320,640,1280 hidden_layers=8 "
    "width=128 steps=5000 tuned=20 trees=500 checked=16",
)


def source(settings: Settings, data_dir: Path | None) -> str:
    """The data set that is used."""
    return stands_for(settings.data, data_dir, _FALLBACK)


def load(settings: Settings, data_dir: Path | None) -> Images:
    """The pool as training images, and the test images."""
    name = source(settings, data_dir)
    pixels = settings.pixels
    if name == _FALLBACK:
        pixels = min(pixels, data.digits().shape[0])
    chosen = Chosen(name, (), settings.pool, settings.test_images, 0, pixels, settings.seed)
    return load_images(chosen, data_dir)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Training sets that the pool can give, with images left to choose the learning rate on."""
    s = settings
    at_least(s, draws=2, hidden_layers=1, width=1, steps=1, batch=1, trees=1, checked=2, pixels=4, tuned=1)
    check(s.tuned <= s.draws, "tuned", s.tuned, f"at most draws, {s.draws}")
    check(len(s.rates) >= 1 and min(s.rates) > 0, "rates", s.rates, "a list of positive numbers")
    check(len(s.sizes) >= 1 and list(s.sizes) == sorted(set(s.sizes)), "sizes", s.sizes, "increasing")
    images = load(s, data_dir)
    check(s.sizes[0] >= images.classes, "sizes", s.sizes, f"at least the number of classes, {images.classes}, each")
    pool, side = len(images.train_x), images.train_x.shape[1]
    check(pool > s.sizes[-1] + 1, "pool", pool, f"larger than the largest size, {s.sizes[-1]}, by 2 at least")
    check(side % 4 == 0, "pixels", side, "a multiple of 4, for two pools of 2×2")


NETWORKS = ("Myrtle-5", "Myrtle-7", "GAP", "VEC", "FCN")
NONLINEARITIES = {"relu": "ReLU", "exponential": "normalised exponential"}
_BLOCKS = {"Myrtle-5": (2, 1, 1), "Myrtle-7": (2, 2, 2)}


def network(name: str, nonlinearity: str, hidden_layers: int, width: int = 1, outputs: int = 1) -> nn.Sequential:
    """The network `name`; its kernel does not depend on `width` and `outputs`."""
    W_std = 2**0.5 if nonlinearity == "relu" else 1.0  # either way the variance stays what it was
    act: nn.Layer = nn.Relu() if nonlinearity == "relu" else nn.Exponential()
    convolution: tuple[nn.Layer, ...] = (nn.Conv(width, (3, 3), padding="zero", W_std=W_std), act)
    layers: list[nn.Layer] = []
    if name in _BLOCKS:
        for i, count in enumerate(_BLOCKS[name]):
            layers += [*([nn.AvgPool(2)] if i else []), *convolution * count]
        layers.append(nn.GlobalAvgPool())
    elif name == "FCN":
        layers += [nn.Flatten(), *(nn.Dense(width, W_std=W_std), act) * hidden_layers]
    else:
        layers += [*convolution * hidden_layers, nn.GlobalAvgPool() if name == "GAP" else nn.Flatten()]
    return nn.Sequential(*layers, nn.Dense(outputs))


CNN, FOREST = "trained CNN", "random forest"


def kernel_name(network: str, nonlinearity: str, kind: str) -> str:
    """Such as "Myrtle-5 NTK", "GAP NNGP, exponential"."""
    return f"{network} {kind.upper()}" + (", exponential" if nonlinearity == "exponential" else "")


KERNELS = {
    kernel_name(network, phi, kind): (network, phi, kind)
    for network in NETWORKS
    for phi in NONLINEARITIES
    for kind in KINDS
}
MODELS = (*KERNELS, CNN, FOREST)


class Results(Measured):
    """By model, whether test images are classified `right`; `rates` of the trained CNN; `equal`: how far averaged
    kernels are from training on both copies. `data` is what was classified, `shape` of an image, `pool` how many images
    the draws are from.
    """

    right: dict[str, Bool[np.ndarray, "sizes draws n"]]
    rates: np.ndarray = by("", "size", of="networks.rate")
    equal: Keyed[float] = by("kernel", of="equal.differences")
    data: str
    shape: tuple[int, ...]
    pool: int

    def accuracy(self, model: str, size: int) -> Estimate:
        """Percent of the test images, mean over draws, at the given place in the sizes."""
        return table_mean(self.right[model][size].astype(float), (0, 1)).times(100)

    def lead(self, one: str, other: str, size: int, level: float = 0.95) -> Estimate:
        """Accuracy of `one` minus that of `other` in percentage points, paired by draw and test image."""
        difference = self.right[one][size].astype(float) - self.right[other][size]
        return table_mean(difference, (-1, 1), level).times(100)

    def mean_lead(self, one: str, other: str, sizes: int) -> Estimate:
        """Accuracy of `one` minus that of `other` in percentage points, mean over so many of the smallest sizes."""
        difference = self.right[one][:sizes].astype(float) - self.right[other][:sizes]
        return table_mean(difference.mean(axis=0), (-1, 1)).times(100)
