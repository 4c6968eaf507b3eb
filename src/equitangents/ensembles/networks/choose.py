"""Which adapter a network needs, found without importing any library that it does not come from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax

from equitangents._types import AnyModel, Network
from equitangents.ensembles.networks.foreign import ForeignNetwork, PairNetwork, made, parameters
from equitangents.errors import EquitangentsError, InvalidTypeError
from equitangents.nn import Sequential
from equitangents.nn.layer import Layer

EXPECTED = (
    "expected a network with init and apply (equitangents.nn.Sequential), a pair (init, apply), a Flax linen module, "
    "or a function that makes a Flax nnx module (rngs -> module) or an Equinox module (key -> module)"
)
_KEYWORDS = frozenset({"train", "training", "is_training", "deterministic", "key"})


def as_network(net: Network) -> Any:
    """`net` as ensembles train it: itself, or the `ForeignNetwork` around it.

    Raises InvalidTypeError for what is no network.
    """
    if isinstance(net, Sequential | ForeignNetwork):
        return net
    if _is_a(net, "flax.linen.module", "Module"):
        from equitangents.ensembles.networks.linen import LinenNetwork

        return LinenNetwork(net)
    if isinstance(net, type) and _is_subclass(net, "flax.linen.module", "Module"):
        raise InvalidTypeError("net", net, "a module", "make one of the class")
    if _is_a(net, "flax.nnx.module", "Module"):
        raise InvalidTypeError(_drawn_already(net, "rngs", "rngs=rngs"))
    if _is_equinox(net):
        raise InvalidTypeError(_drawn_already(net, "key", "key=key"))
    if _is_a(net, "torch.nn.modules.module", "Module"):
        raise InvalidTypeError(
            "net",
            type(net),
            "a network that is no PyTorch module",
            "see equitangents.torch.Ensemble",
            verb="is of type",
        )
    if not isinstance(net, type) and callable(getattr(net, "init", None)) and callable(getattr(net, "apply", None)):
        if isinstance(net, Layer):
            raise InvalidTypeError(f"net is {net!r}, a layer by itself; {EXPECTED}")
        return net if _hashable(net) and not _KEYWORDS & parameters(net.apply) else PairNetwork(net.init, net.apply)
    if isinstance(net, tuple | list) and len(net) == 2 and all(map(callable, net)):
        return PairNetwork(*net)
    if callable(net):
        return _of_factory(net) if _hashable(net) else _of_factory.__wrapped__(net)
    raise InvalidTypeError(f"net is {net!r}; {EXPECTED}")


@lru_cache(maxsize=128)
def _of_factory(factory: Callable[..., Any]) -> ForeignNetwork:
    """The adapter for what a function makes, which is found out by a trace of it."""
    name = getattr(factory, "__qualname__", repr(factory))
    makes = _traced(factory, name)
    if _is_a(makes, "flax.nnx.module", "Module"):
        from equitangents.ensembles.networks.nnx import NnxNetwork

        return NnxNetwork(factory)
    module = makes[0] if isinstance(makes, tuple) and len(makes) == 2 else makes
    if _is_equinox(module):
        from equitangents.ensembles.networks.equinox import EquinoxNetwork

        return EquinoxNetwork(factory)
    raise InvalidTypeError(f"net is the function {name}, which makes a {type(makes).__name__}; {EXPECTED}")


def _traced(factory: Callable[..., AnyModel], name: str) -> AnyModel:
    """What the factory makes of a key without a value."""
    noted: list[Any] = []

    try:
        jax.eval_shape(lambda key: noted.append(made(factory, key)), jax.random.key(0))
    except EquitangentsError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:300]
        raise InvalidTypeError(
            f"net is the function {name}, which fails with {type(error).__name__}: {message}; it is given rngs if its "
            f"parameter is called so, and else a key; {EXPECTED}"
        ) from error
    return noted[0]


def _drawn_already(net: Network, parameter: str, keyword: str) -> str:
    name = type(net).__name__
    return (
        f"net is a module {name} whose weights are drawn already, and members need weights of their own; give the "
        f"function that makes it: lambda {parameter}: {name}(..., {keyword})"
    )


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_equinox(value: object) -> bool:
    library = sys.modules.get("equinox")
    return library is not None and isinstance(value, library.Module)


def _is_a(value: object, module: str, name: str) -> bool:
    """Whether `value` is an instance of a class that is known by name alone."""
    return _is_subclass(type(value), module, name)


def _is_subclass(cls: type, module: str, name: str) -> bool:
    return any(c.__module__ == module and c.__name__ == name for c in cls.__mro__)
