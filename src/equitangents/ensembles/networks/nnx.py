"""Flax nnx modules, given as a function rngs -> module: `lambda rngs: Model(32, rngs=rngs)`, or a class Model(rngs).

A member is factory(rngs=nnx.Rngs(key)), or factory(key) if it has no parameter `rngs`. It is taken apart by nnx.split:
variables of type nnx.Param are trained, others (nnx.BatchStat) carried along. The keys that a module
holds for its dropout are drawn anew at every step of training, as nnx.reseed(module, default=key of the step) does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import jax
import jax.numpy as jnp
from flax import nnx

from equitangents._types import AnyModel, DType, InputShape, Tree
from equitangents.ensembles.networks.foreign import ForeignNetwork, cast, made, mode, named, parameters, rebuilt

_OWN_STREAM = 2**31 - 1  # folded into the key of the step, for modules whose __call__ takes rngs


@dataclass(frozen=True)
class _Structure:
    """What a module is apart from its arrays, whose shapes stand in their places."""

    graph: Tree
    trained: Tree
    carried: Tree
    random: Tree
    names: frozenset[str]


@final
@dataclass(frozen=True)
class NnxNetwork(ForeignNetwork):
    """What makes nnx modules."""

    factory: Callable[..., Any]

    def __repr__(self) -> str:
        return f"the Flax nnx module of {getattr(self.factory, '__qualname__', self.factory)}"

    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """The arrays of a new module."""
        _, trained, _, carried = _parts(made(self.factory, key))
        collections = {"params": named(trained), "state": named(carried)}
        return cast({name: arrays for name, arrays in collections.items() if arrays or name == "params"}, dtype)

    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """The module in prediction, after module.eval()."""
        return self._called(self._merged(variables, jax.random.key(0)), x, jax.random.key(0), training=False)

    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """The module in training, after module.train(), and its variables afterwards that are no parameters."""
        module = self._merged(variables, key)
        y = self._called(module, x, key, training=True)
        carried = named(_parts(module)[3])
        return y, {"state": carried} if "state" in variables else {}

    def member(self, variables: dict[str, Any]) -> AnyModel:
        """The module itself, after module.eval()."""
        module = self._merged(jax.tree.map(jnp.asarray, variables), jax.random.key(0))
        module.eval()
        return module

    def _merged(self, variables: dict[str, Any], key: jax.Array) -> AnyModel:
        s = _structure(self)
        trained, carried = rebuilt(s.trained, variables["params"]), rebuilt(s.carried, variables.get("state", {}))
        return nnx.merge(s.graph, trained, _streams(s.random, key), carried)

    def _called(self, module: AnyModel, x: jax.Array, key: jax.Array, *, training: bool) -> jax.Array:
        (module.train if training else module.eval)()
        names = _structure(self).names
        keywords: dict[str, Any] = dict(mode(names, training=training))
        if "rngs" in names:
            keywords["rngs"] = nnx.Rngs(jax.random.fold_in(key, _OWN_STREAM))
        return module(x, **keywords).astype(x.dtype)


@lru_cache(maxsize=128)
def _structure(net: NnxNetwork) -> _Structure:
    noted: dict[str, Any] = {}

    def trace(key: jax.Array) -> AnyModel:
        module = made(net.factory, key)
        graph, trained, random, carried = _parts(module)
        noted.update(graph=graph, names=parameters(type(module).__call__))
        return trained, random, carried

    trained, random, carried = jax.eval_shape(trace, jax.random.key(0))
    return _Structure(noted["graph"], trained, carried, random, noted["names"])


def _parts(module: AnyModel) -> tuple[Tree, Tree, Tree, Tree]:
    """(graph, parameters, random keys and counters, all other variables)."""
    apart: Any = nnx.split(module, nnx.Param, nnx.RngState, ...)
    graph, trained, random, carried = apart
    return graph, trained, random, carried


def _streams(random: Tree, key: jax.Array) -> AnyModel:
    """The keys and counters that a module holds, drawn anew."""
    is_key = lambda shape: jnp.issubdtype(shape.dtype, jax.dtypes.prng_key)
    shapes, structure = jax.tree.flatten(random)
    keys = iter(range(len(shapes)))

    def stream(shape: Any) -> jax.Array:
        if not is_key(shape):
            return jnp.zeros(shape.shape, shape.dtype)
        own = jax.random.fold_in(key, next(keys))
        return jax.random.split(own, shape.shape) if shape.shape else own

    return jax.tree.unflatten(structure, [stream(shape) for shape in shapes])
