"""Choosing an infinite ensemble: `tune` by leave-one-out or marginal likelihood beside 5-fold search over refits.

Nested: on each outer fold both choose on its training part, are fitted, and predict its test part, not chosen on.
The difference of their test errors has a 95 % interval over all test samples; costs are processor time of one thread.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

FOLDS = 5
GRID: dict[str, list[Any]] = {
    "depth": [1, 3],
    "W_std": [1.0, 1.4, 2.0],
    "b_std": [0.1],
    "nonlinearity": ["relu", "erf"],
    "ridge": [1e-4, 1e-3, 1e-2, 1e-1, 1.0],
}


@dataclass(frozen=True)
class Compared:
    """Test errors of every sample, and seconds, of tuning and of search over refits."""

    tuned: np.ndarray
    searched: np.ndarray
    tuning: float
    search: float

    @property
    def ratio(self) -> float:
        """What tuning costs, in units of the search."""
        return self.tuning / self.search

    @property
    def difference(self) -> tuple[float, float, float]:
        """Mean of tuned − searched errors over test samples, with its 95 % interval; 0 where they never differ."""
        from equitangents.statistics import mean_interval

        pairs = self.tuned - self.searched
        return (float(pairs.mean()), *mean_interval(pairs)) if pairs.any() else (0.0, 0.0, 0.0)


def folds(n: int, count: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(training, test) indices."""
    for test in np.array_split(np.random.default_rng(seed).permutation(n), count):
        yield np.setdiff1d(np.arange(n), test), test


def search(model: Any, grid: Mapping[str, list[Any]], x: np.ndarray, y: np.ndarray) -> Any:
    """What GridSearchCV does: the candidate with the smallest 5-fold error, fitted to all."""
    from equitangents.ensembles.infinite.tuning import points
    from equitangents.errors import NotPositiveDefiniteError

    candidates, errors = points(model, grid), []
    for point in candidates:
        total = 0.0
        for train, test in folds(len(x), FOLDS, seed=1):
            try:
                total += float(losses(point.ensemble.fit(x[train], y[train]), x[test], y[test]).sum())
            except NotPositiveDefiniteError:
                total = math.inf
        errors.append(total)
    return candidates[int(np.argmin(errors))].ensemble.fit(x, y)


def losses(model: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of each sample: the squared error, or 1 for a wrong label."""
    predicted = model.predict(x)
    return (predicted != y).astype(float) if hasattr(model, "classes_") else (predicted - y) ** 2


def compare(
    model: Any, grid: Mapping[str, list[Any]], x: np.ndarray, y: np.ndarray, outer: int, **how: Any
) -> Compared:
    """Nested cross-validation with so many outer folds; `how` goes to tune."""
    model.tune({k: v[:1] for k, v in grid.items()}, x[:20], y[:20], **how)  # what only the first run pays
    tuned, searched, tuning, searching = [], [], 0.0, 0.0
    for train, test in folds(len(x), outer, seed=0):
        start = time.process_time()
        best = model.tune(grid, x[train], y[train], **how).best
        middle = time.process_time()
        found = search(model, grid, x[train], y[train])
        searching += time.process_time() - middle
        tuning += middle - start
        tuned.append(losses(best, x[test], y[test]))
        searched.append(losses(found, x[test], y[test]))
    return Compared(np.concatenate(tuned), np.concatenate(searched), tuning, searching)


def regression(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's function of 5 of 8 inputs, with noise, standardised."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 8))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = y + rng.normal(size=n)
    return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()


def cases(n: int) -> Iterator[tuple[str, Any, dict[str, list[Any]], np.ndarray, np.ndarray, dict[str, Any]]]:
    """(name, model, grid, x, y, how to tune)."""
    import equitangents as et
    from equitangents import nn

    mlp = nn.Sequential(nn.Flatten(), nn.Dense(1), nn.Relu(), nn.Dense(1))
    x, y = regression(n)
    yield "regression, leave-one-out", et.InfiniteEnsemble(mlp), GRID, x, y, {}
    likelihood = {"criterion": "marginal_likelihood"}
    yield "regression, marginal likelihood", et.InfiniteEnsemble(mlp, kernel="nngp"), GRID, x, y, likelihood
    digits = et.data.digits().subset(train=n, test=10)
    x, y = np.asarray(digits.train_x, np.float64), np.asarray(digits.train_y)
    yield "digits, leave-one-out", et.InfiniteEnsembleClassifier(mlp), GRID, x, y, {}
    groups = {**GRID, "group": [None, "C4"], "nonlinearity": ["relu"], "W_std": [1.4]}
    yield "digits, groups, leave-one-out", et.InfiniteEnsembleClassifier(mlp), groups, x, y, {}


def main(full: bool = False) -> None:
    """Print test errors, their difference, and the ratio of costs."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    n, outer = (1000, 5) if full else (300, 3)
    print(f"{n} samples, {outer} outer folds; differences are tuned − searched, 95 % intervals over test samples")
    print(f"{'case':<34}{'error tuned':>12}{'searched':>10}{'difference':>12}{'interval':>22}{'tune / search':>15}")
    for name, model, grid, x, y, how in cases(n):
        found = compare(model, grid, x, y, outer, **how)
        mean, low, high = found.difference
        print(
            f"{name:<34}{found.tuned.mean():>12.4f}{found.searched.mean():>10.4f}{mean:>12.4f}"
            f"{f'{low:.4f} … {high:.4f}':>22}{found.ratio:>15.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
