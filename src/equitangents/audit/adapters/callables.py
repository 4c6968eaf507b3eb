"""Functions of arrays, networks of this library with their parameters, estimators and ensembles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, final

import jax
import numpy as np
from scipy.special import softmax

from equitangents import precision
from equitangents._types import Params, Tree
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, arguments, chosen
from equitangents.audit.contract.trees import to_numpy
from equitangents.errors import InvalidTypeError
from equitangents.nn import Sequential


def in_double(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function evaluated by JAX in double precision, with NumPy outputs."""

    def wide(x: Tree) -> Tree:
        with precision.scope(np.float64):
            return jax.tree.map(np.asarray, run(x))

    return wide


@final
class CallableModel(Model):
    """A batched function; a tuple of inputs is given as several arguments."""

    kind = "callable"
    foreign = False
    streams = True

    def __init__(self, function: Callable[..., Any], layers: Sequence[Any] | None = None):
        self.function = function
        self.layers = None if layers is None else [_named(i, layer) for i, layer in enumerate(layers)]
        name = getattr(function, "__name__", type(function).__name__)
        self.name = "the function" if name == "<lambda>" else name

    def run(self, x: Tree) -> Tree:
        """What the function returns for x, or for its parts where x is a tuple."""
        return self.function(*arguments(x))

    def double(self) -> Callable[[Any], Any]:
        """The function evaluated by JAX in double precision."""
        return in_double(self.run)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """The functions of `layers`, applied in order."""
        if self.layers is None:
            return None
        traces = []
        for i, (name, layer) in enumerate(self.layers):
            before = keep(np.asarray(x)) if not isinstance(x, tuple | dict | list) else None
            x = layer(x) if i else layer(*arguments(x))
            traces.append(LayerTrace(name, type(layer).__name__, before, keep(np.asarray(jax.tree.leaves(x)[0]))))
        return traces


@final
class NetworkModel(Model):
    """A network of `equitangents.nn` with its parameters."""

    kind = "network"
    streams = True

    def __init__(self, net: Sequential, params: Params):
        self.net, self.params = net, params
        self.name = f"Sequential of {len(net.layers)} layers"

    def run(self, x: Tree) -> Tree:
        """What the network computes with its parameters."""
        return _applied(self.net, self.params, x)

    def double(self) -> Callable[[Any], Any]:
        """The network with its parameters in double precision."""
        wide = lambda a: np.asarray(a, np.float64)
        return in_double(lambda x: self.net.apply(jax.tree.map(wide, self.params), wide(x)))

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace]:
        """What every layer returns, from first to last."""
        traces = []
        signals = self.net.signals(np.shape(x)[1:])
        for i, (layer, p, signal) in enumerate(zip(self.net.layers, self.params, signals, strict=False)):
            before, x = x, layer.apply(p, jax.numpy.asarray(x), signal)
            kind = type(layer).__name__
            traces.append(LayerTrace(f"{i}: {kind}", kind, keep(np.asarray(before)), keep(np.asarray(x))))
        return traces


@partial(jax.jit, static_argnums=0)
def _applied(net: Sequential, params: Params, x: Tree) -> Tree:
    """Compiled once per network and shape, for all parameters."""
    return net.apply(params, x)


def _named(i: int, layer: Any) -> tuple[str, Callable[[Any], Any]]:
    if isinstance(layer, tuple):
        return str(layer[0]), layer[1]
    return f"{i}: {getattr(layer, '__name__', type(layer).__name__)}", layer


METHODS = ("predict_proba", "decision_function", "predict")
_MEANS = {f"{name}{of}" for name in ("RandomForest", "ExtraTrees", "Bagging") for of in ("Regressor", "Classifier")}
"""Estimators whose output is the mean over their members."""


class EstimatorModel(Model):
    """An estimator's scores: predict_proba, else decision_function, of classifiers; predict of regressors.

    Arrays of higher rank are flattened if that gives as many features as it was fitted to.
    """

    kind = "scikit-learn"

    def __init__(self, estimator: Any):
        self.estimator, self.name = estimator, type(estimator).__name__
        self.method = next(name for name in METHODS if hasattr(estimator, name))

    @property
    def classes(self) -> np.ndarray | None:
        """Labels of a classifier by column of its scores; None for values and several targets."""
        labels = getattr(self.estimator, "classes_", None)
        return None if self.method == "predict" or labels is None or isinstance(labels, list) else np.asarray(labels)

    def run(self, x: Tree) -> Tree:
        """Its scores or values."""
        return getattr(self.estimator, self.method)(self.flat(x))

    def flat(self, x: Tree) -> Tree:
        """The inputs in the shape that it was fitted to."""
        fitted = getattr(self.estimator, "sample_shape_", None) or (getattr(self.estimator, "n_features_in_", None),)
        return np.reshape(x, (len(x), -1)) if np.ndim(x) > 2 and fitted == (np.prod(np.shape(x)[1:]),) else x

    def members(self) -> list[Model] | None:
        """The trees of a forest or estimators of bagging, if f is the mean over them."""
        parts = getattr(self.estimator, "estimators_", None)
        if parts is None or self.name not in _MEANS:
            return None
        columns = getattr(self.estimator, "estimators_features_", None)
        members = list(np.ravel(np.asarray(parts, dtype=object)))
        if columns is not None and any(len(c) != self.estimator.n_features_in_ for c in columns):
            return None
        return [CallableModel(partial(self._of_member, member)) for member in members]

    def _of_member(self, member: Any, x: Tree) -> Tree:
        """A member's scores; 0 for classes that its samples lack, whose numbers are not in its `classes_`."""
        scores, present = getattr(member, self.method)(self.flat(x)), getattr(member, "classes_", None)
        if self.classes is None or present is None or len(present) == len(self.classes):
            return scores
        every = np.zeros((len(scores), len(self.classes)))
        every[:, np.asarray(present, int)] = scores
        return every


@final
class EnsembleModel(EstimatorModel):
    """A DeepEnsemble or InfiniteEnsemble, or one of their classifiers: the mean over members, or probabilities."""

    def __init__(self, ensemble: Any):
        super().__init__(ensemble)
        self.deep = hasattr(ensemble, "predict_members")
        self.kind = "deep ensemble" if self.deep else "infinite ensemble"

    def member_outputs(self, x: Tree) -> np.ndarray | None:
        """What f is the mean of over the members, (M, N, outputs); None if it is no mean."""
        outputs = self.estimator.predict_members(self.flat(x))
        if self.method != "predict_proba":
            return outputs
        return softmax(outputs, axis=-1) if self.estimator._loss == "cross_entropy" else None

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """The layers of the first member of a deep ensemble, if they are of this library."""
        if not self.deep or not isinstance(self.estimator.net, Sequential):
            return None
        first = jax.tree.map(lambda p: p[0], self.estimator.params_)
        return NetworkModel(self.estimator.net, first).trace(self.estimator._as_trained(x), keep)


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
        self.least_batch = max(m.least_batch for m in models)

    @property
    def classes(self) -> np.ndarray | None:
        """The members' classes, if all have the same."""
        labels = [m.classes for m in self._members]
        known = [c for c in labels if c is not None and np.array_equal(c, labels[0])]  # type: ignore[arg-type]
        return known[0] if len(known) == len(labels) else None

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

    def check_inputs(self, x: Tree, axes: Sequence[int] = ()) -> None:
        """The checks of all members."""
        for member in self._members:
            member.check_inputs(x, axes)

    def members(self) -> list[Model]:
        """The models whose mean this one is."""
        return self._members

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """The layers of the first member."""
        return self._members[0].trace(x, keep)


def _mean(outputs: Sequence[Tree]) -> Tree:
    """The mean of trees of arrays of any library, as NumPy arrays; raises InvalidTypeError for whole numbers."""

    def mean(*parts: Any) -> np.ndarray:
        stacked = np.stack([to_numpy(a) for a in parts])
        if stacked.dtype.kind in "iub":
            raise InvalidTypeError(
                "f(x)", stacked.dtype, "real numbers, which have a mean", "classes have none", verb="has dtype"
            )
        return stacked.mean(axis=0)

    return jax.tree.map(mean, *outputs)
