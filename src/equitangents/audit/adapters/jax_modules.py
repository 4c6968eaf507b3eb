"""Modules of Flax (nnx, and linen with their variables) and Equinox, in evaluation mode."""

from __future__ import annotations

import contextlib
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import jax
import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.callables import in_double
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, Traced, arguments
from equitangents.audit.contract.trees import dotted

_TRAINS = ("train", "training", "is_training")
_PREDICTS = ("deterministic", "use_running_average", "inference")


class JaxModel(Model):
    """A module as a function of its values and a batch, `_apply(values, x)`, compiled once."""

    streams = True

    def __init__(self, module: Any, values: Tree):
        self.name, self._values = type(module).__name__, values
        self._jitted = jax.jit(self._apply)

    @abstractmethod
    def _apply(self, values: Tree, x: Tree) -> Tree:
        """What the module returns for the batch."""

    def run(self, x: Tree) -> Tree:
        """What the module returns for the batch."""
        return self._jitted(self._values, x)

    def double(self) -> Callable[[Tree], Tree]:
        """The module with its real values in double precision."""
        wide = lambda a: np.asarray(a, np.float64) if _is_real(a) else a
        return in_double(lambda x: jax.jit(self._apply)(jax.tree.map(wide, self._values), x))


@final
class NnxModel(JaxModel):
    """A module of flax.nnx, a copy of it after `module.eval()`; a tuple of inputs goes in as several arguments."""

    kind = "flax"

    def __init__(self, module: Any):
        from flax import nnx

        self._nnx = nnx
        graph, state = nnx.split(module)
        self._module = nnx.merge(graph, state)  # a copy: the module that was given stays in its mode
        self._module.eval()
        self._graph, values = nnx.split(self._module)
        self._keywords = _mode(type(module).__call__)
        super().__init__(module, values)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """What every module without modules returns, in order of execution."""
        modules = [(path, m) for path, m in self._nnx.iter_modules(self._module) if path]
        inner = {path[:depth] for path, _ in modules for depth in range(len(path))}
        leaves = [(path, m) for path, m in modules if path not in inner]
        labels, traced = {id(m): (dotted(path), type(m).__name__) for path, m in leaves}, Traced(keep)

        def call(original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
            read = traced.kept(args) if id(module) in labels else None
            made = original(module, *args, **kwargs)
            if id(module) in labels:
                traced.add(*labels[id(module)], read, made)
            return made

        with contextlib.ExitStack() as stack:
            for cls in {type(m) for _, m in leaves}:
                stack.enter_context(_patched(cls, call))
            _called(self._module, x, self._keywords)
        return traced.layers or None

    def _apply(self, values: Tree, x: Tree) -> Tree:
        return _called(self._nnx.merge(self._graph, values), x, self._keywords)


@final
class LinenModel(JaxModel):
    """A pair (module, variables) of flax.linen."""

    kind = "flax"

    def __init__(self, module: Any, variables: Mapping[str, Any]):
        self._module, self._keywords = module, _mode(type(module).__call__)
        super().__init__(module, variables)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """What every module without modules returns, in order of execution."""
        from flax import linen

        traced = Traced(keep)
        seen: list[tuple[tuple[str, ...], str, Any, Any]] = []

        def note(following: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
            made, module = following(*args, **kwargs), context.module
            if context.method_name == "__call__" and module.path:
                seen.append((module.path, type(module).__name__, traced.kept(args), made))
            return made

        with linen.intercept_methods(note):
            self._apply(self._values, x)
        inner = {path[:depth] for path, *_ in seen for depth in range(len(path))}
        for path, *rest in seen:
            if path not in inner:
                traced.add(dotted(path), *rest)
        return traced.layers or None

    def _apply(self, values: Tree, x: Tree) -> Tree:
        return self._module.apply(values, *arguments(x), **self._keywords)


@final
class EquinoxModel(JaxModel):
    """An Equinox module of one example, mapped over the batch, in inference mode; `(module, state)` if it has a state.

    Of a module that takes batches itself give a function, `lambda x: module(x)`.
    """

    kind = "equinox"

    def __init__(self, module: Any, state: Any = None):
        import equinox as eqx

        self._combine = eqx.combine
        values, self._static = eqx.partition((eqx.nn.inference_mode(module), state), eqx.is_array)
        super().__init__(module, values)

    def _apply(self, values: Tree, x: Tree) -> Tree:
        module, state = self._combine(values, self._static)
        return jax.vmap(lambda x: _one(module, state, x), axis_name="batch")(x)


def _one(module: Any, state: Any, x: Tree) -> Tree:
    given = arguments(x)
    return module(*given) if state is None else module(*given, state)[0]


def _called(module: Any, x: Tree, keywords: dict[str, bool]) -> Tree:
    return module(*arguments(x), **keywords)


def _is_real(a: Any) -> bool:
    return hasattr(a, "dtype") and jax.numpy.issubdtype(a.dtype, jax.numpy.floating)


@contextlib.contextmanager
def _patched(cls: type, around: Callable[..., Any]) -> Iterator[None]:
    """Within it calls of the class's instances are `around(original, …)`."""
    own, original = vars(cls).get("__call__"), cls.__call__
    cls.__call__ = lambda *args, **kwargs: around(original, *args, **kwargs)  # type: ignore[method-assign]
    try:
        yield
    finally:
        if own is not None:
            cls.__call__ = own  # type: ignore[method-assign]
        else:
            del cls.__call__


def _mode(function: Callable[..., Any]) -> dict[str, bool]:
    """The keywords that tell a module that it is not trained."""
    names = inspect.signature(function).parameters
    return {name: name in _PREDICTS for name in (*_TRAINS, *_PREDICTS) if name in names}
