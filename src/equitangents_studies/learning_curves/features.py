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
from equitangents_studies.common.system_runs import SystemImages
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.learning_curves.settings import (
    FEATURE_RIDGES,
    PREPARED,
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
