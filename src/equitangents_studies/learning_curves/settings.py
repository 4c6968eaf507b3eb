"""Settings of the study of learning curves, and the images that they name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from equitangents.statistics import Estimate, no_interval, t_interval
from equitangents_studies import data
from equitangents_studies.common.images import standardise, stands_for
from equitangents_studies.common.system_runs import doubling_in_two_steps, load_system_images
from equitangents_studies.framework.measured import Keyed, Results, by
from equitangents_studies.framework.study import at_least, check, check_some, presets
from equitangents_studies.systems import ARCHITECTURES, fit_power_law, textures
from equitangents_studies.systems.power_laws import PowerLaw

GROUPS = ("I", "O(3)^d")
GROWTH = 0.05  # of an exponent, which counts as none
FIELDS: tuple[Literal["ntk", "nngp"], ...] = ("ntk", "nngp")
_CLASSES = 10


@dataclass(frozen=True)
class CurveSettings:
    """`images` of `data` (a data set of the folder, "textures", or "auto": CIFAR-10 where the folder has it, else
    textures), averaged down to `pixels`; kernels of `models` with `depth` hidden layers; those that pool (GAP, LAP4,
    …) get only `pooled_images`. Sizes double up to four fifths of the images, from `smallest` on, in `repetitions`.

    `networks` are trained at finite width, as NN, of `width` channels and `network_depth` layers, at `network_sizes`,
    `members` times each.
    Of each set of `predicted_sets` that is there, `predicted_images` predict the errors at `predicted_sizes`, by MLP
    kernels. `draws` synthetic curves are fitted.

    Kernels of `whole` also learn `whole_images` of the training images of `data`, NTK and NNGP, with their left-right
    flips, too, if `flips`; `whole_tested` test images are classified and, unless one of these models pools, a ninth as
    many more as were learnt, left for validation. Their kernels have entries of `whole_precision`; they are solved in
    float64 with `whole_ridge`, in units of the mean diagonal. Images and networks, but those of `predicted_sets`, are
    made as `prepared`, a name in PREPARED, says.

    Of `approximated` models `features` random features an image learn from `whole_images` and fewer, tested as `whole`
    is; on `exact_images` the same number per image, and `exact_features`, are compared with the exact kernel.
    """

    data: str = "auto"
    images: int = 1600
    pixels: int = 8
    prepared: str = "image"
    depth: int = 4
    models: tuple[str, ...] = ("FCN", "VEC", "GAP")
    pooled_images: int = 600
    smallest: int = 20
    repetitions: int = 10
    ridge: float = 1e-4
    networks: tuple[str, ...] = ()
    network_sizes: tuple[int, ...] = (40, 80, 160, 320)
    network_depth: int = 2
    width: int = 16
    members: int = 2
    predicted_sets: tuple[str, ...] = ("digits", "mnist", "fashion_mnist", "cifar10")
    predicted_images: int = 1000
    predicted_sizes: tuple[int, ...] = (200, 300, 400, 600)
    draws: int = 200
    whole: tuple[str, ...] = ()
    whole_images: int = 450
    whole_tested: int = 100
    flips: bool = True
    whole_precision: Literal["float32", "float64"] = "float64"
    whole_ridge: float = 1e-4
    approximated: tuple[str, ...] = ()
    features: int = 64
    exact_images: int = 40
    exact_features: tuple[int, ...] = (64, 256)
    seed: int = 0


PRESETS = presets(
    CurveSettings(),
    desk="images=4000 pixels=32 depth=8 models=FCN,VEC predicted_images=2000 predicted_sizes=200,400,800,1200",
    full="desk data=cifar10 whole=VEC whole_images=45000 whole_tested=10000 whole_precision=float32 "
    "whole_ridge=0.01 flips=false repetitions=20",
    features="data=cifar10 pixels=32 depth=8 models= predicted_sets= approximated=GAP features=4096 exact_images=300 "
    "exact_features=4096,8192,16384 whole_images=45000 whole_tested=10000",
    pooled="data=cifar10 images=1600 pooled_images=1600 pixels=32 depth=8 models=LAP4 predicted_sets= repetitions=20 "
    "whole=FCN,VEC,LAP4 whole_images=10000 whole_tested=1000 whole_precision=float32 whole_ridge=0.01 "
    "flips=false",
    networks="data=cifar10 images=12800 smallest=80 depth=3 models=VEC predicted_sets= networks=VEC,LCN "
    "network_sizes=80,160,320,640,1280,2560,5120,10240 network_depth=3 width=32 members=4",
    paper="data=cifar10 images=12000 pixels=32 depth=8 pooled_images=12000 networks=VEC,LCN,GAP "
    "network_sizes=320,640,1280,2560,5120,9600 network_depth=8 width=128 members=5 predicted_images=10000 "
    "predicted_sizes=200,400,800,1600,3200,6400",
)


def check_settings(settings: CurveSettings, data_dir: Path | None) -> None:
    """Require known models and sets, and enough images for five sizes."""
    at_least(settings, images=60, pixels=4, depth=1, repetitions=2, smallest=10, draws=1, members=1, width=1)
    at_least(settings, network_depth=1, predicted_images=20)
    for name in ("ridge", "whole_ridge"):
        check(getattr(settings, name) > 0, name, getattr(settings, name), "positive")
    for name in ("models", "networks", "whole", "approximated"):
        check_some(name, getattr(settings, name), ARCHITECTURES)
    check(settings.prepared in PREPARED, "prepared", settings.prepared, list(PREPARED))
    at_least(settings, whole_images=18, whole_tested=1, features=1, exact_images=8)
    dear = [model for model in settings.whole if pools(model)]
    check(not (dear and settings.approximated), "whole", dear, "networks that do not pool, with approximated ones")
    check(len(settings.models + settings.approximated) >= 1, "models", settings.models, "one or more")
    fits = settings.exact_images <= settings.whole_images
    check(fits, "exact_images", settings.exact_images, f"at most whole_images, {settings.whole_images}")
    check(all(m >= 1 for m in settings.exact_features), "exact_features", settings.exact_features, "positive")
    known = ("auto", "textures", *data.names())
    check(settings.data in known, "data", settings.data, list(known))
    for model in settings.models:
        count = pool_size(settings, model)
        check(len(sizes_of(settings, model)) >= 5, "images", count, f"enough for 5 sizes from {settings.smallest} on")
        check(count <= settings.images, "pooled_images", count, f"at most images, {settings.images}")
    most = settings.predicted_images - round(0.3 * settings.predicted_images)
    check(settings.predicted_sizes[-1] <= most, "predicted_sizes", settings.predicted_sizes, f"at most {most} each")
    for name in settings.predicted_sets:
        check(name in data.names(), "predicted_sets", name, f"data sets, {', '.join(data.names())}")
    load(settings, data_dir)


def pools(model: str) -> bool:
    """Whether the model's kernel needs many pairs of positions, which costs 50 to 1,000 times as much."""
    return model[:3] in ("GAP", "LAP")


def pool_size(settings: CurveSettings, model: str) -> int:
    """Number of images for the model."""
    return settings.pooled_images if pools(model) else settings.images


def sizes_of(settings: CurveSettings, model: str) -> np.ndarray:
    """Training sizes: from `smallest` by factors of about √2 to four fifths of the model's images."""
    images = pool_size(settings, model)
    most = images - round(0.2 * images)
    return doubling_in_two_steps(settings.smallest, most)


def half_growth(sizes: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Exponent of errors (sizes, R) over the upper half of sizes minus that over the lower half."""
    n, middle = np.log(sizes), len(sizes) // 2
    slope = lambda part: -np.polyfit(n[part], np.log(np.maximum(errors[part], 1e-9)), 1)[0]
    return np.asarray(slope(slice(middle, None)) - slope(slice(0, middle + 1)))


def trained_on(settings: CurveSettings) -> list[tuple[str, str]]:
    """Pairs (network, group of the images); networks without weight sharing are symmetric under the rotations."""
    return [(m, g) for m in settings.networks for g in GROUPS if g == "I" or m not in ("FCN", "LCN")]


FEATURE_RIDGES = tuple(float(r) for r in 10 ** np.arange(-4, 1.25, 0.5))  # of the mean of a kernel's diagonal


def feature_sizes(settings: CurveSettings) -> np.ndarray:
    """Training sizes for features: all images, and fewer by factors of about √10 down to `smallest`."""
    n = settings.whole_images
    sizes = [round(n / 10 ** (i / 2)) for i in range(12)]
    return np.array(sorted(size for size in sizes if size >= min(settings.smallest, n)))


def compared_features(settings: CurveSettings) -> list[int]:
    """Numbers of features compared with the exact kernel, including that of all images."""
    return sorted({settings.features, *settings.exact_features})


def of_one_norm(x: np.ndarray) -> np.ndarray:
    """Every image scaled to mean square 1, and not shifted."""
    size = np.sqrt((x**2).mean(axis=(1, 2, 3), keepdims=True))
    return np.asarray(x / np.where(size > 1e-6, size, 1), np.float32)


PREPARED = {"image": standardise, "norm": of_one_norm}
"""What the source leaves open, how images are made: each standardised by itself, or scaled to one norm."""


def load(settings: CurveSettings, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Images, preprocessed as `prepared`, in random order, and their labels."""
    s, prepare = settings, PREPARED[settings.prepared]
    name = stands_for(s.data, data_dir)
    if name == "textures":
        drawn = textures(s.images, (s.pixels, s.pixels, 3), _CLASSES, tint=0.5, seed=s.seed)
        return prepare(drawn.x), drawn.labels
    x, y = pooled(name, data_dir, s.images, s.seed)
    return prepare(data.resize(x, (s.pixels, s.pixels))), y


def whole_images(settings: CurveSettings, data_dir: Path | None) -> data.Dataset:
    """Training images, followed by validation images, and test images."""
    s = settings
    return load_system_images(
        s.data, data_dir, train=s.whole_images + left(s), test=s.whole_tested, pixels=s.pixels, seed=s.seed,
        prepare=PREPARED[s.prepared],
    )  # fmt: skip


def parts(settings: CurveSettings) -> tuple[str, ...]:
    """Sets of images on which the accuracy of `whole` is measured."""
    return ("validation", "test") if left(settings) else ("test",)


def left(settings: CurveSettings) -> int:
    """Number of images left for validation."""
    return 0 if any(pools(model) for model in settings.whole) else settings.whole_images // 9


def pooled(name: str, data_dir: Path | None, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` random images of a set, from training and test images, and their labels."""
    x, y = data.load(name, data_dir).pooled
    check(count <= len(x), "images", count, f"at most {len(x)}, which {name} has")
    rows = np.random.default_rng(seed).permutation(len(x))[:count]
    return x[rows], y[rows]


DRAWN = (0.2, 0.5, 1000.0, 0.03)  # exponents, cusp and noise of the synthetic power laws that are recovered
DRAWN_SIZES = 12


_CLEAN_FROM = 80  # images, from which a curve may be one power law


class CurveResults(Results):
    """`classification` and `squared` errors at `sizes[model]`; `networks` classification errors. `measured` squared
    errors by set, and those that the spectrum (`omniscient`) and all inputs (`inputs`) predict. `recovered`: whether
    both exponents and the cusp lie in their intervals. `whole` by (model, "" or "-flips", "ntk" or "nngp", "validation"
    or "test"): whether each image is classified correctly after the largest training set.

    Of `approximated` models whether test images are classified correctly (`feature_right`), with the ridge and the
    share in validation; whether images of other folds are, by the exact kernel and by features (`exact_right`).
    """

    source: str
    sizes: dict[str, np.ndarray]
    classification: Keyed[np.ndarray] = by("model group", "size repetition")
    squared: Keyed[np.ndarray] = by("model group", "size repetition")
    networks: Keyed[np.ndarray] = by("network group", "training_images run", of="errors")
    measured: Keyed[np.ndarray] = by("data", "predicted_images repetition")
    omniscient: Keyed[np.ndarray] = by("data", "predicted_images")
    inputs: Keyed[np.ndarray] = by("data", "predicted_images")
    recovered: np.ndarray = by("", "draw law")
    whole: Keyed[np.ndarray] = by("whole flips field part", "image", of="{part}")
    feature_right: Keyed[np.ndarray] = by("approximated", "feature_images image")
    feature_ridge: Keyed[np.ndarray] = by("approximated", "feature_images")
    feature_validation: Keyed[np.ndarray] = by("approximated", "feature_images")
    exact_right: Keyed[np.ndarray] = by("approximated", "kernel image")

    @cached_property
    def laws(self) -> dict[tuple[str, str], PowerLaw]:
        """Two-segment power laws of classification errors, or of squared errors if a classification error is 0."""
        found = {}
        for key, errors in self.classification.items():
            fitted = errors if (errors.mean(axis=1) > 0).all() else self.squared[key]
            found[key] = fit_power_law(self.sizes[key[0]], fitted, 2)
        return found

    def exponent(self, model: str, group: str) -> float:
        """The exponent of one power law through all mean errors."""
        mean = np.maximum(self.classification[model, group].mean(axis=1), 1e-9)
        return float(-np.polyfit(np.log(self.sizes[model]), np.log(mean), 1)[0])

    def off_one_law(self, model: str, group: str) -> Estimate:
        """Largest deviation of mean errors from one power law, in percent, from 80 images on, over repetitions."""
        errors = self.classification[model, group]
        some = (self.sizes[model] >= _CLEAN_FROM) & (errors.mean(axis=1) > 0)
        if some.sum() < 3:
            return no_interval(np.nan)
        x, errors = np.log(self.sizes[model][some]), errors[some]
        law = np.exp(np.polyval(np.polyfit(x, np.log(errors.mean(axis=1)), 1), x))
        off = 100 * (errors / law[:, None] - 1)
        return t_interval(off[np.argmax(np.abs(off.mean(axis=1)))])

    def accuracy(self, model: str, group: str) -> np.ndarray:
        """The accuracy of every repetition with the largest training set, in per cent."""
        return np.round(100 * (1 - self.classification[model, group][-1]), 9)


def off(predicted: np.ndarray, measured: np.ndarray, level: float) -> list[Estimate]:
    """Difference of predictions from the mean over repetitions, in per cent, at each size."""
    found = []
    for value, row in zip(predicted, measured, strict=True):
        e = t_interval(row, level)
        high = 100 * (value / e.low - 1) if e.low > 0 else np.inf
        found.append(Estimate(100 * (value / e.value - 1), 100 * (value / e.high - 1), high, level))
    return found
