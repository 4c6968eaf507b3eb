"""Whether a value is of the type that `kinds` states for an attribute, without importing anything."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.ensembles.storage.kinds import DYNAMICS, PACKAGE, UNIONS, name_of

Check = Callable[[Any, Collection[int]], bool]
"""Whether a value fits, given the ids of those that are given to `load` anew."""


@functools.cache
def check_of(words: str) -> Check:
    """The check of a type in the words of `kinds`.

    >>> check_of("none|(int)")((1, 2), ()), check_of("none|(int)")((1, "2"), ())
    (True, False)
    """
    parts = _parts(words)
    if len(parts) > 1:
        checks = [check_of(part) for part in parts]
        return lambda value, given: any(check(value, given) for check in checks)
    if words in UNIONS:
        return check_of(UNIONS[words])
    if words[0] == "(":
        inside = check_of(words[1:-1])
        return lambda value, given: type(value) in (tuple, list) and all(inside(item, given) for item in value)
    if words[0] == "{":
        inside = check_of(words[1:-1])
        return lambda value, given: (
            type(value) is dict
            and all(_is_text(key) or _is_real(key) for key in value)
            and all(inside(item, given) for item in value.values())
        )
    if words in _PLAIN:
        plain = _PLAIN[words]
        return lambda value, given: plain(value)
    if words == "given":
        return lambda value, given: id(value) in given
    return lambda value, given: any(_is_called(base, words) for base in type(value).__mro__)


def _parts(words: str) -> list[str]:
    """The alternatives, split where no bracket is open."""
    parts, depth = [""], 0
    for letter in words:
        depth += (letter in "({") - (letter in ")}")
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _is_called(cls: type, words: str) -> bool:
    if cls.__module__.split(".")[0] != PACKAGE:
        return False
    return name_of(cls) == f"{PACKAGE}.{words}" if ":" in words else cls.__name__ == words


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    scalar = _is_array("iuf")(value) and np.ndim(value) == 0
    return _is_int(value) or isinstance(value, float | np.floating) or scalar


def _is_array(kinds: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, np.ndarray | jax.Array) and np.dtype(value.dtype).kind in kinds


def _is_tree(value: Any) -> bool:
    """Arrays of numbers in lists, tuples and dictionaries."""
    if type(value) is dict:
        return all(_is_text(key) or _is_int(key) for key in value) and all(map(_is_tree, value.values()))
    if type(value) in (list, tuple):
        return all(map(_is_tree, value))
    return value is None or _is_array("biuf")(value)


def _is_label(value: Any) -> bool:
    """A number, a word, or a tuple of labels."""
    if type(value) is tuple:
        return all(map(_is_label, value))
    return _is_int(value) or _is_text(value)


_PLAIN: dict[str, Callable[[Any], bool]] = {
    "none": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool | np.bool_),
    "int": _is_int,
    "real": _is_real,
    "text": _is_text,
    "path": lambda value: isinstance(value, str | Path),
    "dtype": lambda value: isinstance(value, np.dtype),
    "class": lambda value: isinstance(value, type) and name_of(value) in DYNAMICS,
    "label": _is_label,
    "tree": _is_tree,
    "any": lambda value: True,
    "floats": _is_array("f"),
    "ints": _is_array("iu"),
    "numbers": _is_array("biufc"),
    "array": _is_array("biufcUS"),
}
