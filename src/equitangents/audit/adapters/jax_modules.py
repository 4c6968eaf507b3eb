"""Modules of Flax (nnx, and linen with their variables) and of Equinox: in evaluation mode, with their layers."""

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
from equitangents.audit.adapters.folding import Folded
from equitangents.audit.adapters.footprints import Footprint, of_program
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, Traced, arguments
from equitangents.audit.contract.trees import dotted

_TRAINS = ("train", "training", "is_training")
_PREDICTS = ("deterministic", "use_running_average", "inference")
Note = tuple[str, str, Any, Any]
"""Name, kind, input and output of one layer."""


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

    def footprint(self, x: Tree) -> Footprint:
        """What the module holds for one input."""
        return of_program(self._apply, self._values, x)


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
        self._told = _mode(type(module).__call__)
        super().__init__(module, values)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """What every module without modules returns, in order of execution."""
        modules = [(path, m) for path, m in self._nnx.iter_modules(self._module) if path]
        inner = {path[:depth] for path, _ in modules for depth in range(len(path))}
        labels = {id(m): (dotted(path), type(m).__name__) for path, m in modules if path not in inner}
        return _traces(_noted(labels, modules, lambda x: _called(self._module, x, self._told), x, keep))

    def _apply(self, values: Tree, x: Tree) -> Tree:
        return _called(self._nnx.merge(self._graph, values), x, self._told)


@final
class LinenModel(JaxModel):
    """A pair (module, variables) of flax.linen."""

    kind = "flax"

    def __init__(self, module: Any, variables: Mapping[str, Any]):
        self._module, self._told = module, _mode(type(module).__call__)
        super().__init__(module, variables)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """What every module without modules returns, in order of execution."""
        from flax import linen

        seen: list[tuple[tuple[str, ...], str, Any, Any]] = []

        def note(following: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
            made = following(*args, **kwargs)
            arrays, read = ([a for a in jax.tree.leaves(v) if _is_real(a)] for v in (made, args))
            if context.method_name == "__call__" and context.module.path and arrays and read:
                kept = _folded(keep, read[0]), _folded(keep, arrays[0])
                seen.append((context.module.path, type(context.module).__name__, *kept))
            return made

        with linen.intercept_methods(note):
            self._apply(self._values, x)
        paths = [path for path, *_ in seen]
        inner = {path for path in paths if any(len(p) > len(path) and p[: len(path)] == path for p in paths)}
        return _traces([(dotted(path), *rest) for path, *rest in seen if path not in inner])

    def _apply(self, values: Tree, x: Tree) -> Tree:
        return self._module.apply(values, *arguments(x), **self._told)


@final
class EquinoxModel(JaxModel):
    """An Equinox module of one example, mapped over the batch, in inference mode; `(module, state)` if it has a state.

    Of a module that takes batches itself give a function, `lambda x: module(x)`.
    """

    kind = "equinox"
    streams = False

    def __init__(self, module: Any, state: Any = None):
        import equinox as eqx

        self._eqx, self._module, self._state = eqx, eqx.nn.inference_mode(module), state
        values, self._static = eqx.partition((self._module, state), eqx.is_array)
        super().__init__(module, values)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """What every module without modules returns, in order of execution."""
        base = self._eqx.Module
        named = [
            (dotted(path), m)
            for path, m in jax.tree_util.tree_flatten_with_path(
                self._module, is_leaf=lambda m: isinstance(m, base) and m is not self._module and not _has(m, base)
            )[0]
            if isinstance(m, base) and callable(m)
        ]
        labels = {id(m): (name, type(m).__name__) for name, m in named}
        kinds: list[tuple[str, str]] = []

        def one(x: Tree) -> Tree:
            notes = _noted(labels, named, lambda x: _one(self._module, self._state, x), x, None)
            kinds[:] = [(name, kind) for name, kind, _, _ in notes]
            return [(before, after) for _, _, before, after in notes]

        pairs = jax.vmap(one, axis_name="batch")(x)
        folded = [[_folded(keep, a) for a in pair] for pair in pairs]
        return _traces([(*kind, before, after) for kind, (before, after) in zip(kinds, folded, strict=True)])

    def _apply(self, values: Tree, x: Tree) -> Tree:
        module, state = self._eqx.combine(values, self._static)
        return jax.vmap(lambda x: _one(module, state, x), axis_name="batch")(x)


def _one(module: Any, state: Any, x: Tree) -> Tree:
    given = arguments(x)
    return module(*given) if state is None else module(*given, state)[0]


def _called(module: Any, x: Tree, told: dict[str, bool]) -> Tree:
    return module(*arguments(x), **told)


def _is_real(a: Any) -> bool:
    return hasattr(a, "dtype") and jax.numpy.issubdtype(a.dtype, jax.numpy.floating)


def _noted(
    labels: dict[int, tuple[str, str]], modules: Any, run: Callable[[Any], Any], x: Tree, keep: Keep | None
) -> list[Note]:
    """Inputs and outputs of the modules with labels, folded by `keep` if it is given, while `run(x)` calls them.

    Calls within a further transformation (a vmap inside a layer) are left out: their values belong to it.
    """
    notes: list[Note] = []
    level = _level(jax.tree.leaves(x)[0])
    with contextlib.ExitStack() as stack:
        for cls in {type(m) for _, m in modules if id(m) in labels}:
            stack.enter_context(_watched(cls, labels, notes, level, keep))
        run(x)
    return notes


@contextlib.contextmanager
def _watched(
    cls: Any, labels: dict[int, tuple[str, str]], notes: list[Note], level: Any, keep: Keep | None
) -> Iterator[None]:
    """Within it calls of the class's objects are noted."""
    own, original = "__call__" in vars(cls), cls.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        label = labels.get(id(self))
        arrays = [a for a in jax.tree.leaves(made) if _is_real(a)]
        read = [a for a in jax.tree.leaves(args) if _is_real(a)]
        if label is not None and arrays and read and _level(arrays[0]) is level and _level(read[0]) is level:
            before, after = (a if keep is None else _folded(keep, a) for a in (read[0], arrays[0]))
            notes.append((*label, before, after))
        return made

    before = vars(cls).get("__call__")
    type.__setattr__(cls, "__call__", call)
    try:
        yield
    finally:
        if own:
            type.__setattr__(cls, "__call__", before)
        else:
            type.__delattr__(cls, "__call__")


def _level(a: Any) -> Any:
    """Which transformation an array belongs to; None: to none."""
    return a._trace if isinstance(a, jax.core.Tracer) else None


def _folded(keep: Keep, a: Any) -> Folded | None:
    """What is kept of an array of features; None of others."""
    return keep(np.asarray(a)) if np.ndim(a) >= 2 else None


def _traces(notes: list[Note]) -> list[LayerTrace] | None:
    """Layers of features."""
    traced = Traced()
    for note in notes:
        traced.add(*note)
    return traced.layers or None


def _mode(function: Callable[..., Any]) -> dict[str, bool]:
    """The keywords that tell a module that it is not trained."""
    names = inspect.signature(function).parameters
    return {name: name in _PREDICTS for name in (*_TRAINS, *_PREDICTS) if name in names}


def _has(module: Any, base: type) -> bool:
    """Whether there are modules that can be called within an Equinox module."""
    return any(
        isinstance(m, base) and callable(m)
        for m in jax.tree.leaves(module, is_leaf=lambda m: isinstance(m, base) and m is not module)
    )
