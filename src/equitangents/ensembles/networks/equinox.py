"""Equinox modules, given as a function key -> module, or key -> (module, state) with batch statistics.

Equinox writes the network of one example; it is mapped over a batch, the axis named as its BatchNorm layers name it.
Images, (*positions, channels) with two or more axes of positions, come in channels first, as Equinox's convolutions
read them. A `key` parameter of __call__ gets one key an example, jax.random.split(key of the step, N), in training;
prediction is in equinox.nn.inference_mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from equitangents._types import AnyModel, DType, InputShape, Tree
from equitangents.ensembles.networks.foreign import ForeignNetwork, cast, made, named, parameters, rebuilt
from equitangents.errors import NetworkError


@dataclass(frozen=True)
class _Structure:
    """What a module is apart from its arrays, whose shapes stand in their places; `axis`: the name of the batch."""

    trained: Tree
    carried: Tree
    static: Tree
    stateful: bool
    axis: str
    names: frozenset[str]


@final
@dataclass(frozen=True)
class EquinoxNetwork(ForeignNetwork):
    """What makes Equinox modules."""

    factory: Callable[..., Any]

    def __repr__(self) -> str:
        return f"the Equinox module of {getattr(self.factory, '__qualname__', self.factory)}"

    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """The arrays of a new module, and its state."""
        trained, carried, _ = _parts(made(self.factory, key))
        collections = {"params": named(trained), "state": named(carried)}
        return cast({name: arrays for name, arrays in collections.items() if arrays or name == "params"}, dtype)

    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """The module in inference mode."""
        model, state = self._merged(variables)
        return self._mapped(eqx.nn.inference_mode(model), state, x, None)[0]

    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """The module as it was made, and its state afterwards."""
        model, state = self._merged(variables)
        y, state = self._mapped(model, state, x, key)
        if "state" not in variables:
            return y, {}
        carried = _parts((model, state))[1]
        return y, {"state": named(carried)}

    def member(self, variables: dict[str, Any]) -> AnyModel:
        """The module in inference mode; (module, state) if it has a state."""
        model, state = self._merged(jax.tree.map(jnp.asarray, variables))
        model = eqx.nn.inference_mode(model)
        return (model, state) if _structure(self).stateful else model

    def _merged(self, variables: dict[str, Any]) -> tuple[Any, Any]:
        s = _structure(self)
        arrays, state = rebuilt(s.carried, variables.get("state", {}))
        return eqx.combine(rebuilt(s.trained, variables["params"]), arrays, s.static), state

    def _mapped(self, model: AnyModel, state: Tree, x: jax.Array, key: jax.Array | None) -> tuple[jax.Array, Tree]:
        s = _structure(self)
        dtype = x.dtype
        x = jnp.moveaxis(x, -1, 1) if x.ndim > 3 else x
        keys = None if key is None or "key" not in s.names else jax.random.split(key, len(x))

        def one(x: jax.Array, state: Tree, key: jax.Array | None) -> tuple[jax.Array, Tree]:
            keywords = {} if key is None else {"key": key}
            return model(x, state, **keywords) if s.stateful else (model(x, **keywords), state)

        over_keys = None if keys is None else 0
        y, state = jax.vmap(one, in_axes=(0, None, over_keys), out_axes=(0, None), axis_name=s.axis)(x, state, keys)
        return y.astype(dtype), state


@lru_cache(maxsize=128)
def _structure(net: EquinoxNetwork) -> _Structure:
    noted: dict[str, Any] = {}

    def trace(key: jax.Array) -> AnyModel:
        model = made(net.factory, key)
        module = model[0] if isinstance(model, tuple) else model
        trained, carried, static = _parts(model)
        norms = jax.tree.leaves(module, is_leaf=_is_batch_norm)
        noted.update(static=static, stateful=isinstance(model, tuple), names=parameters(type(module).__call__))
        noted["axes"] = list(dict.fromkeys(layer.axis_name for layer in norms if _is_batch_norm(layer)))
        return trained, carried

    trained, carried = jax.eval_shape(trace, jax.random.key(0))
    axes = noted["axes"] or ["batch"]
    if len(axes) > 1 or not isinstance(axes[0], str):
        raise NetworkError("net", axes, "one name, that of the batch", verb="normalises over the axes")
    return _Structure(trained, carried, noted["static"], noted["stateful"], axes[0], noted["names"])


def _parts(whole: AnyModel) -> tuple[Tree, Tree, Tree]:
    """(arrays that are trained, (other arrays, the state), everything else)."""
    model, state = whole if isinstance(whole, tuple) else (whole, None)
    trained, rest = eqx.partition(model, eqx.is_inexact_array)
    arrays, static = eqx.partition(rest, eqx.is_array)
    return trained, (arrays, state), static


def _is_batch_norm(node: object) -> bool:
    return isinstance(node, eqx.nn.BatchNorm)
