"""What people would take, on the same folds: majority, nearest neighbours, a random forest, a support vector machine.

Images become features (`candidates`): pixels averaged down to at most 16 of a side, colours, edges and directions.
What a fold's rest has to be asked about is asked there: neighbours, the depth of trees, C and γ by three folds of it.
With a group all copies of the rest are trained on, up to 4,000 rows.
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
from equitangents.fit.assessing import Problem, SampleRows, calibrated, folds_of
from equitangents.fit.candidates import features_of

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
        rests = ((_Rest(features, identity, rest, problem, seed), inside) for rest, inside in problem.split())
        found = problem.together(fit(rest, rest.scaler.transform(features[identity][i])) for rest, i in rests)
        yield name + (told if name != "majority" else ""), found


class _Rest:
    """The rest of a fold: standardised features of its upright samples and of all copies, with labels, inner folds."""

    def __init__(self, features: np.ndarray, identity: int, rest: SampleRows, problem: Problem, seed: int) -> None:
        self.labels, self.classes, self.seed = problem.labels[rest.rows], len(problem.classes), seed
        self.scaler = StandardScaler().fit(features[identity][rest.rows])
        each = [self.scaler.transform(of_element[rest.rows]) for of_element in features]
        self.upright = each[identity]
        self.copies = np.concatenate(each), np.tile(self.labels, len(each))
        fold_of = np.empty(len(self.labels), int)
        for f, fold in enumerate(folds_of(self.labels, rest.sets, self.classes, seed, _INNER)):
            fold_of[np.concatenate([rest.sets[i] for i in fold])] = f
        self.inner = PredefinedSplit(fold_of)

    def best(self, models: Sequence[Any]) -> Any:
        """The model that is right most often on upright samples without their inner fold."""
        found = [cross_val_predict(model, self.upright, self.labels, cv=self.inner) for model in models]
        return models[int(np.argmax([(each == self.labels).mean() for each in found]))]

    def shares(self, model: Any, votes: int, x: np.ndarray) -> np.ndarray:
        """Shares of so many votes of a model of all copies, with one more, which all classes share."""
        model = model.fit(*self.copies)
        found = self.wide(model.predict_proba(x), model.classes_, 0.0)
        return (found * votes + 1 / self.classes) / (votes + 1)

    def wide(self, values: np.ndarray, known: np.ndarray, missing: float) -> np.ndarray:
        """Columns of the classes `known` among all; the others hold `missing`."""
        found = np.full((len(values), self.classes), missing)
        found[:, known] = values
        return found


def _majority(rest: _Rest, x: np.ndarray) -> np.ndarray:
    counts = np.bincount(rest.labels, minlength=rest.classes) + 1.0
    return np.tile(counts / counts.sum(), (len(x), 1))


def _neighbours(rest: _Rest, x: np.ndarray) -> np.ndarray:
    fewest = min(len(kept) for kept, _ in rest.inner.split())
    best = rest.best([KNeighborsClassifier(k) for k in _NEIGHBOURS if k <= fewest])
    return rest.shares(best, best.n_neighbors, x)


def _forest(rest: _Rest, x: np.ndarray) -> np.ndarray:
    models = [RandomForestClassifier(_TREES // 5, max_depth=depth, random_state=rest.seed) for depth in _DEPTHS]
    return rest.shares(rest.best(models).set_params(n_estimators=_TREES), _TREES, x)


def _machine(rest: _Rest, x: np.ndarray) -> np.ndarray:
    """With one score a class; probabilities are their softmax with the β of the inner folds."""

    def scores(C: float, gamma: float, z: np.ndarray, labels: np.ndarray, others: np.ndarray) -> np.ndarray:
        if len(np.unique(labels)) < 2:
            return rest.wide(np.zeros((len(others), 1)), labels[:1], -1.0)
        model: Any = SVC(C=C, gamma=gamma / z.shape[1], class_weight="balanced").fit(z, labels)
        values = model.decision_function(others)
        values = np.stack([-values, values], axis=1) if values.ndim == 1 else values
        return rest.wide(values, model.classes_, float(values.min(initial=0.0)) - 1.0)

    pairs, z, labels = [(C, gamma) for C in _C for gamma in _GAMMA], rest.upright, rest.labels
    held = np.empty((len(pairs), len(labels), rest.classes))
    for kept, fold in rest.inner.split():
        held[:, fold] = [scores(*pair, z[kept], labels[kept], z[fold]) for pair in pairs]
    best = int(np.argmax((held.argmax(axis=2) == labels).mean(axis=1)))
    beta = float(calibrated(held[best][None], labels)[0])
    return np.asarray(scipy.special.softmax(beta * scores(*pairs[best], *rest.copies, x), axis=1))
