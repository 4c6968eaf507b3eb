"""Tissue classified by kernels of infinitely wide networks: plain CNNs against networks invariant under rotations.

The kernel of a group-convolutional network is the orbit mean of the CNN's, (1/|G|) Σ_g Θ(x, ρ(g)x′), and so is what a
CNN learns from all copies of its images. Claimed: invariant kernels classify better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from equitangents import nn
from equitangents.actions import Action, grid
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError
from equitangents.extending import box_offsets
from equitangents.groups import wallpaper
from equitangents.inference import augment_inputs
from equitangents.kernels import orbit_average
from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies import data
from equitangents_studies.common.infinite import largest_difference, unit_times
from equitangents_studies.common.networks import cnn, hidden
from equitangents_studies.common.orbits import SQUARE_GROUPS
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.framework.claims import Claim, Records, claim, exact, ours, proved, theirs, to_rounding
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.systems.grams import GroupGrams


@dataclass(frozen=True, eq=False)
class Tissue:
    """Images (N, pixels, pixels, C) with labels; a `specimen` must not be split between training and test."""

    x: Float[np.ndarray, "n height width channels"]
    y: Int[np.ndarray, " n"]
    specimen: Int[np.ndarray, " n"]
    class_names: tuple[str, ...]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    def folds(self, count: int, seed: int) -> Int[np.ndarray, " n"]:
        """The fold of every image: specimens stay whole and are dealt out at random, class by class."""
        rng = np.random.default_rng(seed)
        fold = np.empty(len(self.x), int)
        for label in range(self.classes):
            own = np.unique(self.specimen[self.y == label])
            dealt = dict(zip(rng.permutation(own), np.arange(len(own)) % count, strict=True))
            rows = np.flatnonzero(self.y == label)
            fold[rows] = [dealt[s] for s in self.specimen[rows]]
        return fold


def load_tissue(name: str, data_dir: Path | None, *, count: int | None, pixels: int, seed: int) -> Tissue:
    """`count` images (None: all) of a data set, classes in proportion, resized by averaging over areas.

    Raises DataNotFoundError where the file is missing, InvalidArgumentError for images that are too small or too few.
    """
    source = data.load(name, data_dir)
    height, width, _ = source.shape
    if height != width or pixels > height:
        expected = f"at most the side of square images; {name!r} has {height}×{width}"
        raise InvalidArgumentError("pixels", pixels, expected, verb="was")
    x, y = source.pooled
    tiles = source.train_tile is not None and source.test_tile is not None
    specimen = np.concatenate([source.train_tile, source.test_tile]) if tiles else np.arange(len(x))
    if count is not None and count > len(x):
        raise InvalidArgumentError("images", count, f"at most {len(x)} of {name!r}", verb="was")
    rng = np.random.default_rng(seed)
    rank = np.empty(len(x))
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        rank[rows] = (np.arange(len(rows)) + rng.random()) / len(rows)
    chosen = np.argsort(rank, kind="stable")[:count]
    small = data.resize(x[chosen], (pixels, pixels))
    return Tissue(((small - 0.5) / 0.25).astype(np.float32), y[chosen], specimen[chosen], source.class_names)


RIDGES = tuple(10.0 ** (p / 2) for p in range(-14, 3))  # relative to the kernel's mean diagonal


class Classifier(NamedTuple):
    """Scores of classes are `kernel @ weights`; `ridge` is the chosen one."""

    weights: Float[np.ndarray, "training classes"]
    ridge: float

    def predict(self, cross: Float[np.ndarray, "n training"]) -> Int[np.ndarray, " n"]:
        """The class with the largest score."""
        return np.argmax(cross @ self.weights, axis=1)


def fit(
    K: Float[np.ndarray, "n n"], y: Int[np.ndarray, " n"], classes: int, ridges: tuple[float, ...] = RIDGES
) -> Classifier:
    """Fit with the smallest ridge of the highest leave-one-out accuracy on the training samples.

    α = (Θ + λ)⁻¹ Y; the leave-one-out residual of sample i is α_i/((Θ + λ)⁻¹)_ii, so one spectrum serves all ridges.
    Targets are one-hot minus 1/K. Squared error would choose ridges so large that accuracy falls on small sets.
    """
    targets = np.eye(classes)[y] - 1 / classes
    values, vectors = np.linalg.eigh(np.asarray(K, np.float64))
    values = np.maximum(values, 0)  # a kernel known to a tolerance may be slightly negative in some directions
    projected, unit = vectors.T @ targets, float(np.diagonal(K).mean())
    best, most = Classifier(np.zeros_like(targets), np.nan), -1
    for ridge in ridges:
        shrunk = 1 / (values + ridge * unit)
        weights = vectors @ (shrunk[:, None] * projected)
        residual = weights / ((vectors**2) @ shrunk)[:, None]
        right = int((np.argmax(targets - residual, axis=1) == y).sum())
        if right > most:
            best, most = Classifier(weights, ridge), right
    return best


def element_kernels(
    net: nn.Sequential, action: Action, x: Float[np.ndarray, "n ..."], step: Callable[[float, float], None]
) -> GroupGrams:
    """The NTK Θ_g, (N, N), for one element of each pair g, g⁻¹; `step(done, total)` counts tiles.

    Raises InvalidArgumentError if the kernel is not invariant under moving both images.
    """
    group, n = action.group, len(x)
    if not net.invariant_under(action, x.shape[1:]):
        raise InvalidArgumentError(f"the kernel is not known to be invariant under {action.name}")
    elements = [g for g in range(group.order) if g <= group.inverse(g)]
    slices = [slice(start, min(start + _TILE, n)) for start in range(0, n, _TILE)]
    tiles = [(g, a, b) for g in elements for a in slices for b in slices if group.inverse(g) != g or b.start >= a.start]
    grams = {g: np.empty((n, n), x.dtype) for g in elements}
    moved: dict[int, np.ndarray] = {}
    for done, (g, a, b) in enumerate(tiles, 1):
        if g not in moved:
            moved = {g: np.asarray(action(g, x))}
        same = g == group.identity and a == b
        grams[g][a, b] = block = net.kernel(x[a], None if same else moved[g][b]).ntk
        if group.inverse(g) == g and a != b:
            grams[g][b, a] = block.T
        step(done, len(tiles))
    return GroupGrams(group, grams)


def elements_of(part: Action, whole: Action, x: Float[np.ndarray, "n ..."]) -> list[int]:
    """For each element of `part`, the element of `whole` that moves the inputs x in the same way."""
    copies = np.asarray(whole.orbit(x))
    return [
        int(np.argmax([np.array_equal(image, np.asarray(part(h, x))) for image in copies]))
        for h in range(part.group.order)
    ]


TITLES = {"cnn": "CNN", "C4": "group-convolutional, C4", "D4": "group-convolutional, D4"}
GROUPS = SQUARE_GROUPS
_CHANNELS, _W_STD, _B_STD = 8, 2**0.5, 0.1  # kernels do not depend on the number of channels
_TILE = 250  # images of a side of a tile
_TIMES = (1.0, 100.0)  # at which augmented and invariant kernels are compared, in units of the fastest decay
_SMALL = 8  # pixels of images on which the group convolutions themselves are computed


@dataclass(frozen=True)
class MedicalSettings:
    """`images` of `data` (None: all), averaged down to `pixels`, are cross-validated in `folds`. For every size in
    `sizes` up to `draws` disjoint training sets are drawn. The first layer reads windows of `patch` pixels with stride
    `stride`, `hidden_layers` of 3×3 convolutions follow, then the mean over positions. `checked` images compare the
    invariant kernel with augmentation by hand.
    """

    data: str = "histology_crc5"
    images: int | None = 500
    pixels: int = 32
    sizes: tuple[int, ...] = (25, 50, 100, 200, 400)
    folds: int = 5
    draws: int = 5
    patch: int = 6
    stride: int = 4
    hidden_layers: int = 2
    checked: int = 8
    seed: int = 0


PRESETS = presets(
    MedicalSettings(),
    desk="images=2000 sizes=25,50,100,200,400,800,1500 patch=4 stride=2 checked=12",
    paper="data=nct_crc_he images=2000 sizes=25,50,100,200,400,800,1500 draws=10 patch=3 stride=1 checked=16",
)


class MedicalResults(Results):
    """`accuracy` on the test fold of a split and chosen `ridge`, means over draws.

    `equal`: largest relative differences of explicit augmentation from the invariant kernel, and of group convolutions
    from the orbit mean.
    """

    accuracy: Keyed[np.ndarray] = by("model", "split training_images", of="accuracy_{model}")
    ridge: Keyed[np.ndarray] = by("model", "split training_images", of="ridge_{model}")
    equal: Keyed[float] = by("compared", of="differences")

    def lead(self, group: str, size: int, level: float = 0.95) -> Estimate:
        """Accuracy of the invariant kernel minus the CNN's at one size (an index), paired by split."""
        difference = self.accuracy[group][:, size] - self.accuracy["cnn"][:, size]
        return t_interval(difference, level, (-1, 1))

    def mean_lead(self, group: str) -> Estimate:
        """Accuracy of the invariant kernel minus that of the CNN's, mean over training sizes, paired by split."""
        difference = self.accuracy[group] - self.accuracy["cnn"]
        return t_interval(difference.mean(axis=1), bounds=(-1, 1))


def network(settings: MedicalSettings) -> nn.Sequential:
    """The CNN; rotations and reflections map its windows to windows."""
    wide: dict[str, Any] = {"padding": "circular", "W_std": _W_STD, "b_std": _B_STD}
    first = nn.Conv(_CHANNELS, (settings.patch,) * 2, stride=settings.stride, **wide)
    layers = hidden(settings.hidden_layers, lambda: nn.Conv(_CHANNELS, (3, 3), **wide))
    return nn.Sequential(first, nn.Relu(), *layers, nn.GlobalAvgPool(), nn.Dense(1))


def check_settings(settings: MedicalSettings, data_dir: Path | None) -> None:
    """Windows that rotations map to windows, training sets that the folds leave, images that are there."""
    s = settings
    at_least(s, folds=2, draws=1, patch=1, stride=1, hidden_layers=0, checked=2)
    windows = s.patch >= s.stride and (s.patch - s.stride) % 2 == 0
    check(
        windows, "patch", s.patch, f"the stride {s.stride}, or larger by an even number, so that rotations keep windows"
    )
    check(s.pixels % s.stride == 0, "pixels", s.pixels, f"a multiple of the stride, {s.stride}")
    check(list(s.sizes) == sorted(set(s.sizes)) and len(s.sizes) >= 1, "sizes", s.sizes, "increasing")
    tissue = _load(s, data_dir)
    check(s.sizes[0] >= tissue.classes, "sizes", s.sizes, f"at least the number of classes, {tissue.classes}, each")
    left = len(tissue.x) - int(np.bincount(tissue.folds(s.folds, s.seed)).max())
    check(s.sizes[-1] <= left, "sizes", s.sizes, f"at most {left} each, which {s.folds} folds leave for training")


def _load(settings: MedicalSettings, data_dir: Path | None) -> Tissue:
    return load_tissue(settings.data, data_dir, count=settings.images, pixels=settings.pixels, seed=settings.seed)


def measure(settings: MedicalSettings, folder: RunFolder) -> MedicalResults:
    """Compute every kernel once for all images, cached on disk by content; then evaluate all splits and sizes."""
    tissue = _load(settings, folder.data_dir)
    compared = [f"{what}, {group}" for group in GROUPS for what in ("augmented CNN", "group convolutions")]
    levels = {"model": tuple(TITLES), "training_images": settings.sizes, "compared": compared}
    found = measured(
        folder,
        Stages("kernels", f"Kernels of {len(tissue.x)} images", partial(_grams, settings, tissue)),
        Stages("equal", "Augmentation and group convolutions", partial(_equal, settings, tissue)),
        levels=levels,
    )
    grams = found.stage("kernels")
    scores = Stages("accuracy", "Splits and training sizes", partial(_scores, settings, tissue, grams))
    return MedicalResults.read(found | measured(folder, scores, levels=levels))


def _grams(settings: MedicalSettings, tissue: Tissue, task: Task) -> Arrays:
    """The CNN's kernel and its means over rotations and over rotations and reflections, each (N, N)."""
    whole = GROUPS["D4"]()
    parts = element_kernels(network(settings), whole, tissue.x, task.step)
    over = {"cnn": [whole.group.identity]}
    over |= {group: elements_of(action(), whole, tissue.x[:1]) for group, action in GROUPS.items()}
    return {model: parts.mean(elements).astype(np.float32) for model, elements in over.items()}


def training_sets(settings: MedicalSettings, fold: np.ndarray, test: int, size: int) -> list[np.ndarray]:
    """Disjoint training sets of one size from all folds but `test`, the same for every kernel."""
    rest = np.flatnonzero(fold != test)
    order = np.random.default_rng((settings.seed, test)).permutation(rest)
    return [order[d * size : (d + 1) * size] for d in range(min(settings.draws, len(order) // size))]


def _scores(settings: MedicalSettings, tissue: Tissue, grams: Arrays, task: Task) -> Arrays:
    """Accuracies and chosen ridges (folds, sizes) of every kernel."""
    fold, y = tissue.folds(settings.folds, settings.seed), tissue.y
    shape = (settings.folds, len(settings.sizes))
    arrays = {f"{what}_{model}": np.zeros(shape) for what in ("accuracy", "ridge") for model in TITLES}
    for k in range(settings.folds):
        test = np.flatnonzero(fold == k)
        for j, size in enumerate(settings.sizes):
            sets = training_sets(settings, fold, k, size)
            for model in TITLES:
                K = grams[model]
                fits = [fit(K[np.ix_(t, t)], y[t], tissue.classes) for t in sets]
                right = [(f.predict(K[np.ix_(test, t)]) == y[test]).mean() for f, t in zip(fits, sets, strict=True)]
                arrays[f"accuracy_{model}"][k, j] = np.mean(right)
                arrays[f"ridge_{model}"][k, j] = np.exp(np.mean(np.log([f.ridge for f in fits])))
        task.step(k + 1, settings.folds)
    return arrays


def _equal(settings: MedicalSettings, tissue: Tissue, task: Task) -> Arrays:
    """Largest relative differences of explicit augmentation and group convolutions from the orbit mean, in float64."""
    differences: dict[str, float] = {}
    few, test = (tissue.x[i * settings.checked : (i + 1) * settings.checked].astype(np.float64) for i in (0, 1))
    targets = np.eye(tissue.classes)[tissue.y[: len(few)]]
    net = network(settings)
    small = data.resize(few[:2], (_SMALL, _SMALL)) if settings.pixels > _SMALL else few[:2]
    for done, (group, make) in enumerate(GROUPS.items(), 1):
        action = make()
        invariant = InfiniteEnsemble(orbit_average(net, action), time=0.0).fit(few, targets)
        augmented = InfiniteEnsemble(net, time=0.0).fit(
            augment_inputs(action, few), np.tile(targets, (action.group.order, 1))
        )
        times = unit_times(invariant, _TIMES)
        a, b = (model.predict(test, time=times) for model in (augmented, invariant))
        differences[f"augmented CNN, {group}"] = largest_difference(a, b)
        convolutions = group_convolutions(group, small.shape[1])  # which is the orbit mean of the next
        plain = cnn(_CHANNELS, 2, W_std=_W_STD, b_std=_B_STD)
        kernel, mean = convolutions.kernel(small), orbit_average(plain, action).kernel(small)
        both = largest_difference(kernel.ntk, mean.ntk), largest_difference(kernel.nngp, mean.nngp)
        differences[f"group convolutions, {group}"] = float(np.max(both))
        task.step(done, len(GROUPS))
    return {"names": np.array(list(differences)), "differences": np.array(list(differences.values()))}


def group_convolutions(group: str, pixels: int) -> nn.Sequential:
    """Lift, ReLU, group convolution, ReLU, mean over the group (p4 for C4, p4m for D4); 3×3 windows, all rotations.

    Windows are lists of elements, which avoids the shortcut for symmetric boxes that assumes the theorem.
    """
    G = wallpaper(4, group == "D4", (pixels, pixels))
    points = box_offsets((3, 3), (pixels, pixels))
    origin = np.asarray(grid(G).position_table((pixels, pixels)))[:, 0]
    window = [int(g) for g in np.flatnonzero(np.isin(origin, points))]  # all elements that take the origin into the box
    lift = nn.Lift(G, _CHANNELS, [int(p) for p in points], W_std=_W_STD, b_std=_B_STD)
    convolution = nn.GroupConv(_CHANNELS, window, W_std=_W_STD, b_std=_B_STD)
    return nn.Sequential(lift, nn.Relu(), convolution, nn.Relu(), nn.GroupPool(), nn.Dense(1))


def leads(settings: MedicalSettings, results: MedicalResults, level: float = 0.95) -> Records:
    """Accuracy of invariant kernels minus that of the CNN's, by group and training size."""
    return Records.over(
        lambda group, size: results.lead(group, settings.sizes.index(size), level),
        lambda group, size: f"{group}, {size} training images",
        group=tuple(GROUPS),
        size=settings.sizes,
    )


def claims(settings: MedicalSettings, results: MedicalResults) -> Sequence[Claim]:
    """Accuracy at every size, and equality of the kernels of augmentation and group convolutions."""
    ahead = leads(settings, results, shared_level(len(settings.sizes)))
    last = settings.sizes[-1]
    wider = {f"{last} training images": _difference(results, "D4", "C4").times(100)}
    return [
        _ahead(settings, results, ahead, "C4"),
        _ahead(settings, results, ahead, "D4"),
        claim(
            "Invariance under reflections as well classifies at least as accurately as under rotations only, with the "
            "largest training set",
            wider,
            measure="Accuracy of the D4 kernel minus that of the C4 kernel, in percentage points of the images.",
            covers="splits, whose training parts share images",
            at_least=0,
            unit="percentage points",
            by=ours("our question"),
        ),
        to_rounding(
            "A CNN trained on all rotated (and reflected) copies of its images predicts what the invariant kernel "
            "does, to rounding",
            {name: exactly(v) for name, v in results.equal.items() if name.startswith("augmented")},
            measure="Largest difference of predictions relative to the largest, early and late in training; the copies "
            f"are trained on explicitly, {settings.checked} images in all orientations.",
            by=proved(THEIRS, "Theorem 5.1", "equal"),
        ),
        exact(
            "The kernel of group convolutions (p4, p4m) is the orbit mean of the CNN’s, to rounding",
            {name: exactly(v) for name, v in results.equal.items() if name.startswith("group")},
            measure="Largest difference of kernels relative to the largest entry; 3×3 windows with all rotations, "
            f"stride 1, images averaged down to at most {_SMALL}×{_SMALL}, no shortcut for symmetric windows.",
            at_most=1e-10,
            by=proved(THEIRS, "Theorem 5.3", "equal"),
        ),
    ]


def _ahead(settings: MedicalSettings, results: MedicalResults, ahead: Records, group: str) -> Claim:
    """Whether the invariant kernel classifies better than the CNN's; the source's group is C4."""
    points = ahead.where(group=group).times(100)
    return claim(
        f"The kernel invariant under {group} classifies more accurately than the CNN’s",
        {f"{size:,} training images": e for size, e in zip(settings.sizes, points.estimates, strict=True)},
        aggregate=("the mean over training sizes", results.mean_lead(group).times(100)),
        measure=f"Accuracy of the {group} kernel on images not trained on, minus that of the CNN’s, in percentage "
        f"points of the images; the same {settings.folds} splits for both.",
        covers="splits, whose training parts share images",
        at_least=0,
        unit="percentage points",
        by=theirs(THEIRS, "figure of accuracies on medical images", "better at every training size")
        if group == "C4"
        else ours("our question"),
    )


def _difference(results: MedicalResults, one: str, other: str) -> Estimate:
    """The difference of accuracies with the largest training set, paired by split."""
    return t_interval(results.accuracy[one][:, -1] - results.accuracy[other][:, -1], bounds=(-1, 1))


_COLOURS = dict(zip(TITLES, (palette.INK, palette.BLUE, palette.VERMILLION), strict=True))


def present(settings: MedicalSettings, results: MedicalResults, folder: RunFolder) -> list[Shown]:
    """Accuracies against training images."""
    ahead = leads(settings, results)
    return [_accuracy(settings, results, ahead, folder)]


def _accuracy(settings: MedicalSettings, results: MedicalResults, ahead: Records, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=("Accuracy on images not trained on", "Accuracy minus that of the CNN, paired"),
        xlabel="training images",
        caption=(
            "Left: accuracy of the three kernels, mean over splits with 95 % intervals over splits. "
            "Right: what invariance under rotations (C4) and under rotations and reflections (D4) adds, in "
            "percentage points of the images, split by split, with 95 % intervals over splits, whose "
            "training parts share images."
        ),
        alt="Accuracy against training images",
    ) as drawn:
        left, right = drawn
        accuracy = {
            title: [t_interval(column, bounds=(0, 1)) for column in results.accuracy[model].T]
            for model, title in TITLES.items()
        }
        points = {group: ahead.where(group=group).times(100).estimates for group in GROUPS}
        drawing.curves(left, settings.sizes, accuracy, _COLOURS.values(), offset=1.03)
        drawing.curves(right, settings.sizes, points, [_COLOURS[group] for group in GROUPS], offset=1.03, label=None)
        right.axhline(0, color=palette.GREEN.light, lw=0.8)
        right.set_ylabel("percentage points")
        for axes in drawn:
            drawing.logarithmic(axes, "x", settings.sizes)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
