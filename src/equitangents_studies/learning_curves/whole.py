"""Kernel regression at the source's size: 45,000 training images, 5,000 for validation, and all test images.

The kernel is kept as tiles on disk and solved out of core: whatever is killed goes on from its last tile. Entries are
float64, since rounding to float32 moves eigenvalues of 45,000 images by more than the ridge: NTK, NNGP and a factor
take 48 GB of disk. With left-right flips the training set is twice as large; the kernel averaged over the two
orientations of either image gives exactly its predictions from half the matrix.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equitangents.actions import image_dihedral
from equitangents.kernels import KernelFunction, orbit_average
from equitangents.scale import GramStore
from equitangents.solvers import OutOfCore, solve
from equitangents_studies.common.system_images import SystemImages, load_system_images
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.learning_curves.settings import FIELDS, Settings
from equitangents_studies.systems import architecture

PARTS = ("validation", "test")
_SHARES = (0.3, 0.6, 0.9)  # of the time, after the kernel and each of two solutions
_BLOCK = 500  # images whose outputs are computed at once


def whole_images(settings: Settings, data_dir: Path | None) -> SystemImages:
    """Training images, a ninth as many more for validation behind them, and test images."""
    s = settings
    return load_system_images(
        s.data, data_dir, train=s.whole_images + s.whole_images // 9, test=s.whole_tested, pixels=s.pixels, seed=s.seed
    )


def whole(model: str, flips: bool, settings: Settings, data_dir: Path | None, kept: Path, task: Task) -> Arrays:
    """Whether each image is classified rightly, (fields, images) of either of PARTS; tiles are in `kept`."""
    s, n = settings, settings.whole_images
    images = whole_images(s, data_dir)
    net: KernelFunction = architecture(model, depth=s.depth)
    if flips:
        net = orbit_average(net, image_dihedral(1))
    x = images.train_x[:n].astype(np.float64)
    targets = images.targets[:n]
    kept.mkdir(parents=True, exist_ok=True)
    store = GramStore(kept / "gram", net, x)
    store.compute(progress=lambda done, total, left: task.step(_SHARES[0] * done / total, 1))
    weights = []
    for field, share in zip(FIELDS, _SHARES[1:], strict=True):
        found = solve(store, targets, ridge=s.ridge, solver=OutOfCore(precision="float64"), field=field)
        weights.append(found.coefficients)
        task.step(share, 1)
    tested = {"validation": (images.train_x[n:], images.train_y[n:]), "test": (images.test_x, images.test_y)}
    return {part: _right(net, x, weights, *given) for part, given in tested.items()}


def _right(
    net: KernelFunction, x: np.ndarray, weights: list[np.ndarray], test: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    right = []
    for i in range(0, len(test), _BLOCK):
        across = net.kernel(test[i : i + _BLOCK].astype(np.float64), x)
        outputs = [np.asarray(getattr(across, f), np.float64) @ w for f, w in zip(FIELDS, weights, strict=True)]
        right.append([(o.argmax(axis=1) == labels[i : i + _BLOCK]) & np.isfinite(o).all(axis=1) for o in outputs])
    return np.concatenate(right, axis=1)
