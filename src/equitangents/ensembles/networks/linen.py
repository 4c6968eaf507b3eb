"""Flax linen modules: module.init(key, x), module.apply(variables, x, train=…, rngs=…, mutable=[…]).

`__call__` learns whether it is trained from a parameter `train`, `training`, `is_training`, `deterministic` or
`use_running_average`. Random numbers of training come from the key of the step, as rngs={"dropout": key}; streams of
other names from jax.random.fold_in(key, 1).
"""

from __future__ import annotations

from typing import Any, final

import jax
import jax.numpy as jnp

from equitangents._types import AnyModel, DType, InputShape, Tree
from equitangents.ensembles.networks.foreign import ForeignNetwork, cast, mode, parameters


@final
class LinenNetwork(ForeignNetwork):
    """A linen module; its variables are those of `module.init`."""

    def __init__(self, module: AnyModel) -> None:
        self.module = module
        self._names = parameters(type(module).__call__)

    def __repr__(self) -> str:
        return f"the Flax module {type(self.module).__name__}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinenNetwork) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """module.init(key, zeros), in prediction."""
        x = jnp.zeros((1, *input_shape), dtype)
        variables = cast(dict(self.module.init(key, x, **mode(self._names, training=False))), dtype)
        return {"params": {}} | variables

    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """module.apply(variables, x), in prediction."""
        return self.module.apply(variables, x, **mode(self._names, training=False)).astype(x.dtype)

    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """module.apply(variables, x), in training, where all collections but the parameters may change."""
        carried = [name for name in variables if name != "params"]
        rngs = {"dropout": key, "params": jax.random.fold_in(key, 1)}
        keywords = mode(self._names, training=True)
        y, changed = self.module.apply(variables, x, **keywords, rngs=rngs, mutable=carried)
        return y.astype(x.dtype), {name: dict(changed).get(name, variables[name]) for name in carried}

    def member(self, variables: dict[str, Tree]) -> AnyModel:
        """(module, variables), for module.apply."""
        return self.module, jax.tree.map(jnp.asarray, variables)

    @property
    def _identity(self) -> object:
        """The module, or which one it is if it has entries that cannot be hashed."""
        try:
            hash(self.module)
        except TypeError:
            return id(self.module)
        return self.module
