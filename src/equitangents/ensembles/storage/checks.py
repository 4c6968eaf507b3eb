"""Whether a file can hold what was saved: values of the types that `kinds` states, whose arrays fit each other.

A file may hold each array whole, and together nonsense. What predictions multiply and index is compared here by its
shape, so that a model that was put together wrongly is refused when it is loaded. Whether its numbers are good nobody
can tell from the file. Nothing is imported for it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.ensembles.storage.kinds import DYNAMICS, PACKAGE, UNIONS, name_of
from equitangents.kernels.random_features import FeatureMap
from equitangents.kernels.random_features.features import VERSION

Fits = Callable[[Any], Any]


def is_of(words: str, value: Any, given: Collection[int] = ()) -> bool:
    """Whether a value is of a type in the words of `kinds`; `given` are the ids of what is given to `load` anew.

    >>> is_of("none|(int)", (1, 2)), is_of("none|(int)", (1, "2"))
    (True, False)
    """
    parts = _parts(words)
    if len(parts) > 1:
        return any(is_of(part, value, given) for part in parts)
    if words in UNIONS:
        return is_of(UNIONS[words], value, given)
    if words[0] == "(":
        return type(value) in (tuple, list) and all(is_of(words[1:-1], item, given) for item in value)
    if words[0] == "{":
        keys = type(value) is dict and all(_is_text(key) or _is_real(key) for key in value)
        return keys and all(is_of(words[1:-1], item, given) for item in value.values())
    if words in _PLAIN:
        return _PLAIN[words](value)
    return id(value) in given if words == "given" else any(_is_called(base, words) for base in type(value).__mro__)


@functools.cache
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
    return name_of(cls) == words if "." in words else cls.__name__ == words


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_int(value: object) -> bool:
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


def _is_label(value: object) -> bool:
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


def _spectrum(s: Any) -> bool:
    return bool(s.eigenvalues.ndim == 1 and s.vectors.ndim == 2 and s.vectors.shape[1] == len(s.eigenvalues))


def _process(p: Any) -> bool:
    kept, rows = len(p.spectrum.eigenvalues), len(p.spectrum.vectors)
    return (
        p.targets.shape[:1] == (kept,) and p.targets.ndim == 2 and _is(p.scale, (rows,)) and _is(p.prior, (rows, rows))
    )


def _training(t: Any) -> bool:
    return bool(len(t.rows) == t.labels.shape[-2] and t.labels.ndim in (2, 3))


def _problem(p: Any) -> bool:
    rows, samples = len(p.process.spectrum.vectors), (len(p.row),)
    fits = p.row.ndim == 1 and _indices(p.row, rows) and _is(p.weight, samples) and _is(p.trace, samples)
    return bool(len(p.inputs) == rows and fits)


def _table_group(g: Any) -> bool:
    table = g._table
    square = table.shape == (g.order, g.order) and g.order > 0 and 0 <= g.identity < g.order
    return bool(square and _indices(table, g.order) and (np.sort(table, axis=1) == np.arange(g.order)).all())


def _representation(i: Any) -> bool:
    return bool(i.matrices.ndim == 3 and i.matrices.shape[1] == i.matrices.shape[2] > 0)


def _orbits(o: Any) -> bool:
    n = len(o.orbit)
    return bool(
        o.orbit.shape == o.element.shape == (n,)
        and o.first.ndim == 1
        and _indices(o.first, n)
        and _indices(o.orbit, len(o.first))
        and _indices(o.element, o.group.order)
        and all(_indices(np.array([key]), len(o.first)) and value.ndim == 1 for key, value in o.stabilisers.items())
    )


def _indices(array: np.ndarray, count: int) -> bool:
    return array.size == 0 or bool(array.min() >= 0 and array.max() < count)


def _is(array: Any, shape: tuple[int, ...]) -> bool:
    return array is None or array.shape == shape


def _ensemble(e: Any) -> bool:
    x, y = e._data
    whole = x.shape[1:] == tuple(e.sample_shape_) and len(x) in y.shape[:2] and len(x) > 0  # |G| may come first
    return bool(whole) and _units(e)


def _units(e: Any) -> bool:
    units = e.standardisation_
    return units is None or _is(units.scale, tuple(e.sample_shape_[-1:]))


FITS: dict[str, Fits] = {
    "actions.ImageTurns": lambda a: a.turns > 0,
    "actions.ResampledRotations": lambda a: a.turns > 0 and a.group.order in (a.turns, 2 * a.turns),
    "actions.Permutations": lambda a: a.table.ndim == 2 and len(a.table) == a.group.order,
    "actions.ActionSubset": lambda a: len(a.elements) == len(a.weights) > 0,
    "actions.LastAxisPermutation": lambda a: a.table.ndim == 2 and len(a.table) == a.group.order,
    "actions.LinearAction": lambda a: _is(a._matrices, (a.group.order, *a._matrices.shape[-1:] * 2)),
    "ensembles.FieldPoints": lambda p: p.image.shape == p.position.shape
    and _indices(p.image, len(p.signals)) and _indices(p.position, p.count),
    "ensembles.InfiniteEnsembleClassifier": lambda e: _ensemble(e) and e.classes_.ndim == 1
    and e.ensemble_.n_outputs_ == len(e.classes_) > 1 and (e.temperature_ is None or e.temperature_ > 0),
    "ensembles.IrrepProblem": lambda p: len(p.irreps) >= len(p.blocks) > 0
    and p.self_kernels.ndim == 1,
    "ensembles.MeansAtATime": lambda m: m.coefficients.ndim == 2
    and len(m.coefficients) == (m.kernel.features if isinstance(m.kernel, FeatureMap) else len(m.inputs)) > 0,
    "ensembles.Problem": _problem,
    "ensembles.InfiniteEnsemble": _ensemble,
    "ensembles.Standardisation": lambda s: s.is_one,
    "ensembles.SolvedProblem": lambda p: p.targets.ndim == 2
    and len(p.inputs) == len(p.targets) == p.solver.system.matrix.size,
    "ensembles.TrainingProblem": _training,
    "groups.Irrep": _representation,
    "groups.TableGroup": _table_group,
    "groups.MatrixGroup": lambda g: _table_group(g) and _representation(g) and len(g.matrices) == g.order,
    "inference.DataOrbits": _orbits,
    "inference.TrainedProcess": _process,
    "inference.FourierIrrep": _representation,
    "inference.Spectrum": _spectrum,
    "kernels.RandomFeatures": lambda f: f.version == VERSION,
    "kernels.Kernels": lambda k: k.nngp.shape == k.ntk.shape,
    "solvers.ArrayMatrix": lambda m: _is(m.array, (m.size, m.size)),
    "solvers.KernelMatrix": lambda m: len(m.x) == m.size > 0 < m.tile,
    "solvers.ScaledMatrix": lambda m: m.matrix.size == m.size
    and all(a is None or _is(a, (m.size,)) for a in (m.scale, m.above)),
    "solvers.Solution": lambda s: s.coefficients.ndim == 2,
    "scale.ObjectPath": lambda p: re.fullmatch(r"(s3|gs|az)://[\w.-]+", p.root) is not None,
}  # fmt: skip
"""Of some kinds: whether an object is one, seen by its shapes."""


def fits(name: str, made: Any) -> bool:
    """Whether an object of the class `name`, as files call it, can be one."""
    check = FITS.get(name)
    try:
        return check is None or bool(check(made))
    except (AttributeError, IndexError, TypeError, ValueError, KeyError):
        return False
