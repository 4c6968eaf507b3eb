"""Baselines on the same folds: majority, nearest neighbours, a random forest, a support vector machine.

Features of images (`candidates`) are pixels averaged down to at most 16 per side, colours, edges and their directions.
The number of neighbours, the depth of trees, C and γ are chosen by three inner folds of each training part. With a
group all transformed copies are trained on, up to 4,000 rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from equitangents._types import AnyAction
from equitangents.fit.assessing import Folds, Subset, folds_of
from equitangents.fit.candidates import features_of
from equitangents.inference.probabilities import inverse_temperatures

_TREES, _MAX_ROWS, _INNER_FOLDS = 300, 4_000, 3
_NEIGHBOURS, _DEPTHS, _C, _GAMMA = (1, 3, 5, 9, 15), (None, 6), (1.0, 10.0, 100.0), (0.3, 1.0, 3.0)
NAMES = ("majority", "neighbours", "forest", "SVM")


def fit_baselines(
    x: Float[np.ndarray, "n ..."], problem: Folds, action: AnyAction, seed: int
) -> Iterator[tuple[str, Float[np.ndarray, "n classes"]]]:
    """Yield names and probabilities (n, K), those of a sample by a model fitted without its fold."""
    order = 1 if action is None else action.group.order
    upright = order * max(len(rest.rows) for rest, _ in problem.split()) > _MAX_ROWS
    copies = x[None] if upright or action is None else np.asarray(action.orbit(x))
    features = np.stack([features_of(each) for each in copies])
    identity = 0 if len(copies) == 1 else int(action.group.identity)
    for name, fit in zip(NAMES, (_majority, _neighbours, _forest, _machine), strict=True):
        parts = ((_Training(features, identity, rest, problem, seed), rows) for rest, rows in problem.split())
        found = problem.merge(fit(part, part.scaler.transform(features[identity][rows])) for part, rows in parts)
        yield f"{name}, upright" if upright and name != "majority" else name, found


class _Training:
    """Training part of a fold: standardised features of the upright samples and of all copies, labels, inner folds."""

    def __init__(self, features: np.ndarray, identity: int, rest: Subset, problem: Folds, seed: int) -> None:
        self.labels, self.classes, self.seed = problem.labels[rest.rows], len(problem.classes), seed
        self.scaler = StandardScaler().fit(features[identity][rest.rows])
        each = [self.scaler.transform(of_element[rest.rows]) for of_element in features]
        self.upright = each[identity]
        self.copies = np.concatenate(each), np.tile(self.labels, len(each))
        fold_of = np.empty(len(self.labels), int)
        for f, fold in enumerate(folds_of(self.labels, rest.sets, self.classes, seed, _INNER_FOLDS)):
            fold_of[np.concatenate([rest.sets[i] for i in fold])] = f
        self.inner = PredefinedSplit(fold_of)

    def best(self, models: Sequence[Any]) -> Any:
        """The model of the highest accuracy on upright samples, in the inner folds."""
        found = [cross_val_predict(model, self.upright, self.labels, cv=self.inner) for model in models]
        return models[int(np.argmax([(each == self.labels).mean() for each in found]))]

    def vote_shares(self, model: Any, votes: int, x: np.ndarray) -> np.ndarray:
        """Shares of the votes of a model fitted to all copies, smoothed by one vote spread over all classes."""
        model = model.fit(*self.copies)
        shares = self.all_classes(model.predict_proba(x), model.classes_, 0.0)
        return (shares * votes + 1 / self.classes) / (votes + 1)

    def all_classes(self, values: np.ndarray, present: np.ndarray, missing: float) -> np.ndarray:
        """Columns of all classes; those of classes that are not present hold `missing`."""
        columns = np.full((len(values), self.classes), missing)
        columns[:, present] = values
        return columns


def _majority(part: _Training, x: np.ndarray) -> np.ndarray:
    counts = np.bincount(part.labels, minlength=part.classes) + 1.0
    return np.tile(counts / counts.sum(), (len(x), 1))


def _neighbours(part: _Training, x: np.ndarray) -> np.ndarray:
    fewest = min(len(rows) for rows, _ in part.inner.split())
    best = part.best([KNeighborsClassifier(k) for k in _NEIGHBOURS if k <= fewest])
    return part.vote_shares(best, best.n_neighbors, x)


def _forest(part: _Training, x: np.ndarray) -> np.ndarray:
    models = [RandomForestClassifier(_TREES // 5, max_depth=depth, random_state=part.seed) for depth in _DEPTHS]
    return part.vote_shares(part.best(models).set_params(n_estimators=_TREES), _TREES, x)


def _machine(part: _Training, x: np.ndarray) -> np.ndarray:
    """Softmax of β times one score per class, β fitted on the inner folds, which may lack all classes but one."""

    def scores(C: float, gamma: float, z: np.ndarray, labels: np.ndarray, others: np.ndarray) -> np.ndarray:
        if len(np.unique(labels)) < 2:
            return part.all_classes(np.zeros((len(others), 1)), labels[:1], -1.0)
        model: Any = SVC(C=C, gamma=gamma / z.shape[1], class_weight="balanced").fit(z, labels)
        values = model.decision_function(others)
        values = np.stack([-values, values], axis=1) if values.ndim == 1 else values
        return part.all_classes(values, model.classes_, float(values.min(initial=0.0)) - 1.0)

    pairs, z, labels = [(C, gamma) for C in _C for gamma in _GAMMA], part.upright, part.labels
    held = np.empty((len(pairs), len(labels), part.classes))
    for rows, fold in part.inner.split():
        held[:, fold] = [scores(*pair, z[rows], labels[rows], z[fold]) for pair in pairs]
    best = int(np.argmax((held.argmax(axis=2) == labels).mean(axis=1)))
    beta = float(inverse_temperatures(held[best][None], labels)[0])
    return np.asarray(scipy.special.softmax(beta * scores(*pairs[best], *part.copies, x), axis=1))
