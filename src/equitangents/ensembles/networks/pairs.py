"""Pairs (init, apply) of functions, and objects that have the two as methods.

init(key, input_shape[, dtype]) -> params                    apply(params, x) -> y
init(key, input_shape[, dtype]) -> Variables(params, state)  apply(Variables, x, train=True) -> (y, state)
init(key, (N, *input_shape)) -> (output shape, params)       as jax.example_libraries.stax has them

`apply` is given `train=` and `key=` where it has parameters of these names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp

from equitangents._types import AnyModel, DType, InputShape, Tree
from equitangents.ensembles.networks.foreign import ForeignNetwork, Variables, cast, mode, parameters
from equitangents.errors import NetworkError

_STATE = "state"


@final
@dataclass(frozen=True)
class PairNetwork(ForeignNetwork):
    """A network that is two functions."""

    initialise: Callable[..., Any]
    evaluate: Callable[..., Any]

    def __repr__(self) -> str:
        return f"the pair ({_name(self.initialise)}, {_name(self.evaluate)})"

    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """What the pair's first function draws."""
        dtype = jnp.dtype(dtype)
        drawn = self._drawn(key, input_shape, dtype)
        if isinstance(drawn, Variables):
            return {"params": cast(drawn.params, dtype), _STATE: cast(drawn.state, dtype)}
        return {"params": cast(drawn, dtype)}

    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """The pair's second function, in prediction."""
        y = self._evaluated(variables, x, None)
        return (y[0] if _STATE in variables and isinstance(y, tuple) else y).astype(x.dtype)

    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """The pair's second function, in training."""
        y = self._evaluated(variables, x, key)
        if _STATE not in variables:
            return y.astype(x.dtype), {}
        if not (isinstance(y, tuple) and len(y) == 2):
            raise NetworkError("apply", type(y), "(y, state), since init returned Variables", verb="gives a")
        return y[0].astype(x.dtype), {_STATE: y[1]}

    def member(self, variables: dict[str, Tree]) -> AnyModel:
        """(apply, its first argument)."""
        return self.evaluate, self._given(variables)

    def _drawn(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> Tree:
        if _takes_dtype(self.initialise):
            return self.initialise(key, input_shape, dtype)
        try:
            drawn = self.initialise(key, input_shape)
        except Exception:
            if not _is_stax(drawn := self.initialise(key, (1, *input_shape))):
                raise
        if _is_stax(drawn):
            drawn = self.initialise(key, (1, *input_shape))[1]
        return drawn

    def _evaluated(self, variables: dict[str, Any], x: jax.Array, key: jax.Array | None) -> Tree:
        names = parameters(self.evaluate)
        keywords: dict[str, Any] = {name: value for name, value in mode(names, training=key is not None).items()}
        if "key" in names:
            keywords["key"] = key
        return self.evaluate(self._given(variables), x, **keywords)

    def _given(self, variables: dict[str, Any]) -> Tree:
        params = variables["params"]
        return Variables(params, variables[_STATE]) if _STATE in variables else params


def _takes_dtype(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, (), None)
    except (TypeError, ValueError):
        return False
    return True


def _is_stax(drawn: object) -> bool:
    """Whether `drawn` is (shape of the output, parameters)."""
    return (
        isinstance(drawn, tuple)
        and len(drawn) == 2
        and not isinstance(drawn, Variables)
        and isinstance(drawn[0], tuple)
        and bool(drawn[0])
        and all(hasattr(n, "__index__") for n in drawn[0])
    )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
