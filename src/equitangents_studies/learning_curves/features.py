"""Random features in place of a kernel that is too dear: what they learn of all images, and what they lose of a few.

With Φ (n, m) of n training images the mean of training to the end is φ(x)ᵀ (ΦᵀΦ + λ)⁻¹ Φᵀ Y: n m² products in place of
n² pairs of images. Where n < m, Φᵀ (ΦΦᵀ + λ)⁻¹ Y are the same weights. λ is a multiple of the mean |φ|², chosen by the
accuracy in validation. On images so few that the exact kernel can be computed of all their pairs, both predict the same
images, of folds that they were not shown.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import scipy.linalg
from jaxtyping import Float

from equitangents import kernels
from equitangents.extending import formatting
from equitangents.report import Figure, Table, palette
from equitangents_studies.common.system_runs import SystemImages
from equitangents_studies.framework.page import Columns, RunFolder, columns, drawing, table
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.learning_curves.claims import features_less_exact
from equitangents_studies.learning_curves.largest import FULL, SOURCE, share
from equitangents_studies.learning_curves.settings import (
    FEATURE_RIDGES,
    PREPARED,
    Results,
    Settings,
    compared_features,
    feature_sizes,
    left,
    whole_images,
)

_SLICE = 2500  # images of a stage
_BLOCK = 250  # images between two reports of progress
_FOLDS = 4


def slices(settings: Settings) -> list[int]:
    """Where stages begin among the images for training, validation and testing, one behind the other."""
    s = settings
    return list(range(0, s.whole_images + left(s) + s.whole_tested, _SLICE))


def features(settings: Settings, data_dir: Path | None, model: str, begin: int, task: Task) -> Arrays:
    """Features of some images, (images, features), and the seconds of processors that they took."""
    s = settings
    images = whole_images(s, data_dir)
    chosen = np.concatenate([images.train_x, images.test_x])[begin : begin + _SLICE].astype(np.float32)
    made = kernels.random_features(PREPARED[s.prepared].network(model, s.depth), s.features, s.seed)
    made.transform(chosen[:1])  # compiled
    found, began = [], time.process_time()
    for i in range(0, len(chosen), _BLOCK):
        found.append(np.asarray(made.transform(chosen[i : i + _BLOCK])))
        task.step(min(i + _BLOCK, len(chosen)), len(chosen))
    return {"features": np.concatenate(found), "feature_seconds": np.array(time.process_time() - began)}


def learnt(found: Float[np.ndarray, "images features"], images: SystemImages, settings: Settings) -> Arrays:
    """The ridge that is best in validation at every size, a multiple of the mean |φ|², which test images are
    classified rightly with it, and the seconds of processors that this took.
    """
    n, count = settings.whole_images, len(images.train_x)
    tested, test = found[n:count].astype(np.float64), found[count:].astype(np.float64)
    ridges, validation, right, seconds = [], [], [], []
    for size in feature_sizes(settings):
        began = time.process_time()
        solved = _weights(found[:size], images.targets[:size])
        scores = [((tested @ w).argmax(axis=1) == images.train_y[n:]).mean() for w in solved]
        best = int(np.argmax(scores))
        ridges.append(FEATURE_RIDGES[best])
        validation.append(scores[best])
        right.append((test @ solved[best]).argmax(axis=1) == images.test_y)
        seconds.append(time.process_time() - began)
    return {
        "feature_ridge": np.array(ridges),
        "feature_validation": np.array(validation),
        "feature_right": np.array(right),
        "learnt_seconds": np.array(seconds),
    }


def _weights(
    found: Float[np.ndarray, "images features"], targets: Float[np.ndarray, "images classes"]
) -> list[Float[np.ndarray, "features classes"]]:
    """(ΦᵀΦ + λ)⁻¹ Φᵀ Y with each of FEATURE_RIDGES, in float64: of images in blocks, so that Φ is held but once."""
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


def beside_exact(settings: Settings, data_dir: Path | None, model: str, task: Task) -> Arrays:
    """The exact kernel of a few training images and kernels of features, by their number: (1 + numbers, images) whether
    each image is classified rightly, at the best ridge of each; (numbers,) how far kernels, centred, and predictions at
    the exact kernel's best ridge are from the exact ones, relative; (1 + numbers,) seconds of processors.
    """
    s = settings
    images = whole_images(s, data_dir)
    x, y, targets = images.train_x[: s.exact_images].astype(np.float32), images.train_y, images.targets
    net = PREPARED[s.prepared].network(model, s.depth)
    matrices, seconds = [], []
    for i, count in enumerate((0, *compared_features(s))):
        if count:
            made = kernels.random_features(net, count, s.seed)
            made.transform(x[:1])  # compiled
            began = time.process_time()
            phi = np.asarray(made.transform(x), np.float64)
            matrices.append(phi @ phi.T)
        else:
            began = time.process_time()
            matrices.append(np.asarray(kernels.KeptKernel(net, kernels.KernelStore()).kernel(x).ntk, np.float64))
        seconds.append(time.process_time() - began)
        task.step(i + 1, 1 + len(compared_features(s)))
    every = [out_of_fold(K, targets[: len(x)]) for K in matrices]
    hits = [(outputs.argmax(axis=-1) == y[: len(x)]).mean(axis=1) for outputs in every]
    best = [int(np.argmax(share)) for share in hits]
    relative = lambda a, b: float(np.linalg.norm(a - b) / np.linalg.norm(b))
    return {
        "exact_right": np.array([o[i].argmax(axis=-1) == y[: len(x)] for o, i in zip(every, best, strict=True)]),
        "kernel_error": np.array([relative(_centred(K), _centred(matrices[0])) for K in matrices[1:]]),
        "prediction_error": np.array([relative(o[best[0]], every[0][best[0]]) for o in every[1:]]),
        "exact_seconds": np.array(seconds),
    }


def out_of_fold(K: np.ndarray, targets: np.ndarray) -> Float[np.ndarray, "ridges images classes"]:
    """What each image is predicted to be with every ridge, by the images of the other folds."""
    n = len(K)
    found = np.zeros((len(FEATURE_RIDGES), n, targets.shape[1]))
    for test in np.array_split(np.arange(n), _FOLDS):  # labels alternate, so that blocks have all classes alike
        train = np.setdiff1d(np.arange(n), test)
        inner, across = K[np.ix_(train, train)], K[np.ix_(test, train)]
        unit = np.trace(inner) / len(train)
        for i, ridge in enumerate(FEATURE_RIDGES):
            found[i, test] = across @ np.linalg.solve(inner + ridge * unit * np.eye(len(train)), targets[train])
    return found


def _centred(K: np.ndarray) -> np.ndarray:
    return np.asarray(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean())


def approximated(settings: Settings, results: Results, folder: RunFolder, model: str) -> list[Figure | Table]:
    """The section on one model."""
    s = settings
    return [_figure(s, results, folder, model), _learnt(s, results, model), _beside(s, results, model)]


def approximated_rows(settings: Settings, results: Results) -> dict[str, Columns]:
    """Every number."""
    s = settings
    learnt = [
        (model, s.features, int(n), r, v, share(hit), t)
        for model, right in results.feature_right.items()
        for n, r, v, hit, t in zip(
            feature_sizes(s),
            results.feature_ridge[model],
            results.feature_validation[model],
            right,
            results.learnt_seconds[model],
            strict=True,
        )
    ]
    beside = [
        (model, m, share(hit), e, d, t)
        for model, right in results.exact_right.items()
        for m, hit, e, d, t in zip(
            ("exact", *compared_features(s)),
            right,
            (0.0, *results.kernel_error[model]),
            (0.0, *results.prediction_error[model]),
            results.exact_seconds[model],
            strict=True,
        )
    ]
    tested = ("validation_accuracy", "test_accuracy", "low", "high", "seconds")
    names = ("model", "features", "training_images", "ridge", *tested)
    others = ("model", "features", "accuracy", "low", "high", "kernel_error", "prediction_error", "seconds")
    return {"features": columns(names, learnt), "beside_exact": columns(others, beside)}


def _images(s: Settings) -> int:
    return s.whole_images + left(s) + s.whole_tested


def _for_all(s: Settings, results: Results, model: str) -> list[float]:
    """Seconds for all images, as fast as for a few, of the exact kernel and of features: of the kernel for all pairs of
    training images, and of these with all others.
    """
    n, few = s.whole_images, s.exact_images
    pairs = n * (n + 1) / 2 + n * (_images(s) - n)
    exact, *features = (float(seconds) for seconds in results.exact_seconds[model])
    return [exact / (few * (few + 1) / 2) * pairs, *(seconds / few * _images(s) for seconds in features)]


def _figure(s: Settings, results: Results, folder: RunFolder, model: str) -> Figure:
    with drawing.panels(
        folder,
        f"features-{model}",
        size=(6.4, 3.6),
        xlabel="training images",
        ylabel="accuracy on test images, %",
        caption="Random features: accuracy with its 95 % interval over test images; the exact kernel on fewer images, "
        "in folds; the source’s number, where it has one, of the exact kernel and all images.",
        alt="Accuracy of random features against training images",
    ) as drawn:
        (axes,) = drawn
        reached = [share(right) for right in results.feature_right[model]]
        drawing.estimates(axes, feature_sizes(s), reached, palette.BLUE.light, label=f"{s.features:,} features")
        exact = share(results.exact_right[model][0])
        few = round(0.75 * s.exact_images)
        drawing.estimates(axes, [few], [exact], palette.GREEN.light, fmt="s", ms=6, label="exact kernel, ours")
        if model in SOURCE:
            colour = palette.MUTED.light
            axes.plot([FULL], [SOURCE[model]], "D", ms=7, color=colour, label="exact kernel, source")
        drawing.logarithmic(axes, "x")
    return drawn.figure


def _learnt(s: Settings, results: Results, model: str) -> Table:
    rows = [
        [f"{n:,}", f"{ridge:.2g}", f"{100 * validation:.1f}", share(right)]
        for n, ridge, validation, right in zip(
            feature_sizes(s),
            results.feature_ridge[model],
            results.feature_validation[model],
            results.feature_right[model],
            strict=True,
        )
    ]
    caption = (
        f"Accuracy in percent of {s.features:,} random features of {model}; in brackets 95 % intervals over test "
        "images. The ridge, of the mean of the kernel’s diagonal, is the best in validation."
    )
    return table(caption, ["training images", "ridge", "validation", "test"], rows)


def _beside(s: Settings, results: Results, model: str) -> Table:
    right, lost = results.exact_right[model], features_less_exact(s, results.exact_right[model])
    exact, *costs = (
        [f"{seconds:.3g}", formatting.duration(of_all)]
        for seconds, of_all in zip(results.exact_seconds[model], _for_all(s, results, model), strict=True)
    )
    rows = [["exact kernel", share(right[0]), "–", "–", "–", *exact]]
    for i, (label, cost) in enumerate(zip(lost, costs, strict=True)):
        errors = [f"{100 * of[model][i]:.3g}" for of in (results.kernel_error, results.prediction_error)]
        rows.append([label, share(right[i + 1]), lost[label], *errors, *cost])
    caption = (
        f"{s.exact_images:,} images in four folds: accuracy in percent, and that of features minus that of the exact "
        "kernel, paired over images, with 95 % intervals over images; the error of the centred kernel in the Frobenius "
        "norm, and the root mean square by which predictions differ at the exact kernel’s best ridge, in percent of "
        "the exact ones; seconds of processors, and the time that the kernel, or the features, of "
        f"{_images(s):,} images would take at that rate."
    )
    header = ["", "accuracy", "minus exact", "kernel off, %", "predictions off, %", "s", f"{_images(s):,} images"]
    return table(caption, header, rows)
