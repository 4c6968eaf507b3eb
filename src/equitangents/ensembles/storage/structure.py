"""Objects of this package as JSON and arrays, and back; nothing is unpickled, and no code but this package's is named.

A value becomes a tree of JSON: None, numbers and text stand for themselves, everything else is {"is": kind, …}. Objects
are their class and their attributes; arrays are numbered, and kept elsewhere.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.errors import InvalidTypeError

_PACKAGE = "equitangents"


class Described:
    """What was made of a value: its `tree`, and the `arrays` that the tree counts.

    `given` names objects that are kept by name alone, and given again when the value is built. `beside`: another one
    whose arrays are counted, and shared.

    >>> described = Described({"a": (1, np.arange(3))})
    >>> described.tree
    {'is': 'dict', 'items': [['a', {'is': 'tuple', 'items': [1, {'is': 'array', 'number': 0}]}]]}
    >>> build(described.tree, described.arrays)
    {'a': (1, array([0, 1, 2]))}
    """

    def __init__(self, value: Any, given: Mapping[str, Any] | None = None, beside: Described | None = None) -> None:
        self.arrays: list[np.ndarray] = [] if beside is None else beside.arrays
        self._given = {id(thing): name for name, thing in (given or {}).items()}
        # by id; the things themselves are held, so that their ids stay theirs
        self._counted: dict[int, tuple[Any, int]] = {} if beside is None else beside._counted
        self._seen: dict[int, tuple[Any, int]] = {}
        self.tree = self._of(value, "")

    def _of(self, value: Any, where: str) -> Any:
        if id(value) in self._given and value is not None:
            return {"is": "given", "name": self._given[id(value)]}
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, jax.Array | np.ndarray):
            return {"is": "array", "number": self._array(value, where)}
        if type(value) in (list, tuple):
            items = [self._of(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return {"is": type(value).__name__, "items": items}
        if type(value) is dict:
            pairs = [[self._of(key, where), self._of(item, f"{where}[{key!r}]")] for key, item in value.items()]
            return {"is": "dict", "items": pairs}
        return self._plain(value) or self._object(value, where)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, np.dtype):
            return {"is": "dtype", "name": value.str}
        if isinstance(value, np.generic):
            return {"is": "number", "dtype": value.dtype.str, "value": value.item()}
        if isinstance(value, complex):
            return {"is": "complex", "parts": [value.real, value.imag]}
        if isinstance(value, slice):
            return {"is": "slice", "parts": [value.start, value.stop, value.step]}
        if isinstance(value, Path):
            return {"is": "path", "name": str(value)}
        if isinstance(value, type) and _is_ours(value):
            return {"is": "class", "name": _name(value)}
        return None

    def _array(self, array: Any, where: str) -> int:
        known = self._counted.get(id(array))
        if known is not None:
            return known[1]
        values = np.asarray(array)
        if values.dtype.hasobject:
            raise InvalidTypeError(f"{where.lstrip('.')} is an array of objects, which cannot be saved")
        self._counted[id(array)] = array, len(self.arrays)
        self.arrays.append(values)
        return len(self.arrays) - 1

    def _object(self, value: Any, where: str) -> Any:
        known = self._seen.get(id(value))
        if known is not None:
            return {"is": "same", "number": known[1]}
        if not _is_ours(type(value)) or not hasattr(value, "__dict__"):
            raise InvalidTypeError(
                f"{where.lstrip('.') or 'the value'} is {value!r}, which cannot be saved: it is not of this package"
            )
        number = len(self._seen)
        self._seen[id(value)] = value, number
        # what a class leaves out of its state (open files, compiled functions) it makes anew
        attributes = value.__getstate__() if hasattr(type(value), "__setstate__") else vars(value)
        state = [[name, self._of(item, f"{where}.{name}")] for name, item in attributes.items()]
        return {"is": "object", "number": number, "class": _name(type(value)), "state": state}


def build(tree: Any, arrays: Sequence[np.ndarray], given: Mapping[str, Any] | None = None) -> Any:
    """The value of which `Described` made `tree` and `arrays`; ValueError for what it cannot have made."""
    return _Builder(arrays, given or {}).of(tree)


class _Builder:
    def __init__(self, arrays: Sequence[np.ndarray], given: Mapping[str, Any]) -> None:
        self.arrays, self.given = arrays, given
        self.objects: dict[int, Any] = {}

    def of(self, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        kind = tree["is"]
        make = getattr(self, f"_{kind}", None)
        if make is None:
            raise ValueError(f"{kind!r} is not a known kind of value")
        return make(tree)

    def _given(self, tree: Any) -> Any:
        return self.given[tree["name"]]

    def _array(self, tree: Any) -> np.ndarray:
        return self.arrays[tree["number"]]

    def _list(self, tree: Any) -> list[Any]:
        return [self.of(item) for item in tree["items"]]

    def _tuple(self, tree: Any) -> tuple[Any, ...]:
        return tuple(self._list(tree))

    def _dict(self, tree: Any) -> dict[Any, Any]:
        return {self.of(key): self.of(item) for key, item in tree["items"]}

    def _dtype(self, tree: Any) -> np.dtype:
        return np.dtype(tree["name"])

    def _number(self, tree: Any) -> Any:
        return np.dtype(tree["dtype"]).type(tree["value"])

    def _complex(self, tree: Any) -> complex:
        return complex(*tree["parts"])

    def _slice(self, tree: Any) -> slice:
        return slice(*tree["parts"])

    def _path(self, tree: Any) -> Path:
        return Path(tree["name"])

    def _class(self, tree: Any) -> type:
        return _class_named(tree["name"])

    def _same(self, tree: Any) -> Any:
        return self.objects[tree["number"]]

    def _object(self, tree: Any) -> Any:
        made: Any = object.__new__(_class_named(tree["class"]))
        self.objects[tree["number"]] = made
        state = {name: self.of(item) for name, item in tree["state"]}
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            vars(made).update(state)
        return made


def _is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] == _PACKAGE and "<locals>" not in kind.__qualname__


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_named(name: str) -> type:
    module, _, path = name.partition(":")
    if module.split(".")[0] != _PACKAGE:
        raise ValueError(f"{name!r} is not a class of this package")
    found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    if not isinstance(found, type) or found.__module__ != module:
        raise ValueError(f"{name!r} is not a class of this package")
    return found
