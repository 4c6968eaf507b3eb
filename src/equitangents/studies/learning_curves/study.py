"""Errors of infinitely wide networks against training size: exponents, cusps, and what the spectrum predicts.

Images as they are, and with a random rotation of the channels at every position (O(3)^d), which leaves FCN and VEC at
infinite width alone and takes the neighbourhoods from GAP. Data improve data efficiency (DIDE) where the exponent grows
with data. The squared error is also predicted, without training, from the kernel and targets of a pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import data, nn
from equitangents.kernels import KeptKernel, KernelStore
from equitangents.statistics import Estimate, exactly, paired_mean, shared_level
from equitangents.studies.common.images import standardise
from equitangents.studies.framework.citations import OMNISCIENT_RISK, SYNERGY_AND_SYMMETRY
from equitangents.studies.framework.claims import EXACT, Claim, Records, claim
from equitangents.studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check
from equitangents.systems import (
    PowerLaw,
    System,
    architecture,
    cavity_risk,
    fit_power_law,
    learning_curve,
    omniscient_risk,
    rotate,
    textures,
)
from equitangents.systems.curve_data import curve_data
from equitangents.systems.curves import kernel_curve
from equitangents.systems.grams import pool_kernel

STATED = "stated in arXiv 2207.04612"
OURS = "our question"
GROUPS = ("I", "O(3)^d")
SOURCE = {"GAP": 77.0, "VEC": 67.0}  # accuracies of infinite width with 45,000 images of CIFAR-10, stated by the source
FULL = 45_000
_CLASSES = 10
_DRAWN = (0.2, 0.5, 1000.0, 0.03)  # exponents, cusp and noise of the power laws that are recovered
_DRAWN_SIZES = 12
_WITHIN = 10.0  # per cent that predictions may be off


@dataclass(frozen=True)
class Settings:
    """`images` of `data` (a data set of the folder, "textures", or "auto": CIFAR-10 where the folder has it, else
    textures), averaged down to `pixels`; kernels of `models` with `depth` hidden layers; of those in `pooled` only
    `pooled_images`. Sizes double up to four fifths of the images, from `smallest` on, in `repetitions`.

    `networks` are trained at finite width, as NN, of `width` channels and `network_depth` layers, at `network_sizes`.
    Of each set of `predicted_sets` that is there, `predicted_images` predict the errors at `predicted_sizes`, by MLP
    kernels. `draws` synthetic curves are fitted.
    """

    data: str = "auto"
    images: int = 1600
    pixels: int = 8
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
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        images=4000, pixels=32, depth=8, models=("FCN", "VEC"), predicted_images=2000,
        predicted_sizes=(200, 400, 800, 1200),
    ),
    "paper": Settings(
        data="cifar10", images=12_000, pixels=32, depth=8, pooled_images=12_000, repetitions=10,
        networks=("VEC", "LCN", "GAP"), network_sizes=(320, 640, 1280, 2560, 5120, 9600), network_depth=8, width=128,
        members=5, predicted_images=10_000, predicted_sizes=(200, 400, 800, 1600, 3200, 6400),
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """`classification` and `squared` (sizes, repetitions) and `predicted` (sizes,) by (model, group), at
    `sizes[model]`; `networks` classification errors by (model, group). `measured` (sizes, repetitions) by set, and the
    squared errors that the spectrum (`omniscient`) and all inputs (`inputs`) predict (sizes,). `recovered` (draws, 3):
    whether both exponents and the cusp lie in their intervals.
    """

    source: str
    sizes: dict[str, np.ndarray]
    classification: dict[tuple[str, str], np.ndarray]
    squared: dict[tuple[str, str], np.ndarray]
    predicted: dict[tuple[str, str], np.ndarray]
    networks: dict[tuple[str, str], np.ndarray]
    measured: dict[str, np.ndarray]
    omniscient: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]
    recovered: np.ndarray

    @cached_property
    def laws(self) -> dict[tuple[str, str], PowerLaw]:
        """Power laws of classification errors, two segments each; of squared ones where no error is left."""
        found = {}
        for key, errors in self.classification.items():
            fitted = errors if (errors.mean(axis=1) > 0).all() else self.squared[key]
            found[key] = fit_power_law(self.sizes[key[0]], fitted, 2)
        return found

    def accuracy(self, model: str, group: str) -> np.ndarray:
        """Of every repetition with the largest training set, in per cent."""
        return np.round(100 * (1 - self.classification[model, group][-1]), 9)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Known models and sets, and images enough for five sizes."""
    at_least(settings, images=60, pixels=4, depth=1, repetitions=2, smallest=10, draws=1, members=1, width=1)
    at_least(settings, network_depth=1, predicted_images=20)
    check(settings.ridge > 0, "ridge", settings.ridge, "positive")
    for name in ("models", "networks"):
        chosen = getattr(settings, name)
        check(set(chosen) <= {"FCN", "LCN", "VEC", "GAP"}, name, chosen, "of FCN, LCN, VEC, GAP")
    check(len(settings.models) >= 1, "models", settings.models, "one or more")
    known = ("auto", "textures", *data.names())
    check(settings.data in known, "data", repr(settings.data), f"one of {', '.join(known)}")
    for model in settings.models:
        count = settings.pooled_images if model == "GAP" else settings.images
        check(len(sizes_of(settings, model)) >= 5, "images", count, f"enough for 5 sizes from {settings.smallest} on")
        check(count <= settings.images, "pooled_images", count, f"at most images, {settings.images}")
    most = settings.predicted_images - round(0.3 * settings.predicted_images)
    check(settings.predicted_sizes[-1] <= most, "predicted_sizes", settings.predicted_sizes, f"at most {most} each")
    for name in settings.predicted_sets:
        check(name in data.names(), "predicted_sets", name, f"data sets, {', '.join(data.names())}")
    load(settings, data_dir)


def sizes_of(settings: Settings, model: str) -> np.ndarray:
    """From the smallest on by factors of about √2 to four fifths of the images that the model gets."""
    images = settings.pooled_images if model == "GAP" else settings.images
    most = images - round(0.2 * images)
    steps = int(2 * np.log2(most / settings.smallest)) + 1 if most >= settings.smallest else 0
    return np.unique(np.round(np.geomspace(settings.smallest, most, max(steps, 1))).astype(int))


def source_of(settings: Settings, data_dir: Path | None) -> str:
    """The data that "auto" stands for."""
    if settings.data != "auto":
        return settings.data
    return "cifar10" if data.available("cifar10", data_dir) else "textures"


def load(settings: Settings, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Images, each of mean 0 and standard deviation 1, in random order, and their labels."""
    name, s = source_of(settings, data_dir), settings
    if name == "textures":
        drawn = textures(s.images, (s.pixels, s.pixels, 3), _CLASSES, tint=0.5, seed=s.seed)
        return standardise(drawn.x), drawn.labels
    x, y = _pooled(name, data_dir, s.images, s.seed)
    return standardise(data.resize(x, (s.pixels, s.pixels))), y


def _pooled(name: str, data_dir: Path | None, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    source = data.load(name, data_dir)
    x, y = np.concatenate([source.train_x, source.test_x]), np.concatenate([source.train_y, source.test_y])
    check(count <= len(x), "images", count, f"at most {len(x)}, which {name} has")
    rows = np.random.default_rng(seed).permutation(len(x))[:count]
    return x[rows], y[rows]


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Curves of every model and group, networks, predictions on every set, and synthetic curves: a stage each."""
    s = settings
    curves = {
        (model, group): folder.stage(
            f"curve-{model}-{GROUPS.index(group)}", f"{model}, {group}", partial(_curve, s, folder, model, group)
        )
        for model in s.models
        for group in GROUPS
    }
    networks = {
        (model, group): folder.stage(
            f"network-{model}-{GROUPS.index(group)}", f"{model} of finite width, {group}",
            partial(_network, s, folder, model, group),
        )["errors"]
        for model in s.networks
        for group in GROUPS
    }  # fmt: skip
    there = [name for name in s.predicted_sets if data.available(name, folder.data_dir)]
    predictions = {
        name: folder.stage(f"predicted-{name}", f"{name}: predictions", partial(_prediction, s, folder, name))
        for name in there
    }
    drawn = folder.stage("recovered", "Synthetic power laws", partial(_recover, s))
    every = lambda what: {key: arrays[what] for key, arrays in curves.items()}
    of = lambda what: {name: arrays[what] for name, arrays in predictions.items()}
    return Results(
        source=source_of(s, folder.data_dir),
        sizes={model: sizes_of(s, model) for model in s.models},
        classification=every("classification"),
        squared=every("squared"),
        predicted=every("predicted"),
        networks=networks,
        measured=of("measured"),
        omniscient=of("omniscient"),
        inputs=of("inputs"),
        recovered=drawn["recovered"].astype(bool),
    )


def _curve(settings: Settings, folder: RunFolder, model: str, group: str, task: Task) -> Arrays:
    """Tiles of the kernel are kept on disk, so that a run that is killed goes on where it was."""
    x, y = load(settings, folder.data_dir)
    count = settings.pooled_images if model == "GAP" else settings.images
    moved = np.asarray(rotate(x[:count], group, seed=settings.seed), np.float32)
    net = KeptKernel(architecture(model, depth=settings.depth), KernelStore())
    found = learning_curve(
        net, moved, y[:count], sizes=sizes_of(settings, model), repetitions=settings.repetitions,
        ridge=settings.ridge, seed=settings.seed, progress=task.step,
    )  # fmt: skip
    assert found.predicted is not None
    return {
        "classification": found.of("classification"),
        "squared": found.of("squared"),
        "predicted": found.predicted,
    }


def _network(settings: Settings, folder: RunFolder, model: str, group: str, task: Task) -> Arrays:
    """Classification errors (sizes, repetitions) of trained networks; the transformation is drawn anew each time."""
    x, y = load(settings, folder.data_dir)
    net = architecture(model, depth=settings.network_depth, width=settings.width)
    found = learning_curve(
        System(group, net, "NN"), x, y, sizes=settings.network_sizes, repetitions=settings.members,
        seed=settings.seed, progress=task.step,
    )  # fmt: skip
    return {"errors": found.of("classification")}


def mlp() -> nn.Sequential:
    """The network whose errors are predicted on all sets: two hidden layers, ReLU."""
    wide: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
    hidden = [layer for _ in range(2) for layer in (nn.Dense(8, **wide), nn.Relu())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Dense(1))


def _prediction(settings: Settings, folder: RunFolder, name: str, task: Task) -> Arrays:
    s = settings
    count = s.predicted_images
    if name == "digits":
        count = min(count, 1797)
    x, y = _pooled(name, folder.data_dir, count, s.seed)
    given = curve_data(standardise(x).astype(np.float64), y, test=0.3)
    K = pool_kernel(mlp(), given.x, given.pool, "ntk", lambda done, total: task.step(done / total, 3))
    sizes = np.array(s.predicted_sizes)
    splits = [given.split(r, s.seed) for r in range(2 * s.repetitions)]
    errors, _ = kernel_curve(K, given, splits, sizes, s.ridge, None)
    task.step(2, 3)
    how = {"ridge": s.ridge * K.unit}
    return {
        "measured": errors[1],
        "omniscient": omniscient_risk(K.pool, given.targets, sizes, **how),
        "inputs": cavity_risk(K.pool, given.targets, sizes, **how),
    }


def _recover(settings: Settings, task: Task) -> Arrays:
    a, b, cusp, noise = _DRAWN
    n = np.geomspace(100, 10_000, _DRAWN_SIZES)
    curve = np.where(n < cusp, n**-a, cusp ** (b - a) * n**-b)
    rng = np.random.default_rng(settings.seed)
    held = np.zeros((settings.draws, 3), bool)
    for i in range(settings.draws):
        law = fit_power_law(n, curve * np.exp(noise * rng.normal(size=len(n))))
        held[i] = [e.low <= v <= e.high for e, v in zip((*law.exponents, law.cusp), (a, b, cusp), strict=True)]
        task.step(i + 1, settings.draws)
    return {"recovered": held}


def off(predicted: np.ndarray, measured: np.ndarray, level: float) -> list[Estimate]:
    """By how many per cent predictions are off the mean over repetitions, at each size."""
    found = []
    for value, row in zip(predicted, measured, strict=True):
        e = paired_mean(row, level)
        high = 100 * (value / e.low - 1) if e.low > 0 else np.inf
        found.append(Estimate(100 * (value / e.value - 1), 100 * (value / e.high - 1), high, level))
    return found


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Exponents, predictions, growth, symmetries and the source's accuracies."""
    return [
        _recovery(results),
        *_predictions(settings, results),
        _growth(results),
        *_symmetries(results),
        *_source(settings, results),
    ]


def _recovery(results: Results) -> Claim:
    draws = len(results.recovered)
    return claim(
        f"Exponents and cusp of synthetic power laws lie within their intervals in 95 % of {draws} draws",
        {"all three together": exactly(100 * float(results.recovered.all(axis=1).mean()))},
        measure=f"Share of {draws} curves of {_DRAWN_SIZES} sizes with {100 * _DRAWN[3]:g} % noise in which both "
        "exponents and the cusp lie in their intervals.",
        covers=EXACT,
        at_least=95,
        unit="%",
        source=OURS,
        holds="Take the intervals of exponents and cusps for what they say.",
        fails="Intervals of exponents and cusps hold less often than they say: take a higher level.",
    )


def _predictions(settings: Settings, results: Results) -> list[Claim]:
    if not results.measured:
        return []
    level = shared_level(len(results.measured) * len(settings.predicted_sizes))
    found = []
    kinds = (
        (
            "omniscient estimate, from the spectrum alone,",
            results.omniscient,
            "take the estimate with a variance for each input",
        ),
        ("estimate with a variance for each input", results.inputs, "measure the curve"),
    )
    for what, predicted, instead in kinds:
        numbers = {
            f"{name}, {size} images": e
            for name in results.measured
            for size, e in zip(
                settings.predicted_sizes, off(predicted[name], results.measured[name], level), strict=True
            )
        }
        worst = max(numbers, key=lambda label: abs(numbers[label].value))
        at = f"the furthest off is {numbers[worst].value:.2g} % ({worst})".replace("-", "−")
        found.append(
            claim(
                f"The {what} predicts the squared error to within {_WITHIN:g} % from {settings.predicted_sizes[0]} "
                "images on, on every data set",
                numbers,
                measure="Predicted over measured mean squared error of the MLP’s kernel on images not trained on, "
                f"minus 1; a pool of {settings.predicted_images:,} images.",
                covers="training and test sets from the same images",
                at_least=-_WITHIN,
                at_most=_WITHIN,
                unit="%",
                source=OURS,
                holds=f"Read learning curves off the pool: {at}.",
                fails=f"Do not rely on it where training sets are a large part of the pool: {at}; {instead}.",
                undecided=f"Intervals reach beyond {_WITHIN:g} %: {at}.",
            )
        )
    return found


def _growth(results: Results) -> Claim:
    numbers = {f"{m}, {g}": law.grows.difference for (m, g), law in results.laws.items()}
    span = Records(("case",), tuple((k,) for k in numbers), tuple(numbers.values())).span(".2g")
    return claim(
        "Data improve data efficiency: the exponent grows with the training set",
        numbers,
        measure="Exponent beyond the cusp minus that before it, of the classification error.",
        covers="training and test sets from the same images",
        at_least=0,
        source=STATED,
        stated="exponents grow from about 0.2 to 0.5 for networks on CIFAR-10",
        holds=f"More data pay more and more: exponents grow by {span}.",
        fails=f"Exponents do not grow everywhere at these sizes: they change by {span}.",
        undecided=f"Changes of the exponent are {span}; more images would decide.",
    )


def _symmetries(results: Results) -> list[Claim]:
    found = []
    blind = [m for m in ("FCN", "LCN", "VEC") if m in results.sizes]
    if blind:
        change = lambda m: np.abs(results.squared[m, "O(3)^d"] / results.squared[m, "I"] - 1).max()
        found.append(
            claim(
                "A rotation of the channels at every position changes no error of FCN, LCN and VEC of infinite width",
                {m: exactly(float(change(m))) for m in blind},
                measure="Largest relative change of the squared error, all sizes and repetitions; kernels in float32.",
                covers=EXACT,
                at_most=1e-2,
                source=STATED + ", Theorem 4.1",
                stated="equal",
                holds="These kernels do not see how channels of neighbouring pixels go together.",
                fails="Errors change by more than rounding: raise the ridge, or compute in float64.",
            )
        )
    if "GAP" in results.sizes:
        lost = paired_mean(results.accuracy("GAP", "I") - results.accuracy("GAP", "O(3)^d"))
        found.append(
            claim(
                "The same rotation lowers the accuracy of GAP",
                {f"{results.sizes['GAP'][-1]:,} images": lost},
                measure="Accuracy on images as they are minus that on rotated ones, in percentage points.",
                covers="training and test sets from the same images",
                at_least=0,
                unit="percentage points",
                source=STATED,
                holds="Pooling pays as far as the data are translation invariant; these rotations end that.",
                fails="GAP loses nothing here: these images carry their class elsewhere.",
                undecided="More repetitions would decide whether GAP loses accuracy.",
            )
        )
    if {"VEC", "FCN"} <= set(results.sizes):
        ahead = paired_mean(results.accuracy("VEC", "I") - results.accuracy("FCN", "I"))
        found.append(
            claim(
                "VEC classifies more accurately than FCN",
                {f"{results.sizes['VEC'][-1]:,} images": ahead},
                measure="Accuracy of VEC minus that of FCN with the largest training set, in percentage points.",
                covers="training and test sets from the same images",
                at_least=0,
                unit="percentage points",
                source=STATED,
                holds="Windows help even where nothing is pooled.",
                fails="Windows without pooling do not help on these images.",
                undecided="More repetitions would decide between VEC and FCN.",
            )
        )
    return found


def _source(settings: Settings, results: Results) -> list[Claim]:
    """Only on the source’s images; others have other accuracies."""
    if results.source != "cifar10" or settings.pixels != 32:
        return []
    numbers = {}
    for model in SOURCE:
        if model in results.sizes:
            error = results.laws[model, "I"].at(FULL).times(100)
            numbers[model] = Estimate(100 - error.value - SOURCE[model], 100 - error.high - SOURCE[model],
                                      100 - error.low - SOURCE[model])  # fmt: skip
    if not numbers:
        return []
    shown = ", ".join(f"{model} {e.value:+.2g}" for model, e in numbers.items()).replace("-", "−")
    return [
        claim(
            f"Extrapolated to {FULL:,} images, accuracies meet those of the source to 3 percentage points",
            numbers,
            measure=f"Accuracy of the fitted power law at {FULL:,} images minus the source’s (VEC 67 %, GAP 77 %).",
            covers="training and test sets from the same images, if the last power law goes on",
            at_least=-3,
            at_most=3,
            unit="percentage points",
            source=STATED,
            stated="VEC 67 %, GAP 77 %",
            holds=f"The curves lead to the source’s accuracies: differences are {shown} points.",
            fails=f"The last power law does not lead to the source’s accuracies: differences are {shown} points.",
            undecided=f"The extrapolation is too wide to tell: differences are {shown} points.",
        )
    ]


STUDY: Study[Settings, Results] = Study(
    PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY, OMNISCIENT_RISK), check_settings
)
