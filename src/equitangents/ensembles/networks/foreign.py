"""What training and prediction ask of a network that this library did not make.

A member's variables are a dictionary: "params", which are trained, and other collections, which training carries along
(batch statistics).

    y = apply(variables, x)                 prediction: nothing random, statistics as they are
    y, carried = train(variables, x, key)   training: a whole batch, random numbers by `key`, statistics moved on

Pairs (init, apply) of functions, and objects that have the two as methods:

    init(key, input_shape[, dtype]) -> params                    apply(params, x) -> y
    init(key, input_shape[, dtype]) -> Variables(params, state)  apply(Variables, x, train=True) -> (y, state)

`apply` is given `train=` and `key=` where it has parameters of these names.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from equitangents import precision
from equitangents._aliases import FiniteNetwork
from equitangents._types import AnyModel, DType, InputShape, Params, Tree
from equitangents.errors import EquitangentsError, NetworkError

TRAINED = "params"
_IN_TRAINING = ("train", "training", "is_training")
_IN_PREDICTION = ("deterministic", "use_running_average", "inference")

_STATE = "state"


class Variables(NamedTuple):
    """What the `init` of a pair returns if its `apply` carries a state: parameters to be trained, and that state."""

    params: Params
    state: Params


class ForeignNetwork(ABC):
    """A network of another library; equal and of equal hash to another one of the same object."""

    @abstractmethod
    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """A member's variables; those of floating type are of `dtype`."""

    @abstractmethod
    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """Outputs in prediction, (N, outputs)."""

    @abstractmethod
    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """(outputs in training, the collections that are not trained, after this batch)."""

    @abstractmethod
    def member(self, variables: dict[str, Tree]) -> AnyModel:
        """A member by itself, as its library has it."""


def split(variables: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """(what is trained, the collections that are carried along)."""
    return variables[TRAINED], {name: value for name, value in variables.items() if name != TRAINED}


def joined(trained: Params, carried: dict[str, Tree]) -> dict[str, Tree]:
    """The variables of `split`."""
    return {TRAINED: trained, **carried}


def cast(tree: Tree, dtype: DType) -> Tree:
    """The tree with its floating arrays of type `dtype`."""
    floating = lambda a: jnp.issubdtype(jnp.asarray(a).dtype, jnp.floating)
    return jax.tree.map(lambda a: jnp.asarray(a, dtype) if floating(a) else jnp.asarray(a), tree)


def named(tree: Tree) -> dict[str, Any]:
    """The leaves of a tree by their paths: "layers.0.weight"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value"): leaf for path, leaf in leaves
    }


def rebuilt(like: Tree, arrays: dict[str, Tree]) -> Tree:
    """The tree of the shape of `like` whose leaves `named` took apart."""
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in named(like)])


def is_batchwise(net: FiniteNetwork, input_shape: InputShape, dtype: str) -> bool:
    """Whether a batch has to be given whole in training, and without rows that only fill it up.

    It does where `net` carries collections that are not trained, such as running means, or reads the random key, as
    with dropout. From its trace alone; raises NetworkError if it cannot take such inputs.
    """
    return isinstance(net, ForeignNetwork) and _is_batchwise(net, input_shape, dtype)


@lru_cache(maxsize=128)
def _is_batchwise(net: ForeignNetwork, input_shape: InputShape, dtype: str) -> bool:
    with precision.scope(dtype):
        key, x = jax.random.key(0), jax.ShapeDtypeStruct((2, *input_shape), dtype)
        variables = _tried(net, "cannot be initialised for", input_shape, lambda: _shapes(net, key, input_shape, dtype))
        program = _tried(net, "cannot be trained on", input_shape, lambda: jax.make_jaxpr(net.train)(variables, x, key))
        _tried(net, "cannot predict for", input_shape, lambda: jax.eval_shape(net.apply, variables, x))
    return bool(jax.tree.leaves(split(variables)[1])) or _reads(program.jaxpr, program.jaxpr.invars[-1])


def _shapes(net: ForeignNetwork, key: jax.Array, input_shape: InputShape, dtype: str) -> Tree:
    return jax.eval_shape(lambda key: net.init(key, input_shape, dtype), key)


def _tried(net: ForeignNetwork, what: str, input_shape: InputShape, trace: Callable[[], Tree]) -> Tree:
    try:
        return trace()
    except EquitangentsError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:400]
        raise NetworkError(
            "net",
            input_shape,
            f"inputs that {net!r} takes",
            f"{type(error).__name__}: {message}",
            verb=what + " inputs of shape",
        ) from error


def _reads(jaxpr: Any, variable: Any) -> bool:
    """Whether what the program returns depends on `variable`; an equation is taken to read all that it is given."""
    needed = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            needed.update(v for v in equation.invars if not hasattr(v, "val"))
    return variable in needed


def parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters, of a class those of its constructor; of one that cannot be read, none."""
    try:
        if isinstance(function, type):
            function = function.__init__  # type: ignore[misc]
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def mode(names: frozenset[str], *, training: bool) -> dict[str, bool]:
    """The keywords among `names` that tell a module whether it is trained."""
    keywords = {name: training for name in _IN_TRAINING if name in names}
    return keywords | {name: not training for name in _IN_PREDICTION if name in names}


def made(factory: Callable[..., Any], key: jax.Array) -> AnyModel:
    """What a factory makes: factory(rngs=nnx.Rngs(key)) if it has a parameter `rngs`, else factory(key)."""
    names = parameters(factory)
    if "rngs" in names:
        from flax import nnx

        return factory(rngs=nnx.Rngs(key))
    return factory(key=key) if "key" in names else factory(key)


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
        takes_dtype = _takes_dtype(self.initialise)
        drawn = self.initialise(key, input_shape, dtype) if takes_dtype else self.initialise(key, input_shape)
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


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
