"""Objects of this package as JSON and arrays, and back: those of a fixed list, with attributes of fixed types.

A value becomes a tree of JSON: None, numbers and text stand for themselves, everything else is {"is": kind, …}. Objects
are their class and their attributes; arrays are numbered, and kept elsewhere. `kinds` lists the classes: a file names
no other, imports nothing, and gives no attribute that is not listed. What predictions multiply and index is compared by
its shape, so that a model that was put together wrongly is refused when it is loaded; whether its numbers are good
nobody can tell from the file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.ensembles.storage.kinds import Kind, is_of, kinds, name_of
from equitangents.errors import EquitangentsError, InvalidTypeError
from equitangents.kernels.random_features import VERSION

logger = logging.getLogger("equitangents")

_WRITES = "solvers.OutOfCore"  # where factors are, and go
_MOST = 2_000_000  # values in a tree, counted as often as they are referred to: numbers beyond are in arrays
_ALONE = (type(None), bool, int, float, str)  # what stands for itself
_SCALARS = "biufU"  # kinds of NumPy's numbers and text that stand alone


class Described:
    """What was made of a value: its `tree`, and the `arrays` that the tree counts.

    `given` names objects that are kept by name alone, and given again when the value is built.

    >>> described = Described({"a": (1, np.arange(3))})
    >>> described.tree
    {'is': 'dict', 'items': [['a', {'is': 'tuple', 'items': [1, {'is': 'array', 'number': 0}]}]]}
    >>> build(described.tree, described.arrays.__getitem__)
    {'a': (1, array([0, 1, 2]))}
    """

    def __init__(self, value: Any, given: Mapping[str, Any] | None = None) -> None:
        self.arrays: list[np.ndarray] = []
        self._given = {id(thing): name for name, thing in (given or {}).items()}
        # by id; the things themselves are held, so that their ids stay theirs
        self._counted: dict[int, tuple[Any, int]] = {}
        self._seen: dict[int, tuple[Any, int]] = {}
        self.tree = self._of(value, "")

    def _of(self, value: Any, where: str) -> Any:
        if id(value) in self._given and value is not None:
            return {"is": "given", "name": self._given[id(value)]}
        if type(value) in _ALONE:
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
        if isinstance(value, np.generic) and value.dtype.kind in _SCALARS:
            return {"is": "number", "dtype": value.dtype.str, "value": value.item()}
        if isinstance(value, Path):
            return {"is": "path", "name": str(value)}
        if isinstance(value, type) and name_of(value) in kinds():
            return {"is": "class", "name": name_of(value)}
        return None

    def _array(self, array: Any, where: str) -> int:
        known = self._counted.get(id(array))
        if known is not None:
            return known[1]
        values = np.asarray(array)
        if values.dtype == object and all(type(item) is str for item in values.flat):
            values = values.astype(str)  # text as pandas has it
        if values.dtype.hasobject:
            raise InvalidTypeError(f"{where.lstrip('.')} is an array of objects, which cannot be saved")
        self._counted[id(array)] = array, len(self.arrays)
        self.arrays.append(values)
        return len(self.arrays) - 1

    def _object(self, value: Any, where: str) -> Any:
        known = self._seen.get(id(value))
        if known is not None:
            return {"is": "same", "number": known[1]}
        kind = kinds().get(name_of(type(value)))
        if kind is None:
            raise InvalidTypeError(
                f"{where.lstrip('.') or 'the value'} is {value!r}, which cannot be saved: it is not of this package, "
                "or holds functions or files"
            )
        number = len(self._seen)
        self._seen[id(value)] = value, number
        # what a class leaves out of its state (open files, compiled functions), and what it only remembers, it makes
        # anew
        attributes = value.__getstate__() if hasattr(type(value), "__setstate__") else vars(value)
        attributes = {name: item for name, item in attributes.items() if not _is_remembered(kind, type(value), name)}
        state = [[name, self._of(item, f"{where}.{name}")] for name, item in attributes.items()]
        wrong = _wrong(kind, attributes, self._given)
        if wrong is not None:
            raise InvalidTypeError(f"{where.lstrip('.') or 'the value'} is {value!r}, which cannot be saved: {wrong}")
        return {"is": "object", "number": number, "class": kind.name, "state": state}


def check_attributes(cls: type, state: Mapping[str, Any]) -> None:
    """InvalidTypeError unless these are attributes of objects of class `cls`, or of the one of `kinds` it derives from.

    Some may be missing.
    """
    wrong = _wrong(_kind_of(cls), state, (), whole=False)
    if wrong is not None:
        raise InvalidTypeError(wrong)


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object of one of `kinds`, without what it only remembers."""
    kind = _kind_of(type(value))
    return {name: item for name, item in vars(value).items() if not _is_remembered(kind, type(value), name)}


def restored(cls: type, state: Any, given: Mapping[str, Any] | None = None) -> Any:
    """The object of class `cls` with the attributes `state`; ValueError for what its objects do not have."""
    kind = _kind_of(cls)
    if type(state) is not dict:
        raise ValueError(f"a {type(state).__name__} stands for attributes")
    kept = dict(state)
    wrong = _wrong(kind, kept, _ids(given))
    if wrong is not None:
        raise ValueError(wrong)
    if kind.name == _WRITES and kept["path"] is not None and not _holds_factors(Path(kept["path"])):
        logger.warning("saved model: %s, which it names, holds no factors; none will be written there", kept["path"])
        kept["path"] = None
    made: Any = object.__new__(cls)
    if hasattr(made, "__setstate__"):  # which makes anew what was left out
        made.__setstate__(kept)
    else:
        vars(made).update(kept)
    if not fits(kind.name, made):
        raise ValueError(f"the arrays and numbers of a {cls.__name__} do not fit each other")
    return made


Array = Callable[[int], np.ndarray]


def build(tree: Any, array: Array, given: Mapping[str, Any] | None = None) -> Any:
    """The value of which `Described` made `tree` and arrays by number; ValueError for what it cannot have made.

    >>> build({"is": "object", "number": 0, "class": "os:PathLike", "state": []}, [].__getitem__)
    Traceback (most recent call last):
    ValueError: 'os:PathLike' is not a class that is saved
    """
    try:
        return _Builder(array, given or {}).of(tree)
    except EquitangentsError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except KeyError as error:
        raise ValueError(f"it lacks {error}, or refers to what is not there") from None
    except (TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"it is not what was saved: {error}") from None


class _Builder:
    def __init__(self, array: Array, given: Mapping[str, Any]) -> None:
        self.array, self.given = array, given
        self._objects: dict[int, tuple[Any, int]] = {}  # with how many values each stands for
        self._count = 0

    def of(self, tree: Any) -> Any:
        self._counted(1)
        match tree:
            case None | bool() | int() | float() | str():
                return tree
            case {"is": "given", "name": str(name)}:
                return self.given[name]
            case {"is": "array", "number": int(number)}:
                return self.array(number)
            case {"is": "list" | "tuple" as kind, "items": list(items)}:
                values = [self.of(item) for item in items]
                return values if kind == "list" else tuple(values)
            case {"is": "dict", "items": list(items)}:
                return {self.of(key): self.of(item) for key, item in items}
            case {"is": "dtype", "name": str(name)}:
                return _dtype(name, _SCALARS + "c")
            case {"is": "number", "dtype": str(name), "value": bool() | int() | float() | str() as value}:
                return _dtype(name, _SCALARS).type(value)
            case {"is": "path", "name": str(name)}:
                return Path(name)
            case {"is": "class", "name": str(name)}:
                return _kind(name).load()
            case {"is": "same", "number": int(number)}:
                thing, count = self._objects[number]  # of objects that are whole: none holds itself
                self._counted(count)
                return thing
            case {"is": "object", "number": int(number), "class": str(name), "state": list(state)}:
                before = self._count
                made = restored(_kind(name).load(), {key: self.of(item) for key, item in state}, self.given)
                self._objects[number] = made, self._count - before
                return made
        kind = tree["is"] if isinstance(tree, dict) else type(tree).__name__
        raise ValueError(f"{kind!r:.50} is not a known kind of value")

    def _counted(self, values: int) -> None:
        self._count += values
        if self._count > _MOST:
            raise ValueError(f"it stands for more than {_MOST:,} values")


def _ids(given: Mapping[str, Any] | None) -> set[int]:
    return {id(thing) for thing in (given or {}).values() if thing is not None}


def _kind_of(cls: type) -> Kind:
    """The kind under which a class, or the one of `kinds` that it derives from, is saved."""
    return next(kinds()[name_of(base)] for base in cls.__mro__ if name_of(base) in kinds())


def _kind(name: str) -> Kind:
    if name not in kinds():
        raise ValueError(f"{name!r} is not a class that is saved")
    return kinds()[name]


def _holds_factors(folder: Path) -> bool:
    """Whether factors were kept in a folder before: a file that names another one has nothing written there."""
    return next(folder.expanduser().glob("*/factor.json"), None) is not None


def _is_remembered(kind: Kind, cls: type, name: str) -> bool:
    """Whether an attribute is no part of an object, which only keeps what it has computed once."""
    return name not in kind.types and isinstance(getattr(cls, name, None), cached_property)


def _wrong(kind: Kind, state: Mapping[str, Any], given: Any, whole: bool = True) -> str | None:
    """What is wrong with the attributes of an object, in words; None where nothing is."""
    if type(state) is not dict:
        return f"a {type(state).__name__} stands for attributes"
    called = kind.place.partition(":")[2]
    for name, value in state.items():
        if name not in kind.types:
            return f"{called} has no attribute {name!r}"
        if not is_of(kind.types[name], value, given):
            return f"{name} of {called} is of type {type(value).__name__}; expected {kind.types[name]}"
    missing = [name for name in kind.types if whole and name not in state and name not in kind.optional]
    return f"{called} lacks {missing[0]!r}" if missing else None


def _dtype(name: str, of: str) -> np.dtype:
    """A type of numbers or text; others may hold objects."""
    dtype = np.dtype(name)
    if dtype.kind not in of:
        raise ValueError(f"{name!r} is not a type of numbers")
    return dtype


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


FITS: dict[str, Callable[[Any], Any]] = {
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
