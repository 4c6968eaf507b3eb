"""Networks of other libraries as members of ensembles: one adapter per library, imported only for its networks.

A member's variables are a dictionary: "params", which are trained, and other collections, which training updates
(batch statistics).

    y = apply(variables, x)                 prediction: deterministic, fixed statistics
    y, carried = train(variables, x, key)   training: a full batch, random numbers from `key`, updated statistics

Pairs (init, apply) of functions, and objects that have the two as methods:

    init(key, input_shape[, dtype]) -> params                    apply(params, x) -> y
    init(key, input_shape[, dtype]) -> Variables(params, state)  apply(Variables, x, train=True) -> (y, state)

A network gets the mode (training or prediction) by a parameter `train`, `training`, `is_training`, `deterministic`,
`use_running_average` or `inference` of `apply` or `__call__`, if it has one.
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
from equitangents._types import AnyModel, DType, InputShape, Network, Params, Tree
from equitangents.errors import EquitangentsError, InvalidTypeError, NetworkError
from equitangents.nn import Sequential
from equitangents.nn.layer import Layer

TRAINED, STATE = "params", "state"
_EXPECTED = (
    "a network with init and apply (equitangents.nn.Sequential), a pair (init, apply), a Flax linen module, "
    "or a function that makes a Flax nnx module (rngs -> module) or an Equinox module (key -> module)"
)
_LIBRARIES = ("flax.linen", "flax.nnx", "equinox", "torch")
_IN_TRAINING = ("train", "training", "is_training")
_IN_PREDICTION = ("deterministic", "use_running_average", "inference")
_KEYWORDS = frozenset({"train", "training", "is_training", "deterministic", "key"})
_OWN_STREAM = 2**31 - 1  # folded into the key of the step, for nnx modules whose __call__ takes rngs


class Variables(NamedTuple):
    """Return value of a pair's `init` if its `apply` carries a state: parameters to be trained, and that state."""

    params: Params
    state: Params


class ForeignNetwork(ABC):
    """A network of another library, compared and hashed by the wrapped object."""

    @abstractmethod
    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """A member's variables; floating-point ones have the type `dtype`."""

    @abstractmethod
    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """Outputs in prediction, (N, outputs)."""

    @abstractmethod
    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """(outputs in training mode, the collections that are not trained, updated by this batch)."""

    @abstractmethod
    def member(self, variables: dict[str, Tree]) -> AnyModel:
        """A single member as an object of its library."""


def as_network(net: Network) -> Any:
    """`net` in the form that ensembles train: itself, or a `ForeignNetwork` around it.

    Raises InvalidTypeError if it is no network. Imports only the library that `net` comes from.
    """
    if isinstance(net, Sequential | ForeignNetwork):
        return net
    library = _library(type(net))
    if library == "flax.linen":
        return LinenNetwork(net)
    if isinstance(net, type) and _library(net) == "flax.linen":
        raise InvalidTypeError("net", net, "a module", "make one of the class")
    if library in ("flax.nnx", "equinox"):
        name, parameter = type(net).__name__, "key" if library == "equinox" else "rngs"
        expected = "a function that makes one, as members need weights of their own"
        remedy = f"lambda {parameter}: {name}(..., {parameter}={parameter})"
        raise InvalidTypeError("net", name, expected, remedy, verb="is a module with weights, a")
    if library == "torch":
        expected, remedy = "a network that is no PyTorch module", "see equitangents.torch.Ensemble"
        raise InvalidTypeError("net", type(net), expected, remedy, verb="is of type")
    if not isinstance(net, type) and callable(getattr(net, "init", None)) and callable(getattr(net, "apply", None)):
        if isinstance(net, Layer):
            raise InvalidTypeError("net", net, _EXPECTED, "it is a layer by itself")
        return net if _hashable(net) and not _KEYWORDS & _parameters(net.apply) else PairNetwork(net.init, net.apply)
    if isinstance(net, tuple | list) and len(net) == 2 and all(map(callable, net)):
        return PairNetwork(*net)
    if callable(net):
        return _of_factory(net) if _hashable(net) else _of_factory.__wrapped__(net)
    raise InvalidTypeError("net", net, _EXPECTED)


def split(variables: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """(trained parameters, the other collections)."""
    return variables[TRAINED], {name: value for name, value in variables.items() if name != TRAINED}


@final
@dataclass(frozen=True)
class PairNetwork(ForeignNetwork):
    """A network defined by two functions."""

    initialise: Callable[..., Any]
    evaluate: Callable[..., Any]

    def __repr__(self) -> str:
        return f"the pair ({_name(self.initialise)}, {_name(self.evaluate)})"

    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """Variables drawn by the pair's first function."""
        dtype = jnp.dtype(dtype)
        try:
            inspect.signature(self.initialise).bind(None, (), None)
        except (TypeError, ValueError):  # it takes no dtype
            drawn = self.initialise(key, input_shape)
        else:
            drawn = self.initialise(key, input_shape, dtype)
        collections = drawn._asdict() if isinstance(drawn, Variables) else {TRAINED: drawn}
        return {name: _cast(values, dtype) for name, values in collections.items()}

    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """The pair's second function, in prediction."""
        y = self._evaluated(variables, x, None)
        return (y[0] if STATE in variables and isinstance(y, tuple) else y).astype(x.dtype)

    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """The pair's second function, in training."""
        y = self._evaluated(variables, x, key)
        if STATE not in variables:
            return y.astype(x.dtype), {}
        if not (isinstance(y, tuple) and len(y) == 2):
            raise NetworkError("apply", type(y), "(y, state), since init returned Variables", verb="gives a")
        return y[0].astype(x.dtype), {STATE: y[1]}

    def member(self, variables: dict[str, Tree]) -> AnyModel:
        """(apply, its first argument)."""
        return self.evaluate, self._first(variables)

    def _evaluated(self, variables: dict[str, Any], x: jax.Array, key: jax.Array | None) -> Tree:
        names = _parameters(self.evaluate)
        keywords: dict[str, Any] = dict(_mode(names, training=key is not None))
        return self.evaluate(self._first(variables), x, **keywords | ({"key": key} if "key" in names else {}))

    def _first(self, variables: dict[str, Any]) -> Tree:
        return Variables(**variables) if STATE in variables else variables[TRAINED]


@final
class LinenNetwork(ForeignNetwork):
    """A Flax linen module; its variables are those of `module.init`.

    Random numbers in training come from the step's key, as rngs={"dropout": key}; other streams use
    jax.random.fold_in(key, 1).
    """

    def __init__(self, module: AnyModel) -> None:
        self.module = module
        self._names = _parameters(type(module).__call__)

    def __repr__(self) -> str:
        return f"the Flax module {type(self.module).__name__}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinenNetwork) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """module.init(key, zeros), in prediction mode."""
        x = jnp.zeros((1, *input_shape), dtype)
        variables = _cast(dict(self.module.init(key, x, **_mode(self._names, training=False))), dtype)
        return {TRAINED: {}} | variables

    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """module.apply(variables, x), in prediction mode."""
        return self.module.apply(variables, x, **_mode(self._names, training=False)).astype(x.dtype)

    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """module.apply(variables, x), in training mode; all collections except the parameters may change."""
        _, carried = split(variables)
        rngs = {"dropout": key, "params": jax.random.fold_in(key, 1)}
        keywords = _mode(self._names, training=True)
        y, changed = self.module.apply(variables, x, **keywords, rngs=rngs, mutable=list(carried))
        return y.astype(x.dtype), {name: dict(changed).get(name, before) for name, before in carried.items()}

    def member(self, variables: dict[str, Tree]) -> AnyModel:
        """(module, variables), for module.apply."""
        return self.module, jax.tree.map(jnp.asarray, variables)

    @property
    def _identity(self) -> object:
        """The module, or its id if it has unhashable fields."""
        return self.module if _hashable(self.module) else id(self.module)


class Parts(NamedTuple):
    """A module split into trained arrays, carried arrays, random keys, and all other data, by name."""

    trained: Tree
    carried: Tree
    random: Tree
    static: dict[str, Any]


@dataclass(frozen=True)
class _FactoryNetwork(ForeignNetwork):
    """A function that makes modules, which are split into arrays and rebuilt for every call."""

    factory: Callable[..., Any]

    @staticmethod
    @abstractmethod
    def parts(model: AnyModel) -> Parts:
        """The factory's result, split."""

    @abstractmethod
    def _called(self, variables: dict[str, Any], x: jax.Array, key: jax.Array | None) -> tuple[jax.Array, AnyModel]:
        """(outputs, the module after the call); in training mode if there is a key."""

    def init(self, key: jax.Array, input_shape: InputShape, dtype: DType) -> dict[str, Any]:
        """The arrays and state of a new module."""
        parts = self.parts(_made(self.factory, key))
        state = _named(parts.carried)
        return _cast({TRAINED: _named(parts.trained)} | ({STATE: state} if state else {}), dtype)

    def apply(self, variables: dict[str, Any], x: jax.Array) -> jax.Array:
        """The module's outputs in prediction mode."""
        return self._called(variables, x, None)[0]

    def train(self, variables: dict[str, Any], x: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """(the module's outputs in training mode, its updated collections)."""
        y, model = self._called(variables, x, key)
        return y, {STATE: _named(self.parts(model).carried)} if STATE in variables else {}

    def _rebuilt(self, variables: dict[str, Any]) -> Parts:
        """The parts with these arrays."""
        shapes = _structure(self)
        trained = _filled(shapes.trained, variables[TRAINED])
        return shapes._replace(trained=trained, carried=_filled(shapes.carried, variables.get(STATE, {})))


@final
class NnxNetwork(_FactoryNetwork):
    """Flax nnx modules, factory(rngs=nnx.Rngs(key)), or factory(key) if it has no parameter `rngs`.

    Variables of type nnx.Param are trained; others (nnx.BatchStat) are updated in training. The keys of a module's
    dropout are redrawn at every training step, as by nnx.reseed(module, default=key of the step).
    """

    def __repr__(self) -> str:
        return f"the Flax nnx module of {_name(self.factory)}"

    @staticmethod
    def parts(model: AnyModel) -> Parts:
        """The module, split by nnx.split."""
        from flax import nnx

        split: Any = nnx.split(model, nnx.Param, nnx.RngState, ...)
        graph, trained, random, carried = split
        return Parts(trained, carried, random, {"graph": graph, "names": _parameters(type(model).__call__)})

    def member(self, variables: dict[str, Any]) -> AnyModel:
        """The module itself, after module.eval()."""
        module = self._merged(jax.tree.map(jnp.asarray, variables), jax.random.key(0))[0]
        module.eval()
        return module

    def _merged(self, variables: dict[str, Any], key: jax.Array) -> tuple[AnyModel, frozenset[str]]:
        from flax import nnx

        parts = self._rebuilt(variables)
        module = nnx.merge(parts.static["graph"], parts.trained, _streams(parts.random, key), parts.carried)
        return module, parts.static["names"]

    def _called(self, variables: dict[str, Any], x: jax.Array, key: jax.Array | None) -> tuple[jax.Array, AnyModel]:
        from flax import nnx

        training, key = key is not None, jax.random.key(0) if key is None else key
        module, names = self._merged(variables, key)
        (module.train if training else module.eval)()
        keywords: dict[str, Any] = dict(_mode(names, training=training))
        if "rngs" in names:
            keywords["rngs"] = nnx.Rngs(jax.random.fold_in(key, _OWN_STREAM))
        return module(x, **keywords).astype(x.dtype), module


@final
class EquinoxNetwork(_FactoryNetwork):
    """Equinox modules, factory(key) -> module, or factory(key) -> (module, state) with batch statistics.

    Equinox modules act on one example; they are mapped over a batch, with the axis name of their BatchNorm layers.
    Images, (*positions, channels) with two or more axes of positions, are passed channels first, as Equinox's
    convolutions read them. In training, a `key` parameter of __call__ gets one key per example,
    jax.random.split(key of the step, N); prediction uses equinox.nn.inference_mode.
    """

    def __repr__(self) -> str:
        return f"the Equinox module of {_name(self.factory)}"

    @staticmethod
    def parts(model: AnyModel) -> Parts:
        """The module, split: floating-point arrays are trained; other arrays and the state are carried."""
        import equinox as eqx

        module, state = model if isinstance(model, tuple) else (model, None)
        trained, rest = eqx.partition(module, eqx.is_inexact_array)
        arrays, static = eqx.partition(rest, eqx.is_array)
        is_norm = lambda node: isinstance(node, eqx.nn.BatchNorm)
        norms = filter(is_norm, jax.tree.leaves(module, is_leaf=is_norm))
        axes = list(dict.fromkeys(layer.axis_name for layer in norms)) or ["batch"]
        if len(axes) > 1 or not isinstance(axes[0], str):
            raise NetworkError("net", axes, "one name, that of the batch", verb="normalises over the axes")
        facts = {"names": _parameters(type(module).__call__), "stateful": state is not None, "axis": axes[0]}
        return Parts(trained, (arrays, state), None, {"module": static, **facts})

    def member(self, variables: dict[str, Any]) -> AnyModel:
        """The module in inference mode; (module, state) if it has a state."""
        import equinox as eqx

        model, state, static = self._merged(jax.tree.map(jnp.asarray, variables))
        model = eqx.nn.inference_mode(model)
        return (model, state) if static["stateful"] else model

    def _merged(self, variables: dict[str, Any]) -> tuple[Any, Tree, dict[str, Any]]:
        import equinox as eqx

        parts = self._rebuilt(variables)
        arrays, state = parts.carried
        return eqx.combine(parts.trained, arrays, parts.static["module"]), state, parts.static

    def _called(self, variables: dict[str, Any], x: jax.Array, key: jax.Array | None) -> tuple[jax.Array, AnyModel]:
        import equinox as eqx

        model, state, static = self._merged(variables)
        called = eqx.nn.inference_mode(model) if key is None else model
        dtype, keys = x.dtype, None
        x = jnp.moveaxis(x, -1, 1) if x.ndim > 3 else x
        if key is not None and "key" in static["names"]:
            keys = jax.random.split(key, len(x))

        def one(x: jax.Array, state: Tree, key: jax.Array | None) -> tuple[jax.Array, Tree]:
            keywords = {} if key is None else {"key": key}
            return called(x, state, **keywords) if static["stateful"] else (called(x, **keywords), state)

        axes, axis = (0, None, None if keys is None else 0), static["axis"]
        y, state = jax.vmap(one, in_axes=axes, out_axes=(0, None), axis_name=axis)(x, state, keys)
        return y.astype(dtype), (model, state)


@lru_cache(maxsize=128)
def _structure(net: _FactoryNetwork) -> Parts:
    """The parts with shapes in place of arrays, by a trace of the factory."""
    noted: list[dict[str, Any]] = []

    def trace(key: jax.Array) -> Parts:
        parts = net.parts(_made(net.factory, key))
        noted.append(parts.static)
        return parts._replace(static={})

    return jax.eval_shape(trace, jax.random.key(0))._replace(static=noted[0])


def _streams(random: Tree, key: jax.Array) -> AnyModel:
    """New keys and counters for an nnx module's random streams."""
    shapes, structure = jax.tree.flatten(random)
    keys = iter(range(len(shapes)))

    def stream(shape: Any) -> jax.Array:
        if not jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
            return jnp.zeros(shape.shape, shape.dtype)
        own = jax.random.fold_in(key, next(keys))
        return jax.random.split(own, shape.shape) if shape.shape else own

    return jax.tree.unflatten(structure, [stream(shape) for shape in shapes])


@lru_cache(maxsize=128)
def _of_factory(factory: Callable[..., Any]) -> ForeignNetwork:
    """The adapter for a factory, chosen by tracing the factory."""
    noted: list[Any] = []
    try:
        jax.eval_shape(lambda key: noted.append(_made(factory, key)), jax.random.key(0))
    except EquitangentsError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:300]
        failure = (
            f"it fails with {type(error).__name__}: {message}; it gets rngs, if a parameter has this name, or a key"
        )
        raise InvalidTypeError("net", _name(factory), _EXPECTED, failure, verb="is the function") from error
    model = noted[0]
    if _library(type(model)) == "flax.nnx":
        return NnxNetwork(factory)
    if _library(type(model[0] if isinstance(model, tuple) and len(model) == 2 else model)) == "equinox":
        return EquinoxNetwork(factory)
    made = f"it makes a {type(model).__name__}"
    raise InvalidTypeError("net", _name(factory), _EXPECTED, made, verb="is the function")


@lru_cache(maxsize=128)
def is_batchwise(net: ForeignNetwork, input_shape: InputShape, dtype: str) -> bool:
    """Whether training batches must be passed whole and without padding rows.

    True if `net` has collections that are not trained, such as running means, or uses the random key, as for dropout.
    Determined by a trace; raises NetworkError if the network cannot take such inputs.
    """

    def tried(what: str, trace: Callable[..., Tree], *arguments: Any) -> Tree:
        try:
            return trace(*arguments)
        except EquitangentsError:
            raise
        except Exception as error:
            message = " ".join(str(error).split())[:400]
            expected, reason = f"inputs that {net!r} takes", f"{type(error).__name__}: {message}"
            raise NetworkError("net", input_shape, expected, reason, verb=f"{what} inputs of shape") from error

    with precision.scope(dtype):
        key, x = jax.random.key(0), jax.ShapeDtypeStruct((2, *input_shape), dtype)
        init = lambda key: net.init(key, input_shape, dtype)
        variables = tried("cannot be initialised for", jax.eval_shape, init, key)
        program = tried("cannot be trained on", jax.make_jaxpr(net.train), variables, x, key).jaxpr
        tried("cannot predict for", jax.eval_shape, net.apply, variables, x)
    # whether outputs depend on the key: an equation is taken to read all that it is given
    needed = {v for v in program.outvars if not hasattr(v, "val")}
    for equation in reversed(program.eqns):
        if needed.intersection(equation.outvars):
            needed.update(v for v in equation.invars if not hasattr(v, "val"))
    return bool(jax.tree.leaves(split(variables)[1])) or program.invars[-1] in needed


def _made(factory: Callable[..., Any], key: jax.Array) -> AnyModel:
    """The factory's result: factory(rngs=nnx.Rngs(key)) if it has a parameter `rngs`, else factory(key)."""
    names = _parameters(factory)
    if "rngs" in names:
        from flax import nnx

        return factory(rngs=nnx.Rngs(key))
    return factory(key=key) if "key" in names else factory(key)


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Parameter names of a function, or of a class's constructor; empty if unknown."""
    try:
        if isinstance(function, type):
            function = function.__init__  # type: ignore[misc]
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _mode(names: frozenset[str], *, training: bool) -> dict[str, bool]:
    """The keywords among `names` that set a module's mode (training or prediction), with their values."""
    keywords = {name: training for name in _IN_TRAINING if name in names}
    return keywords | {name: not training for name in _IN_PREDICTION if name in names}


def _cast(tree: Tree, dtype: DType) -> Tree:
    """The tree with floating-point arrays cast to `dtype`."""
    floating = lambda a: jnp.issubdtype(jnp.asarray(a).dtype, jnp.floating)
    return jax.tree.map(lambda a: jnp.asarray(a, dtype) if floating(a) else jnp.asarray(a), tree)


def _named(tree: Tree) -> dict[str, Any]:
    """The leaves of a tree by their paths: "layers.0.weight"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")
    return {name(path): leaf for path, leaf in leaves}


def _filled(like: Tree, arrays: dict[str, Tree]) -> Tree:
    """The tree with the structure of `like` and the leaves from `_named`."""
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in _named(like)])


def _library(cls: type) -> str | None:
    """The library of a module class, determined by names only, without imports."""
    modules = (c.__module__ for c in cls.__mro__ if c.__name__ == "Module")
    return next((name for module in modules for name in _LIBRARIES if module.startswith(f"{name}.")), None)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
