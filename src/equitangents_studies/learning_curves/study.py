"""Errors of infinitely wide networks against training size: exponents, cusps, and what the spectrum predicts.

Upright images, and images with a random rotation of the channels at every position (O(3)^d): it does not affect FCN and
VEC at infinite width, and destroys the neighbourhoods that GAP uses. Data improve data efficiency (DIDE) where the
exponent grows with data. The squared error is also predicted, without training, from the kernel and targets of a pool.

Kernel regression at the source's size: 45,000 training images, 5,000 for validation, and all test images.

The kernel is kept as tiles on disk and solved out of core: a killed run resumes at its last tile. In float32 the
rounding of its entries is a shift along the leading eigenvector, by 1e-7 of that eigenvalue, and grows elsewhere with
the number of images: 2e-6 of the mean diagonal at 1,600, so at most 6e-5 at 45,000. The solver only knows the shift,
5e-3 of the mean diagonal at 45,000, and requires a larger ridge; between ridges of 1e-4 and 0.03 accuracies after 4,000
images differ by 0.6 percentage points at most. With left-right flips the training set is twice as large; the kernel
averaged over the two orientations of either image gives exactly its predictions from half the matrix.

Random features approximate a kernel that is too expensive. With Φ (n, m) of n training images the mean of training to
the end is φ(x)ᵀ (ΦᵀΦ + λ)⁻¹ Φᵀ Y: n m² products in place of n² pairs of images. Where n < m, Φᵀ (ΦΦᵀ + λ)⁻¹ Y are the
same weights. λ is a multiple of the mean |φ|², chosen by the accuracy in validation. On few images the exact kernel can
be computed, and both are compared by cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.linalg
from jaxtyping import Float

from equitangents import kernels, nn
from equitangents.actions import image_dihedral
from equitangents.extending import atomic_file
from equitangents.kernels import KernelFunction, orbit_average
from equitangents.scale import GramStore
from equitangents.solvers import OutOfCore, solve
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.images import standardise, stands_for
from equitangents_studies.framework.measured import StageArrays, Stages, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Task
from equitangents_studies.learning_curves.settings import (
    DRAWN,
    DRAWN_SIZES,
    FEATURE_RIDGES,
    FIELDS,
    GROUPS,
    CurveResults,
    CurveSettings,
    compared_features,
    feature_sizes,
    left,
    load,
    parts,
    pool_size,
    pooled,
    sizes_of,
    trained_on,
    whole_images,
)
from equitangents_studies.systems import System, architecture, fit_power_law, rotate
from equitangents_studies.systems.curves import curve_data, errors_of, kernel_curve
from equitangents_studies.systems.grams import PoolKernel, symmetric_kernel
from equitangents_studies.systems.predictions import cavity_risk, omniscient_risk


def measure(settings: CurveSettings, folder: RunFolder) -> CurveResults:
    """Curves of every model and group, networks, predictions on every set, and synthetic curves: a stage each."""
    s = settings
    data_dir = folder.data_dir
    there = [name for name in s.predicted_sets if data.available(name, data_dir)]
    found = measured(
        folder,
        Stages("curve-{model}-{group#}", "{model}, {group}", partial(_curve, s, folder)),
        Stages("predicted-{data}", "{data}: predictions", partial(_prediction, s, data_dir)),
        Stages("whole-{whole}{flips}", f"{{whole}}{{flips}}, {s.whole_images:,} images", partial(_whole, s, folder)),
        Stages("recovered", "Synthetic power laws", partial(_recover, s)),
        levels={
            "model": s.models,
            "group": GROUPS,
            "data": there,
            "predicted_images": s.predicted_sizes,
            "whole": s.whole,
            "flips": ("", "-flips") if s.flips else ("",),
            "field": FIELDS,
            "part": parts(s),
        },
    )
    found = found | _trained(s, folder) | _approximated(s, folder)
    return CurveResults.read(
        found, source=stands_for(s.data, data_dir), sizes={model: sizes_of(s, model) for model in s.models}
    )


def _trained(s: CurveSettings, folder: RunFolder) -> StageArrays:
    """Errors of networks of finite width, one stage per network."""
    part = Stages(
        "network-{network}-{group}-{training_images}-{run}",
        lambda network, group, images, run: f"{network} of finite width, {group}, {images} images, run {run + 1}",
        partial(_network, s, folder.data_dir),
    )
    levels = {"network group": trained_on(s), "training_images": s.network_sizes, "run": range(s.members)}
    return measured(folder, part, levels=levels)


def _approximated(s: CurveSettings, folder: RunFolder) -> StageArrays:
    """Features of all images, a slice at a time; their errors; and their loss against the exact kernel."""
    data_dir, title = folder.data_dir, "{approximated}: features "
    levels = {
        "approximated": s.approximated,
        "slice": slices(s),
        "feature_images": feature_sizes(s),
        "kernel": ("exact", *compared_features(s)),
    }
    found = measured(
        folder,
        Stages("exact-{approximated}", title + "against the exact kernel", partial(against_exact, s, data_dir)),
        Stages("features-{approximated}-{slice}", title + "from image {slice} on", partial(features, s, data_dir)),
        levels=levels,
    )

    def learn(model: str, task: Task) -> Arrays:
        each = [part for at, part in found.arrays("features") if at["approximated"] == model]
        return learnt(np.concatenate(each), whole_images(s, data_dir), s)

    return found | measured(folder, Stages("learnt-{approximated}", title + "learn", learn), levels=levels)


def _whole(s: CurveSettings, folder: RunFolder, model: str, flips: str, task: Task) -> Arrays:
    return whole(model, bool(flips), s, folder.data_dir, folder.checkpoints(f"whole-{model}{flips}"), task)


def _curve(settings: CurveSettings, folder: RunFolder, model: str, group: str, task: Task) -> Arrays:
    """Errors of one curve; tiles of the kernel are kept on disk, so that a killed run resumes."""
    x, y = load(settings, folder.data_dir)
    moved = np.asarray(rotate(x[: pool_size(settings, model)], group, seed=settings.seed), np.float32)
    path = folder.checkpoints(f"curve-{model}-{GROUPS.index(group)}") / "gram"
    store = GramStore(path, architecture(model, depth=settings.depth), moved, tile=_TILE)
    K = np.asarray(store.compute(progress=lambda done, total, left: task.step(0.9 * done / total, 1)).ntk[:])
    given = curve_data(moved, y[: len(moved)])
    splits = [given.split(r, settings.seed) for r in range(settings.repetitions)]
    sizes = np.array(sizes_of(settings, model))
    (classification, squared), _ = kernel_curve(PoolKernel(K), given, splits, sizes, settings.ridge, None)
    task.step(1, 1)
    return {"classification": classification, "squared": squared}


def _network(
    settings: CurveSettings, data_dir: Path | None, model: str, group: str, images: int, run: int, task: Task
) -> Arrays:
    """The classification error of a trained network; every run has its images, transformation and initial weights."""
    seed, given = settings.seed, curve_data(*load(settings, data_dir))
    order, tested = given.split(run, seed)
    net = architecture(model, depth=settings.network_depth, width=settings.width)
    error, _ = errors_of(System(group, net, "NN"), given, order[:images], tested, seed + run)
    task.step(1, 1)
    return {"errors": np.array(error)}


def mlp() -> nn.Sequential:
    """The network whose errors are predicted on all sets: two hidden layers, ReLU."""
    return networks.mlp(8, 2, flatten=True, output_std=1)


def _prediction(settings: CurveSettings, data_dir: Path | None, name: str, task: Task) -> Arrays:
    s = settings
    count = s.predicted_images
    if name == "digits":
        count = min(count, 1797)
    x, y = pooled(name, data_dir, count, s.seed)
    given = curve_data(standardise(x).astype(np.float64), y, test=0.3)
    K = PoolKernel(symmetric_kernel(mlp(), given.x, "ntk", lambda done, n: task.step(done / n, 3), given.pool))
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


def _recover(settings: CurveSettings, task: Task) -> Arrays:
    a, b, cusp, noise = DRAWN
    n = np.geomspace(100, 10_000, DRAWN_SIZES)
    curve = np.where(n < cusp, n**-a, cusp ** (b - a) * n**-b)
    rng = np.random.default_rng(settings.seed)
    held = np.zeros((settings.draws, 3), bool)
    for i in range(settings.draws):
        law = fit_power_law(n, curve * np.exp(noise * rng.normal(size=len(n))))
        held[i] = [e.low <= v <= e.high for e, v in zip((*law.exponents, law.cusp), (a, b, cusp), strict=True)]
        task.step(i + 1, settings.draws)
    return {"recovered": held}


_SHARES = (0.5, 0.6, 0.7)  # of the time, after the kernel and each of two solutions
_BLOCK = 500  # images whose outputs are computed at once
_TILE = 250  # images of a side of a tile of a curve's kernel


def whole(model: str, flips: bool, settings: CurveSettings, data_dir: Path | None, kept: Path, task: Task) -> Arrays:
    """Whether each image is classified correctly, (fields, images) of every part; tiles are in `kept`."""
    s, n = settings, settings.whole_images
    images = whole_images(s, data_dir)
    net: KernelFunction = architecture(model, depth=s.depth)
    if flips:
        net = orbit_average(net, image_dihedral(1))
    x = images.train_x[:n].astype(s.whole_precision)
    targets = images.targets[:n]
    kept.mkdir(parents=True, exist_ok=True)
    store = GramStore(kept / "gram", net, x)
    store.compute(progress=lambda done, total, left: task.step(_SHARES[0] * done / total, 1))
    weights = []
    for field, share in zip(FIELDS, _SHARES[1:], strict=True):
        weights.append(_kept(kept / f"{field}.npy", partial(_weights, store, targets, s.whole_ridge, field)))
        task.step(share, 1)
    tested = {"validation": (images.train_x[n:], images.train_y[n:]), "test": (images.test_x, images.test_y)}
    count, done = left(s) + len(images.test_y), 0
    results = {}
    for part in parts(s):
        test, labels = tested[part]
        blocks = []
        for i in range(0, len(test), _BLOCK):
            block = partial(_right, net, x, weights, test[i : i + _BLOCK], labels[i : i + _BLOCK])
            blocks.append(_kept(kept / f"{part}-{i}.npy", block))
            done += len(blocks[-1][0])
            task.step(_SHARES[-1] + (1 - _SHARES[-1]) * done / count, 1)
        results[part] = np.concatenate(blocks, axis=1)
    return results


def _kept(path: Path, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """Content of the file; if it is missing, compute and write it."""
    if path.exists():
        return np.load(path, allow_pickle=False)
    found = compute()
    with atomic_file(path) as partial_file, partial_file.open("wb") as file:
        np.save(file, found)
    return found


def _weights(store: GramStore, targets: np.ndarray, ridge: float, field: Literal["ntk", "nngp"]) -> np.ndarray:
    """(K + ridge)⁻¹ of the targets, in float64."""
    solver = OutOfCore()
    return np.asarray(solve(store, targets, ridge=ridge, solver=solver, kernel=field).coefficients)


def _right(
    net: KernelFunction, x: np.ndarray, weights: list[np.ndarray], test: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Whether each image is classified correctly, (fields, images)."""
    across = net.kernel(test.astype(x.dtype), x)
    outputs = [np.asarray(getattr(across, f), np.float64) @ w for f, w in zip(FIELDS, weights, strict=True)]
    return np.stack([(o.argmax(axis=1) == labels) & np.isfinite(o).all(axis=1) for o in outputs])


_SLICE = 2500  # images of a stage
_REPORTED = 250  # images between two reports of progress
_FOLDS = 4


def slices(settings: CurveSettings) -> list[int]:
    """Start of each stage among the concatenated images for training, validation and testing."""
    s = settings
    return list(range(0, s.whole_images + left(s) + s.whole_tested, _SLICE))


def features(settings: CurveSettings, data_dir: Path | None, model: str, begin: int, task: Task) -> Arrays:
    """Features of some images, (images, features), in blocks."""
    s = settings
    images = whole_images(s, data_dir)
    chosen = np.concatenate([images.train_x, images.test_x])[begin : begin + _SLICE].astype(np.float32)
    made = kernels.random_features(architecture(model, depth=s.depth), s.features, s.seed)
    made.transform(chosen[:1])  # compiled
    found = []
    for i in range(0, len(chosen), _REPORTED):
        found.append(np.asarray(made.transform(chosen[i : i + _REPORTED])))
        task.step(min(i + _REPORTED, len(chosen)), len(chosen))
    return {"features": np.concatenate(found)}


def learnt(found: Float[np.ndarray, "images features"], images: data.Dataset, settings: CurveSettings) -> Arrays:
    """The ridge that is best in validation at every size, a multiple of the mean |φ|², and whether each test image is
    classified correctly with it.
    """
    n, count = settings.whole_images, len(images.train_x)
    tested, test = found[n:count].astype(np.float64), found[count:].astype(np.float64)
    ridges, validation, right = [], [], []
    for size in feature_sizes(settings):
        solved = _feature_weights(found[:size], images.targets[:size])
        scores = [((tested @ w).argmax(axis=1) == images.train_y[n:]).mean() for w in solved]
        best = int(np.argmax(scores))
        ridges.append(FEATURE_RIDGES[best])
        validation.append(scores[best])
        right.append((test @ solved[best]).argmax(axis=1) == images.test_y)
    return {
        "feature_ridge": np.array(ridges),
        "feature_validation": np.array(validation),
        "feature_right": np.array(right),
    }


def _feature_weights(
    found: Float[np.ndarray, "images features"], targets: Float[np.ndarray, "images classes"]
) -> list[Float[np.ndarray, "features classes"]]:
    """(ΦᵀΦ + λ)⁻¹ Φᵀ Y for each of FEATURE_RIDGES, in float64, computed in blocks of images to save memory."""
    n, m = found.shape
    if n < m:
        phi = found.astype(np.float64)
        squares, pulls = phi @ phi.T, targets
    else:
        squares, pulls = np.zeros((m, m)), np.zeros((m, targets.shape[1]))
        for i in range(0, n, _SLICE):
            part = found[i : i + _SLICE].astype(np.float64)
            squares += part.T @ part
            pulls += part.T @ targets[i : i + _SLICE]
    unit = np.trace(squares) / n
    solved = []
    for ridge in FEATURE_RIDGES:
        shifted = squares.copy()
        shifted[np.diag_indices_from(shifted)] += ridge * unit
        solved.append(scipy.linalg.solve(shifted, pulls, assume_a="pos", overwrite_a=True))
    return [phi.T @ w for w in solved] if n < m else solved


def against_exact(settings: CurveSettings, data_dir: Path | None, model: str, task: Task) -> Arrays:
    """Whether each of a few training images is classified correctly by the exact kernel and by kernels of features, by
    number of features, at the best ridge of each: (1 + numbers, images).
    """
    s = settings
    images = whole_images(s, data_dir)
    x, y, targets = images.train_x[: s.exact_images].astype(np.float32), images.train_y, images.targets
    net = architecture(model, depth=s.depth)
    matrices = [symmetric_kernel(net, x, "ntk", lambda done, total: None).astype(np.float64)]
    for i, count in enumerate(compared_features(s)):
        phi = np.asarray(kernels.random_features(net, count, s.seed).transform(x), np.float64)
        matrices.append(phi @ phi.T)
        task.step(i + 1, len(compared_features(s)))
    right = []
    for K in matrices:
        hits = out_of_fold(K, targets[: len(x)]).argmax(axis=-1) == y[: len(x)]
        right.append(hits[np.argmax(hits.mean(axis=1))])
    return {"exact_right": np.array(right)}


def out_of_fold(K: np.ndarray, targets: np.ndarray) -> Float[np.ndarray, "ridges images classes"]:
    """Predictions of each image from the images of the other folds, for every ridge."""
    n = len(K)
    found = np.zeros((len(FEATURE_RIDGES), n, targets.shape[1]))
    for test in np.array_split(np.arange(n), _FOLDS):  # labels alternate, so that blocks have all classes alike
        train = np.setdiff1d(np.arange(n), test)
        inner, across = K[np.ix_(train, train)], K[np.ix_(test, train)]
        unit = np.trace(inner) / len(train)
        for i, ridge in enumerate(FEATURE_RIDGES):
            found[i, test] = across @ np.linalg.solve(inner + ridge * unit * np.eye(len(train)), targets[train])
    return found
