"""Estimators that follow scikit-learn, and this library's ensembles among them."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import jax
import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.callables import CallableModel, NetworkModel
from equitangents.audit.adapters.model import Keep, LayerTrace, Model
from equitangents.audit.adapters.outputs import chosen
from equitangents.audit.contract.layouts import Stated
from equitangents.audit.contract.trees import to_numpy
from equitangents.errors import InvalidArgumentError
from equitangents.nn import Sequential

METHODS = ("predict_proba", "decision_function", "predict")
_MEANS = {f"{name}{of}" for name in ("RandomForest", "ExtraTrees", "Bagging") for of in ("Regressor", "Classifier")}
"""Estimators whose output is the plain mean of their members'."""


class ScoresModel(Model):
    """What was fitted, by one of its methods; arrays of higher rank are flattened if that gives as many features."""

    def __init__(self, fitted: Any, method: str | None):
        self.fitted = fitted
        self.name = type(fitted).__name__
        self.method = method or choose_method(fitted)

    @property
    @abstractmethod
    def features(self) -> int | None:
        """How many numbers a flat input has; None: not known, or inputs are not flat."""

    @property
    def classes(self) -> np.ndarray | None:
        """What the classifier was fitted to, one label a column of its scores; None for values and several targets."""
        found = getattr(self.fitted, "classes_", None)
        return None if self.method == "predict" or found is None or isinstance(found, list) else np.asarray(found)

    def run(self, x: Tree) -> Tree:
        """The chosen method's output."""
        return getattr(self.fitted, self.method)(self.flat(x))

    def flat(self, x: Tree) -> Tree:
        """The inputs as it was fitted to them."""
        if np.ndim(x) > 2 and self.features == int(np.prod(np.shape(x)[1:])):
            return np.asarray(x).reshape(len(x), -1)
        return x


@final
class EstimatorModel(ScoresModel):
    """An estimator's scores: predict_proba, else decision_function, of classifiers; predict of regressors."""

    kind = "scikit-learn"

    def __init__(self, estimator: Any, method: str | None = None):
        super().__init__(estimator, method)
        self.estimator = estimator
        if not hasattr(estimator, self.method):
            raise InvalidArgumentError("method", self.method, "a method of the estimator")

    @property
    def features(self) -> int | None:
        """What the estimator says of itself."""
        return getattr(self.estimator, "n_features_in_", None)

    def members(self) -> list[Model] | None:
        """The trees of a forest, the estimators of a bagging or voting ensemble, where the mean of theirs is f."""
        parts = getattr(self.estimator, "estimators_", None)
        if parts is None or self.name not in _MEANS:
            return None
        columns = getattr(self.estimator, "estimators_features_", None)
        members = list(np.ravel(np.asarray(parts, dtype=object)))
        if columns is not None and any(len(c) != self.estimator.n_features_in_ for c in columns):
            return None
        return [CallableModel(lambda x, m=member: getattr(m, self.method)(self.flat(x))) for member in members]


@final
class EnsembleModel(ScoresModel):
    """A DeepEnsemble or InfiniteEnsemble, or one of their classifiers: the mean over members, or probabilities."""

    def __init__(self, ensemble: Any, method: str | None = None):
        super().__init__(ensemble, method)
        self.ensemble = ensemble
        self.deep = hasattr(ensemble, "predict_members")
        self.kind = "deep ensemble" if self.deep else "infinite ensemble"

    @property
    def features(self) -> int | None:
        """What the ensemble was fitted to, where inputs were flat."""
        fitted: tuple[int, ...] | None = getattr(self.ensemble, "sample_shape_", None)
        return fitted[0] if fitted is not None and len(fitted) == 1 else None

    def member_outputs(self, x: Tree) -> np.ndarray:
        """Outputs of all members, (M, N, outputs)."""
        return self.ensemble.predict_members(self.flat(x))

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """The layers of the first member of a deep ensemble, if they are of this library."""
        if not self.deep or not isinstance(self.ensemble.net, Sequential):
            return None
        first = jax.tree.map(lambda p: p[0], self.ensemble.params_)
        return NetworkModel(self.ensemble.net, first).trace(self.ensemble._as_trained(x), keep)


@final
class MembersModel(Model):
    """Several models of one kind, audited together with their mean."""

    kind = "members"

    def __init__(self, models: list[Model]):
        self._members = models
        self.name = f"mean of {len(models)} models"
        self.device = models[0].device
        self.states_layout = any(m.states_layout for m in models)
        self.foreign = any(m.foreign for m in models)
        self.fixed_batch = next((m.fixed_batch for m in models if m.fixed_batch is not None), None)

    @property
    def classes(self) -> np.ndarray | None:
        """The members' classes, if all have the same."""
        found = [m.classes for m in self._members]
        known = [c for c in found if c is not None and np.array_equal(c, found[0])]  # type: ignore[arg-type]
        return known[0] if len(known) == len(found) else None

    def run(self, x: Tree) -> Tree:
        """The mean of the members' outputs."""
        return _mean([m(x) for m in self._members])

    def double(self) -> Callable[[Any], Any] | None:
        """The mean of the members in double precision, if all can."""
        pairs = [(m, m.double()) for m in self._members]
        if any(run is None for _, run in pairs):
            return None
        return lambda x: _mean([chosen(run(x), m.select) for m, run in pairs if run is not None])

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Keep all members ready to run, until the block ends."""
        with contextlib.ExitStack() as stack:
            for member in self._members:
                stack.enter_context(member.ready())
            yield

    def stated_shapes(self, x: Tree, axes: Sequence[int] = ()) -> Stated:
        """The shapes of the first member that states any."""
        stated = (member.stated_shapes(x, axes) for member in self._members)
        return next((shapes for shapes in stated if shapes), super().stated_shapes(x, axes))

    def check_inputs(self, x: Tree, axes: Sequence[int] = ()) -> None:
        """What any member says."""
        for member in self._members:
            member.check_inputs(x, axes)

    def batch_along(self, x: Tree, axes: Sequence[int]) -> int | None:
        """The batch size of the first member that takes one alone."""
        return next((size for m in self._members if (size := m.batch_along(x, axes)) is not None), None)

    def members(self) -> list[Model]:
        """The models whose mean this one is."""
        return self._members

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """The layers of the first."""
        return self._members[0].trace(x, keep)


def _mean(outputs: Sequence[Tree]) -> Tree:
    """The mean of trees of arrays of any library, as NumPy arrays."""
    return jax.tree.map(lambda *parts: np.mean(np.stack([to_numpy(a) for a in parts]), axis=0), *outputs)


def choose_method(estimator: Any) -> str:
    """Which method gives scores that can be compared: probabilities, decision values, or predicted numbers."""
    for method in METHODS:
        if hasattr(estimator, method):
            return method
    raise InvalidArgumentError("f", type(estimator), "one with a method " + " or ".join(METHODS), verb="is")
