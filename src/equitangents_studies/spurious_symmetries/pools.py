"""Kernels of infinite width on pools of images: every image is tested once, after training on the other folds.

The kernel of a pool is computed once for each group, tile by tile; a run that is killed goes on from its last tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equitangents.kernels import KeptKernel, KernelStore
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.common.system_runs import relative
from equitangents_studies.framework.study import Arrays
from equitangents_studies.systems import architecture, fit_power_law, rotate
from equitangents_studies.systems.grams import PoolKernel
from equitangents_studies.systems.power_laws import PowerLaw

POOLED = ("GAP", "LAP4", "LAP8")  # whose kernels need all pairs of positions
_TILE, _POOLED_TILE, _DISK = 500, 50, 10**11


@dataclass(frozen=True, eq=False)
class Pool:
    """`errors` (sizes, folds), shares of wrong classes on the images as they are; `moved` (groups,) those of the first
    fold with the most training images; `equal` (groups,): how far kernels of moved images are from those of the images
    as they are, and `outputs` (groups,) predictions, relative to the largest.
    """

    groups: tuple[str, ...]
    sizes: np.ndarray
    errors: np.ndarray
    moved: np.ndarray
    equal: np.ndarray
    outputs: np.ndarray

    @property
    def most(self) -> int:
        """Images of the largest training sets."""
        return int(self.sizes[-1])

    @property
    def accuracies(self) -> np.ndarray:
        """Accuracies in percent after the largest training set, (folds,)."""
        return 100 - 100 * self.errors[-1]

    def law(self) -> PowerLaw | None:
        """The error as power laws, their number chosen by BIC; none where some size has no error."""
        return fit_power_law(self.sizes, self.errors, "auto") if (self.errors.mean(axis=1) > 0).all() else None

    def size_for(self, errors: np.ndarray) -> np.ndarray:
        """Training sizes at which each fold errs as much, between those measured; the ends where it never does."""
        logs = np.log(self.sizes)
        found = []
        for fold, error in enumerate(errors):
            falling = np.minimum.accumulate(self.errors[:, fold])[::-1]
            found.append(np.exp(np.interp(error, falling, logs[::-1])))
        return np.array(found)


def share(pool: Pool, level: float = 0.95) -> Estimate:
    """Accuracy in percent after the largest training set, with Student’s interval over folds."""
    return t_interval(pool.accuracies, level, (0, 100))


def lead(better: Pool, worse: Pool, level: float = 0.95) -> Estimate:
    """Accuracy minus accuracy after the largest training sets, the same images in every fold, percentage points."""
    return t_interval(better.accuracies - worse.accuracies, level, (-100, 100))


def extra(better: Pool, worse: Pool) -> Estimate:
    """How many images more the worse pool needs for the error of its largest training sets."""
    return t_interval(worse.most - better.size_for(worse.errors[-1]))


def folds_of(count: int, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training images in random order, test images) of every fold; all test parts are as large."""
    order = np.random.default_rng((seed, count)).permutation(count)
    size = count // folds
    found = []
    for k in range(folds):
        test = order[k * size : (k + 1) * size]
        rest = np.setdiff1d(order, test)
        found.append((np.random.default_rng((seed, count, k)).permutation(rest), test))
    return found


def measure_pool(
    name: str,
    depth: int,
    x: np.ndarray,
    y: np.ndarray,
    groups: Sequence[str],
    sizes: np.ndarray,
    folds: int,
    ridge: float,
    seed: int,
    kept: Path,
    step: Callable[[float, float], None],
) -> Arrays:
    """The arrays of a `Pool` of the images x with the classes y; `groups` begin with "I". Tiles are in `kept`."""
    tile = _POOLED_TILE if name in POOLED else _TILE
    net = KeptKernel(architecture(name, depth), KernelStore(kept, _DISK), tile)
    targets = np.eye(int(y.max()) + 1)[y] - 1 / (int(y.max()) + 1)
    splits = folds_of(len(x), folds, seed)
    errors: list[np.ndarray] = []
    found: dict[str, list[float]] = {"moved": [], "equal": [], "outputs": []}
    first: tuple[np.ndarray, np.ndarray] | None = None
    for i, group in enumerate(groups):
        at = lambda done, total, i=i: step(i + 0.9 * done / total, len(groups))
        moved = np.asarray(rotate(x, group, seed=seed), x.dtype)
        K = PoolKernel(np.array(net.kernel(moved, step=at).ntk))  # a copy: the NNGP may go
        last = np.zeros(())
        for k, (order, test) in enumerate(splits if i == 0 else splits[:1]):
            outputs = K.curve(targets, order, test, sizes, ridge)
            if i == 0:
                errors.append(_wrong(outputs, y[test]))
            last = outputs[-1] if k == 0 else last
        first = (K.matrix, last) if first is None else first
        found["moved"].append(_wrong(last[None], y[splits[0][1]])[0])
        found["equal"].append(_relative(K.matrix, first[0]))
        found["outputs"].append(relative(last, first[1]))
        step(i + 1, len(groups))
    return {key: np.array(values) for key, values in found.items()} | {"errors": np.stack(errors, axis=1)}


def pool_of(arrays: Arrays, groups: Sequence[str], sizes: np.ndarray) -> Pool:
    """The arrays of a stage as a `Pool`."""
    return Pool(tuple(groups), sizes, **{key: arrays[key] for key in ("errors", "moved", "equal", "outputs")})


def _wrong(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The share of inputs that outputs (sizes, inputs, classes) classify wrongly; what is not finite is wrong."""
    right = (outputs.argmax(axis=2) == labels) & np.isfinite(outputs).all(axis=2)
    return np.asarray(1 - right.mean(axis=1))


def _relative(K: np.ndarray, first: np.ndarray) -> float:
    """The largest difference relative to the largest entry, some rows at a time; NaN where anything is not finite."""
    rows = range(0, len(K), _TILE)
    worst = np.max([_difference(K[a : a + _TILE], first[a : a + _TILE]) for a in rows])
    return float(worst / np.max([np.max(np.abs(first[a : a + _TILE])) for a in rows]))


def _difference(K: np.ndarray, first: np.ndarray) -> float:
    """The largest difference; NaN where anything is not finite."""
    difference = np.max(np.abs(K.astype(np.float64) - first))
    return float(difference) if np.isfinite(K).all() else float("nan")
