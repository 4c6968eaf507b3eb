"""Tissue classified by kernels of infinitely wide networks: plain CNNs against networks invariant under turns.

The kernel of a group-convolutional network is the orbit mean of the CNN's, (1/|G|) Σ_g Θ(x, ρ(g)x′), and so is what a
CNN learns from all copies of its images. Claimed: invariant kernels classify better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import nn
from equitangents.actions import grid
from equitangents.ensembles import InfiniteEnsemble
from equitangents.extending import box_offsets
from equitangents.groups import wallpaper
from equitangents.inference import augment_inputs
from equitangents.kernels import KeptKernel, KernelStore, orbit_average
from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies import data
from equitangents_studies.common import kernel_classification
from equitangents_studies.common.infinite import largest_difference, unit_times
from equitangents_studies.common.networks import cnn, hidden
from equitangents_studies.common.orbits import SQUARE_GROUPS
from equitangents_studies.framework.claims import Claim, Records, claim, exact, in_words, ours, theirs, to_rounding
from equitangents_studies.framework.measured import Keyed, Measured, Part, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.medical_kernels.tissue import Tissue, element_kernels, elements_of, load_tissue

TITLES = {"cnn": "CNN", "C4": "group-convolutional, C4", "D4": "group-convolutional, D4"}
GROUPS = SQUARE_GROUPS
_CHANNELS, _W_STD, _B_STD = 8, 2**0.5, 0.1  # kernels do not depend on the number of channels
_TIMES = (1.0, 100.0)  # at which augmented and invariant kernels are compared, in units of the fastest decay
_SMALL = 8  # pixels of images on which the group convolutions themselves are computed


@dataclass(frozen=True)
class Settings:
    """`images` of `data` (None: all), averaged down to `pixels`, in `folds`: each is the test part once, the others are
    trained on. Of every size in `sizes` up to `draws` disjoint training sets are taken. The first layer reads windows
    of `patch` pixels, `stride` apart, `hidden_layers` of 3×3 convolutions follow, then the mean over positions.
    `checked` images compare the invariant kernel with augmentation by hand.
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
    Settings(),
    desk="images=2000 sizes=25,50,100,200,400,800,1500 patch=4 stride=2 checked=12",
    paper="data=nct_crc_he images=2000 sizes=25,50,100,200,400,800,1500 draws=10 patch=3 stride=1 checked=16",
)


class Results(Measured):
    """`accuracy` and `ridge` are means over draws, on the images of each fold, the test part of a split.

    `equal` are largest relative differences, by what was compared: explicit augmentation with the invariant kernel,
    group convolutions with the orbit mean. `tissue` is what was classified.
    """

    tissue: Tissue
    accuracy: Keyed[np.ndarray] = by("model", "split training_images", of="accuracy_{model}")
    ridge: Keyed[np.ndarray] = by("model", "split training_images", of="ridge_{model}")
    equal: Keyed[float] = by("compared", of="differences")

    def lead(self, group: str, size: int, level: float = 0.95) -> Estimate:
        """Accuracy of the invariant kernel minus that of the CNN's at the given place in the sizes, paired by split."""
        difference = self.accuracy[group][:, size] - self.accuracy["cnn"][:, size]
        return t_interval(difference, level, (-1, 1))

    def mean_lead(self, group: str) -> Estimate:
        """Accuracy of the invariant kernel minus that of the CNN's, mean over training sizes, paired by split."""
        difference = self.accuracy[group] - self.accuracy["cnn"]
        return t_interval(difference.mean(axis=1), bounds=(-1, 1))


def network(settings: Settings) -> nn.Sequential:
    """The CNN; turns and reflections carry its windows to windows."""
    wide: dict[str, Any] = {"padding": "circular", "W_std": _W_STD, "b_std": _B_STD}
    first = nn.Conv(_CHANNELS, (settings.patch,) * 2, stride=settings.stride, **wide)
    layers = hidden(settings.hidden_layers, lambda: nn.Conv(_CHANNELS, (3, 3), **wide))
    return nn.Sequential(first, nn.Relu(), *layers, nn.GlobalAvgPool(), nn.Dense(1))


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Windows that turns carry to windows, training sets that the folds leave, images that are there."""
    s = settings
    at_least(s, folds=2, draws=1, patch=1, stride=1, hidden_layers=0, checked=2)
    windows = s.patch >= s.stride and (s.patch - s.stride) % 2 == 0
    check(windows, "patch", s.patch, f"the stride {s.stride}, or larger by an even number, so that turns keep windows")
    check(s.pixels % s.stride == 0, "pixels", s.pixels, f"a multiple of the stride, {s.stride}")
    check(list(s.sizes) == sorted(set(s.sizes)) and len(s.sizes) >= 1, "sizes", s.sizes, "increasing")
    tissue = _load(s, data_dir)
    check(s.sizes[0] >= tissue.classes, "sizes", s.sizes, f"at least the number of classes, {tissue.classes}, each")
    left = len(tissue.x) - int(np.bincount(tissue.folds(s.folds, s.seed)).max())
    check(s.sizes[-1] <= left, "sizes", s.sizes, f"at most {left} each, which {s.folds} folds leave for training")


def _load(settings: Settings, data_dir: Path | None) -> Tissue:
    return load_tissue(settings.data, data_dir, count=settings.images, pixels=settings.pixels, seed=settings.seed)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Every kernel once for all images, kept on disk by content; then splits and sizes out of these matrices."""
    tissue = _load(settings, folder.data_dir)
    compared = [f"{what}, {group}" for group in GROUPS for what in ("augmented CNN", "group convolutions")]
    levels = {"model": tuple(TITLES), "training_images": settings.sizes, "compared": compared}
    found = measured(
        folder,
        Part("kernels", f"Kernels of {len(tissue.x)} images", partial(_grams, settings, tissue)),
        Part("equal", "Augmentation and group convolutions", partial(_equal, settings, tissue)),
        levels=levels,
    )
    grams = found.stage("kernels")
    scores = Part("accuracy", "Splits and training sizes", partial(_scores, settings, tissue, grams))
    return Results.read(found | measured(folder, scores, levels=levels), tissue=tissue)


def _grams(settings: Settings, tissue: Tissue, task: Task) -> Arrays:
    """The CNN's kernel and its means over the turns and over turns and reflections, each (N, N)."""
    whole = GROUPS["D4"]()
    parts = element_kernels(KeptKernel(network(settings), KernelStore()), whole, tissue.x, task.step)
    over = {"cnn": [whole.group.identity]}
    over |= {group: elements_of(action(), whole, tissue.x[:1]) for group, action in GROUPS.items()}
    return {model: parts.mean(elements).astype(np.float32) for model, elements in over.items()}


def training_sets(settings: Settings, fold: np.ndarray, test: int, size: int) -> list[np.ndarray]:
    """Disjoint training sets of one size from all folds but `test`, the same for every kernel."""
    rest = np.flatnonzero(fold != test)
    order = np.random.default_rng((settings.seed, test)).permutation(rest)
    return [order[d * size : (d + 1) * size] for d in range(min(settings.draws, len(order) // size))]


def _scores(settings: Settings, tissue: Tissue, grams: Arrays, task: Task) -> Arrays:
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
                fits = [kernel_classification.fit(K[np.ix_(t, t)], y[t], tissue.classes) for t in sets]
                right = [(f.predict(K[np.ix_(test, t)]) == y[test]).mean() for f, t in zip(fits, sets, strict=True)]
                arrays[f"accuracy_{model}"][k, j] = np.mean(right)
                arrays[f"ridge_{model}"][k, j] = np.exp(np.mean(np.log([f.ridge for f in fits])))
        task.step(k + 1, settings.folds)
    return arrays


def _equal(settings: Settings, tissue: Tissue, task: Task) -> Arrays:
    """Largest relative differences, in float64: augmentation by hand against the orbit mean, and group convolutions."""
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
        convolutions, plain = group_convolutions(group, small.shape[1]), plain_on_grid()
        kernel, mean = convolutions.kernel(small), orbit_average(plain, action).kernel(small)
        both = largest_difference(kernel.ntk, mean.ntk), largest_difference(kernel.nngp, mean.nngp)
        differences[f"group convolutions, {group}"] = float(np.max(both))
        task.step(done, len(GROUPS))
    return {"names": np.array(list(differences)), "differences": np.array(list(differences.values()))}


def plain_on_grid() -> nn.Sequential:
    """A CNN of stride 1 with two hidden layers: what `group_convolutions` is the orbit mean of."""
    return cnn(_CHANNELS, 2, W_std=_W_STD, b_std=_B_STD)


def group_convolutions(group: str, pixels: int) -> nn.Sequential:
    """Lift, ReLU, group convolution, ReLU, mean over the group (p4 for C4, p4m for D4); 3×3 windows, all rotations.

    Windows are lists of elements, so that no shortcut for symmetric boxes is taken: nothing rests on the theorem.
    """
    G = wallpaper(4, group == "D4", (pixels, pixels))
    points = box_offsets((3, 3), (pixels, pixels))
    origin = np.asarray(grid(G).position_table((pixels, pixels)))[:, 0]
    window = [int(g) for g in np.flatnonzero(np.isin(origin, points))]  # all elements that take the origin into the box
    lift = nn.Lift(G, _CHANNELS, [int(p) for p in points], W_std=_W_STD, b_std=_B_STD)
    convolution = nn.GroupConv(_CHANNELS, window, W_std=_W_STD, b_std=_B_STD)
    return nn.Sequential(lift, nn.Relu(), convolution, nn.Relu(), nn.GroupPool(), nn.Dense(1))


def leads(settings: Settings, results: Results, level: float = 0.95) -> Records:
    """Accuracy of invariant kernels minus that of the CNN's, by group and training size."""
    return Records.over(
        lambda group, size: results.lead(group, settings.sizes.index(size), level),
        lambda group, size: f"{group}, {size} training images",
        group=tuple(GROUPS),
        size=settings.sizes,
    )


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Who classifies better at every size, and that augmentation and group convolutions are the same kernel."""
    ahead = leads(settings, results, shared_level(len(settings.sizes)))
    last = settings.sizes[-1]
    wider = {f"{last} training images": _difference(results, "D4", "C4").times(100)}
    return [
        _ahead(settings, results, ahead, "C4"),
        _ahead(settings, results, ahead, "D4"),
        claim(
            "Invariance under reflections as well classifies at least as accurately as under turns alone, with the "
            "largest training set",
            wider,
            measure="Accuracy of the D4 kernel minus that of the C4 kernel, in percentage points of the images.",
            covers="splits, whose training parts share images",
            at_least=0,
            unit="percentage points",
            by=ours("our question"),
            holds="Build in reflections too: they cost twice the kernel and do not lower accuracy.",
            fails="Stop at turns: reflections lower the accuracy here.",
            undecided="Whether reflections add anything to turns is not decided by these splits.",
        ),
        to_rounding(
            "A CNN trained on all turned (and reflected) copies of its images predicts what the invariant kernel does, "
            "to rounding",
            {name: exactly(v) for name, v in results.equal.items() if name.startswith("augmented")},
            measure="Largest difference of predictions relative to the largest, early and late in training; the copies "
            f"are trained on explicitly, {settings.checked} images in all orientations.",
            by=theirs(THEIRS, "Theorem 5.1", "equal"),
            holds="The augmented CNN is the invariant kernel: it needs no row of its own in the tables, and the "
            "copies need not be trained on.",
            fails="Augmentation and the invariant kernel differ here: read their rows apart.",
        ),
        exact(
            "The kernel of group convolutions (p4, p4m) is the orbit mean of the CNN’s, to rounding",
            {name: exactly(v) for name, v in results.equal.items() if name.startswith("group")},
            measure="Largest difference of kernels relative to the largest entry; 3×3 windows with all rotations, "
            f"stride 1, images averaged down to at most {_SMALL}×{_SMALL}, no shortcut for symmetric windows.",
            at_most=1e-10,
            by=theirs(THEIRS, "Theorem 5.3", "equal"),
            holds="Group convolutions cost |G| CNN kernels, not fields on the whole group.",
            fails="Orbit means are not the group-convolutional kernel here: compute it directly.",
        ),
    ]


def _ahead(settings: Settings, results: Results, ahead: Records, group: str) -> Claim:
    """Whether a kernel invariant under the group classifies better than the CNN's; the source has C4."""
    points = ahead.where(group=group).times(100)
    span = f"the lead is {points.span('.2g')} percentage points, by training size"
    return claim(
        f"The kernel invariant under {group} classifies more accurately than the CNN’s",
        {f"{size:,} training images": e for size, e in zip(settings.sizes, points.estimates, strict=True)},
        aggregate=("the mean over training sizes", results.mean_lead(group).times(100)),
        measure=f"Accuracy of the {group} kernel on images not trained on, minus that of the CNN’s, in percentage "
        f"points of the images; the same {settings.folds} splits for both.",
        covers=("splits, whose training parts share images", settings.folds),
        at_least=0,
        unit="percentage points",
        by=theirs(THEIRS, "figure of accuracies on medical images", "better at every training size")
        if group == "C4"
        else ours("our question"),
        holds=f"Where tissue has no preferred orientation, take the invariant kernel: {span}.",
        fails=f"Do not expect invariance under {group} to pay: {span}.",
        undecided=f"Whether invariance under {group} pays is not decided: {span}.",
    )


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    ahead = results.mean_lead("C4").times(100)
    every = len(settings.sizes)
    above = sum(results.lead("C4", j).value > 0 for j in range(every))
    shown = in_words(ahead)
    title = (
        f"On tissue the kernel invariant under turns classifies {shown.split(' (')[0]} percentage points better than "
        "the CNN’s"
    )
    said = (
        f"The C4 kernel is ahead of the CNN’s by {shown} percentage points in the mean over {every} training "
        f"sizes, and at {'each' if above == every else above} of them (the source: better at every size)."
    )
    return title, said


def _difference(results: Results, one: str, other: str) -> Estimate:
    """The difference of accuracies with the largest training set, paired by split."""
    return t_interval(results.accuracy[one][:, -1] - results.accuracy[other][:, -1], bounds=(-1, 1))


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
