"""How far probabilities are from how often they are right: three data sets, 300 training images, pixels × 1, 16, 255.

    python -m benchmarks.bench_calibration digits=DIGITS.npz fashion=FASHION.npz tissue=TISSUE.npz

Archives hold train_x (N, H, W) or (N, H, W, C) of bytes and train_y; without `digits` scikit-learn's are taken.
Training and test images are drawn from one set: calibration speaks of images like those of training, and not of other
slides.
The calibration error is Σ_b (n_b/n) |share right − mean confidence| over 15 bins of equal width of the confidence in
the predicted class.
"""

from __future__ import annotations

import functools
import logging
import math
import operator
import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import equitangents as et

UNITS = (1, 16, 255)
TRAINED, ASKED, BINS, DRAWS = 300, 5000, 15, 5


def calibration_error(probabilities: np.ndarray, index: np.ndarray) -> float:
    """Of probabilities (n, K) of classes with true indices (n,)."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == index
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    parts = [abs((right[place == b] - confidence[place == b]).sum()) for b in range(BINS)]
    return float(np.sum(parts)) / len(index)


def data(path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Images, pixels in [0, 1], and labels."""
    if path is None:
        x, y = load_digits(return_X_y=True)
        return x.reshape(-1, 8, 8, 1) / 16, y
    with np.load(path) as archive:
        return prepared(archive["train_x"][: TRAINED + 2 * ASKED]), archive["train_y"][: TRAINED + 2 * ASKED]


def prepared(x: np.ndarray) -> np.ndarray:
    """Channels last, in [0, 1], 64 × 64 tiles as means over 4 × 4 pixels."""
    x = (x if x.ndim == 4 else x[..., None]) / 255
    if x.shape[1] < 64:
        return x
    n, h, w, c = x.shape
    return x.reshape(n, h // 4, 4, w // 4, 4, c).mean(axis=(2, 4))


def network() -> et.nn.Sequential:
    """The command line's `mlp` of depth 2."""
    layers = [[et.nn.Dense(512, W_std=math.sqrt(2), b_std=0.1), et.nn.Relu()] for _ in range(2)]
    return et.nn.Sequential(et.nn.Flatten(), *functools.reduce(operator.iadd, layers, []), et.nn.Dense(10))


def main(named: list[str]) -> None:
    """Print one row for each data set, unit and way."""
    logging.getLogger("equitangents").setLevel(logging.ERROR)
    sets = dict(word.split("=", 1) for word in named)
    ways: dict[str, dict[str, Any]] = {
        "as it is": {},
        "standardise": {"standardise": True},
        "calibrate": {"calibrate": True},
        "both": {"standardise": True, "calibrate": True},
    }
    print(f"{'data':>8} {'pixels ×':>8} {'way':>12} {'accuracy':>9} {'confidence':>10} {'error':>6} {'worst':>6}")
    for name in {"digits": None} | sets:
        x, y = data(sets.get(name))
        for unit in UNITS:
            for way, settings in ways.items():
                rows = np.array([row(unit * x, y, seed, settings) for seed in range(DRAWS)])
                accuracy, confidence, error = rows.mean(axis=0)
                worst = rows[:, 2].max()
                print(
                    f"{name:>8} {unit:>8} {way:>12} {accuracy:>9.3f} {confidence:>10.3f} {error:>6.3f} {worst:>6.3f}",
                    flush=True,
                )


def row(x: np.ndarray, y: np.ndarray, seed: int, settings: dict[str, Any]) -> tuple[float, float, float]:
    """(accuracy, mean confidence, calibration error) of one draw of training images."""
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:TRAINED], order[TRAINED : TRAINED + ASKED]
    model = et.InfiniteEnsembleClassifier(network(), ridge=1e-3, **settings).fit(x[train], y[train])
    p = model.predict_proba(x[test])
    index = np.searchsorted(model.classes_, y[test])
    return float((p.argmax(axis=1) == index).mean()), float(p.max(axis=1).mean()), calibration_error(p, index)


if __name__ == "__main__":
    main(sys.argv[1:])
