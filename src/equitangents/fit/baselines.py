"""What people would take, on the same folds: majority, nearest neighbours, a random forest, a support vector machine.

Images become features: pixels averaged down to at most 16 of a side, colours, edges and their directions (`features`).
What a fold's rest has to be asked about is asked there: neighbours, the depth of trees, C and γ by three folds of it.
With a group all copies of the rest are trained on, up to 4,000 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float, Int
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from equitangents._types import AnyAction
from equitangents.fit.features import features_of
from equitangents.fit.left_out import calibrated
from equitangents.fit.problem import Part, Problem, folds_of

_TREES, _COPIES, _INNER = 300, 4_000, 3
_NEIGHBOURS, _DEPTHS, _C, _GAMMA = (1, 3, 5, 9, 15), (None, 6), (1.0, 10.0, 100.0), (0.3, 1.0, 3.0)


NAMES = ("majority", "neighbours", "forest", "SVM")


def baselines(
    x: Float[np.ndarray, "n ..."], problem: Problem, action: AnyAction, seed: int
) -> Iterator[tuple[str, Float[np.ndarray, "n classes"]]]:
    """Names and probabilities (n, K) of every sample, by a model fitted without its fold."""
    copies = x[None] if action is None else np.asarray(action.orbit(x))
    upright = len(copies) * max(len(rest.rows) for rest, _ in problem.split()) > _COPIES
    if upright:
        copies = x[None]
    features = np.stack([features_of(each) for each in copies])
    identity = 0 if len(copies) == 1 else int(action.group.identity)
    told = ", upright" if upright else ""
    for name, fit in zip(NAMES, (_majority, _neighbours, _forest, _machine), strict=True):
        found = np.full((len(x), len(problem.classes)), np.nan)
        for rest, inside in problem.split():
            data = _Rest.of(features, identity, rest, problem, seed)
            found[inside] = fit(data, data.scaler.transform(features[identity][inside]))
        yield name + (told if name != "majority" else ""), found


@dataclass(frozen=True, eq=False)
class _Rest:
    """The rest of a fold: features of its samples and of all copies, standardised, labels, and inner folds."""

    upright: np.ndarray
    copies: np.ndarray
    labels: Int[np.ndarray, " m"]
    every: np.ndarray  # labels of copies
    folds: tuple[Int[np.ndarray, " b"], ...]
    classes: int
    seed: int
    scaler: StandardScaler

    @classmethod
    def of(cls, features: np.ndarray, identity: int, rest: Part, problem: Problem, seed: int) -> _Rest:
        labels, K = problem.labels[rest.rows], len(problem.classes)
        scaler = StandardScaler().fit(features[identity][rest.rows])
        each = [scaler.transform(of_element[rest.rows]) for of_element in features]
        inner = folds_of(labels, rest.sets, K, seed, _INNER)
        folds = tuple(np.concatenate([rest.sets[i] for i in fold]) for fold in inner)
        return cls(each[identity], np.concatenate(each), labels, np.tile(labels, len(each)), folds, K, seed, scaler)

    def held_out(self, scores: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """scores(features, labels, other features) of every upright sample without its inner fold, (m, K)."""
        found = np.full((len(self.labels), self.classes), np.nan)
        for fold in self.folds:
            kept = np.delete(np.arange(len(self.labels)), fold)
            found[fold] = scores(self.upright[kept], self.labels[kept], self.upright[fold])
        return found

    def wide(self, values: np.ndarray, known: np.ndarray, missing: float) -> np.ndarray:
        """Columns of the classes `known` among all; the others hold `missing`."""
        found = np.full((len(values), self.classes), missing)
        found[:, known] = values
        return found


def _majority(rest: _Rest, x: np.ndarray) -> np.ndarray:
    counts = np.bincount(rest.labels, minlength=rest.classes) + 1.0
    return np.tile(counts / counts.sum(), (len(x), 1))


def _neighbours(rest: _Rest, x: np.ndarray) -> np.ndarray:
    def of(count: int) -> Callable[..., np.ndarray]:
        def scores(z: np.ndarray, labels: np.ndarray, others: np.ndarray) -> np.ndarray:
            model = KNeighborsClassifier(count).fit(z, labels)
            return _smoothed(rest.wide(model.predict_proba(others), model.classes_, 0.0), count)

        return scores

    allowed = [k for k in _NEIGHBOURS if k <= len(rest.labels) - max(map(len, rest.folds))]
    best = max(allowed, key=lambda k: (rest.held_out(of(k)).argmax(axis=1) == rest.labels).mean())
    return of(best)(rest.copies, rest.every, x)


def _forest(rest: _Rest, x: np.ndarray) -> np.ndarray:
    def of(depth: int | None, trees: int) -> Callable[..., np.ndarray]:
        def scores(z: np.ndarray, labels: np.ndarray, others: np.ndarray) -> np.ndarray:
            model = RandomForestClassifier(trees, max_depth=depth, random_state=rest.seed).fit(z, labels)
            return _smoothed(rest.wide(model.predict_proba(others), model.classes_, 0.0), trees)

        return scores

    best = max(_DEPTHS, key=lambda d: (rest.held_out(of(d, _TREES // 5)).argmax(axis=1) == rest.labels).mean())
    return of(best, _TREES)(rest.copies, rest.every, x)


def _machine(rest: _Rest, x: np.ndarray) -> np.ndarray:
    """With one score a class; probabilities are their softmax with the β of the inner folds."""

    def of(C: float, gamma: float) -> Callable[..., np.ndarray]:
        def scores(z: np.ndarray, labels: np.ndarray, others: np.ndarray) -> np.ndarray:
            if len(np.unique(labels)) < 2:
                return rest.wide(np.zeros((len(others), 1)), labels[:1], -1.0)
            model: Any = SVC(C=C, gamma=gamma / z.shape[1], class_weight="balanced").fit(z, labels)
            values = model.decision_function(others)
            values = np.stack([-values, values], axis=1) if values.ndim == 1 else values
            return rest.wide(values, model.classes_, float(values.min(initial=0.0)) - 1.0)

        return scores

    pairs = [(C, gamma) for C in _C for gamma in _GAMMA]
    held = [rest.held_out(of(*pair)) for pair in pairs]
    best = max(range(len(pairs)), key=lambda i: (held[i].argmax(axis=1) == rest.labels).mean())
    beta = float(calibrated(held[best][None], rest.labels)[0])
    return np.asarray(scipy.special.softmax(beta * of(*pairs[best])(rest.copies, rest.every, x), axis=1))


def _smoothed(shares: np.ndarray, votes: int) -> np.ndarray:
    """Shares of so many votes with one more, which all classes share."""
    return (shares * votes + 1 / shares.shape[1]) / (votes + 1)
