"""Objects of this package as JSON and arrays, and back, for a fixed list of classes.

A value becomes a tree of JSON: None, numbers and text as such, everything else as {"is": kind, …}. Objects are stored
as their class and attributes; arrays are numbered, and stored separately. A file may name only classes on the list, by
the public name `subpackage.Class`, which stays the same if the class moves; nothing else is imported. Dataclass fields
are checked against their annotations, if these are of numbers and text. Whether a file with correct checksums
describes a meaningful model shows only when it predicts.

No class on the list runs a command or holds a function that a file could name. Only two refer to files or object
stores: a kernel store, which is read only if it is the one that the model was fitted with, and the folder of a factor,
which is written to only if it already holds factors.
"""

from __future__ import annotations

import ast
import importlib
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.errors import EquitangentsError, InvalidTypeError
from equitangents.kernels.random_features import VERSION
from equitangents.validation import is_whole

logger = logging.getLogger("equitangents")

_PACKAGE = "equitangents"
# subpackages and the class of those of their public classes that are saved
_PUBLIC = {"nn": "nn.layer:Layer", "solvers": "solvers.method:Method"}
_CLASSES = {  # further ones, by module
    "nn.group_conv": "Elements",
    "nn.sequential": "Sequential",
    "stax.own_layers": "Gabor Raised Wave",
    "steerable.features": "Features SteerableIrrep",
    "steerable.gaussian_sum": "GaussianSum",
    "groups.families": "Permutations",
    "groups.irreps": "Irrep",
    "groups.matrix_group": "MatrixGroup",
    "groups.plane_rotations": "PlaneIsometries PlaneRotations",
    "groups.representations": "FiniteMatrices Representation",
    "groups.rotation_group": "RotationGroup",
    "groups.symmetry_group": "CompactIrrep",
    "groups.group": "Subgroup TableGroup",
    "groups.wallpaper_group": "TranslationGroup WallpaperGroup",
    "actions.compact": "ContinuousRotations",
    "actions.images": "ExactRotations ResampledRotations",
    "actions.positions": "GridMotions PositionPermutations",
    "actions.products": "FieldAction RestrictedAction",
    "actions.rings": "RingRotations",
    "actions.subset": "ActionSubset",
    "actions.vectors": "LinearAction TrivialAction",
    "kernels.operations": "FrozenArray",
    "kernels.orbit": "OrbitAverage",
    "kernels.random_features": "RandomFeatures",
    "kernels.result": "Kernels",
    "fit.candidates": "FeatureNetwork",
    "inference.augmented": "DataOrbits",
    "inference.dynamics": "Descent Flow TrainedProcess",
    "inference.group_fourier": "FourierIrrep",
    "inference.spectrum": "Ridge Spectrum",
    "ensembles.deep": "DeepEnsemble DeepEnsembleClassifier",
    "ensembles.fields": "EquivariantField FieldKernel FieldMatrix FieldPoints OutputPositions PointAction PointAverage",
    "ensembles.infinite.classifier": "InfiniteEnsembleClassifier",
    "ensembles.infinite.irrep_problem": "IrrepBlock IrrepProblem",
    "ensembles.infinite.predictor": "MatrixProblem SolvedProblem TrainingSettings",
    "ensembles.infinite.regressor": "InfiniteEnsemble",
    "ensembles.infinite.training": "Training",
    "ensembles.standardisation": "Standardisation",
    "ensembles.training.variations": "Bootstrap NNGPPosterior NTKPosterior TangentPrior Variation ZeroOutput",
    "torch.estimators": "Ensemble EnsembleClassifier",
    "solvers.matrices": "ArrayMatrix KernelMatrix ScaledMatrix StoreMatrix",
    "solvers.method": "LinearSystem Solution SolveReport",
    "solvers.solving": "Solver",
    "solvers.spectral": "Eigh FeatureMatrix Primal",
    "scale.gram": "GramStore GramWork",
    "scale.place": "ObjectPath",
    "scale.record": "InputsRecord Record",
}
_NAMES = {"ensembles.Training": "ensembles.TrainingProblem"}
_DYNAMICS = ("inference.Flow", "inference.Descent")  # the classes that are values themselves
_WRITES = "solvers.OutOfCore"  # where factors are, and go
# what objects compute once, and is saved with them; other cached properties are computed again
_CACHED_NAMES = (
    "_complex_irreps _is_orthogonal _real_irreps _solutions character conjugacy_classes covariance_problem delta "
    "dimension euler_angles factor generators is_abelian matrices mean_problem resolution "
    "unit weights"
)
_CACHED = frozenset(_CACHED_NAMES.split())
_MOST = 2_000_000  # values in a tree, counted as often as they are referred to: numbers beyond are in arrays
_ALONE = (type(None), bool, int, float, str)  # what stands for itself
_SCALARS = "biufU"  # kinds of NumPy's numbers and text that are saved as values


@cache
def kinds() -> dict[str, str]:
    """The location of each listed class, `module:class`, by its name in files."""
    found: dict[str, str] = {}
    for subpackage, base in _PUBLIC.items():
        module, kind = importlib.import_module(f"{_PACKAGE}.{subpackage}"), _load(f"{_PACKAGE}.{base}")
        classes = (getattr(module, name) for name in module.__all__)
        public = [cls for cls in classes if isinstance(cls, type) and issubclass(cls, kind)]
        found |= {f"{subpackage}.{cls.__qualname__}": _place_of(cls) for cls in public}
    for path, names in _CLASSES.items():
        for name in names.split():
            called = f"{path.partition('.')[0]}.{name}"
            found[_NAMES.get(called, called)] = f"{_PACKAGE}.{path}:{name}"
    return found


def name_of(cls: type) -> str:
    """The name of a class in files; for an unlisted class, its location."""
    return _names().get(_place_of(cls), _place_of(cls))


@cache
def _names() -> dict[str, str]:
    return {place: name for name, place in kinds().items()}


def _place_of(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _load(place: str) -> type:
    module, _, name = place.partition(":")
    found: type = getattr(importlib.import_module(module), name)
    return found


class EncodedValue:
    """Description of a value: its JSON `tree`, and the `arrays` to which the tree refers by number.

    `named` holds objects that are saved by name only, and passed again when the value is built. Raises InvalidTypeError
    for what cannot be saved.

    >>> described = EncodedValue({"a": (1, np.arange(3))})
    >>> described.tree
    {'is': 'dict', 'items': [['a', {'is': 'tuple', 'items': [1, {'is': 'array', 'number': 0}]}]]}
    >>> build(described.tree, described.arrays.__getitem__)
    {'a': (1, array([0, 1, 2]))}
    """

    def __init__(self, value: Any, named: Mapping[str, Any] | None = None) -> None:
        self.arrays: list[np.ndarray] = []
        self._named = {id(thing): name for name, thing in (named or {}).items()}
        # by id; the things themselves are held, so that their ids stay theirs
        self._counted: dict[int, tuple[Any, int]] = {}
        self._seen: dict[int, tuple[Any, int]] = {}
        self.tree = self._of(value, "")

    def _of(self, value: Any, where: str) -> Any:
        if id(value) in self._named and value is not None:
            return {"is": "named", "name": self._named[id(value)]}
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
        if isinstance(value, np.dtype):
            return {"is": "dtype", "name": value.str}
        if isinstance(value, np.generic) and value.dtype.kind in _SCALARS:
            return {"is": "number", "dtype": value.dtype.str, "value": value.item()}
        if isinstance(value, Path):
            return {"is": "path", "name": str(value)}
        if isinstance(value, type) and name_of(value) in _DYNAMICS:
            return {"is": "class", "name": name_of(value)}
        return self._object(value, where)

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
        name = name_of(type(value))
        if name not in kinds():
            raise InvalidTypeError(
                f"{where.lstrip('.') or 'the value'} is {value!r}, which cannot be saved: it is not of this package, "
                "or holds functions or files"
            )
        number = len(self._seen)
        self._seen[id(value)] = value, number
        # what a class leaves out of its state (open files, compiled functions) it makes again
        attributes = value.__getstate__() if hasattr(type(value), "__setstate__") else vars(value)
        attributes = _without_cached(type(value), attributes)
        state = [[key, self._of(item, f"{where}.{key}")] for key, item in attributes.items()]
        wrong = _wrong(type(value), attributes)
        if wrong is not None:
            raise InvalidTypeError(f"{where.lstrip('.') or 'the value'} is {value!r}, which cannot be saved: {wrong}")
        return {"is": "object", "number": number, "class": name, "state": state}


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object of a listed class, except those that it recomputes."""
    return _without_cached(type(value), vars(value))


def _without_cached(cls: type, attributes: Mapping[str, Any]) -> dict[str, Any]:
    again = {name for name in attributes if isinstance(getattr(cls, name, None), cached_property)} - _CACHED
    return {name: value for name, value in attributes.items() if name not in again}


def check_attributes(cls: type, state: Mapping[str, Any]) -> None:
    """Raise InvalidTypeError unless these are attributes of a listed class; some may be missing."""
    wrong = _wrong(cls, state, complete=False)
    if wrong is not None:
        raise InvalidTypeError(wrong)


def restored(cls: type, state: Any) -> Any:
    """The object of class `cls` with the attributes `state`; ValueError if these are invalid."""
    if type(state) is not dict:
        raise ValueError(f"a {type(state).__name__} stands for attributes")
    kept, name = _without_cached(cls, state), next(name_of(base) for base in cls.__mro__ if name_of(base) in kinds())
    wrong = _wrong(cls, kept)
    if wrong is not None:
        raise ValueError(wrong)
    if name == _WRITES and kept["path"] is not None and not _holds_factors(Path(kept["path"])):
        logger.warning("saved model: %s, which it names, holds no factors; none will be written there", kept["path"])
        kept["path"] = None
    made: Any = object.__new__(cls)
    try:
        if hasattr(made, "__setstate__"):  # which makes again what was left out
            made.__setstate__(kept)
        else:
            vars(made).update(kept)
        fits = name not in FITS or bool(FITS[name](made))
    except (AttributeError, IndexError, TypeError, ValueError, KeyError):
        fits = False
    if not fits:
        raise ValueError(f"the arrays and numbers of a {cls.__name__} do not fit each other")
    return made


def _holds_factors(folder: Path) -> bool:
    """Whether a folder already holds factors; files that name other folders cannot have them written to."""
    return next(folder.expanduser().glob("*/factor.json"), None) is not None


def _wrong(cls: type, state: Mapping[str, Any], complete: bool = True) -> str | None:
    """Description of what is wrong with an object's attributes, or None."""
    types = _field_types(cls)
    for name, value in state.items():
        if name in types:
            if not _is_of(types[name], value):
                return f"{name} of {cls.__qualname__} is of type {type(value).__name__}; expected {types[name]}"
        elif callable(getattr(cls, name, None)) or (
            is_dataclass(cls) and name not in _CACHED and name.strip("_") == name  # "_" is around what `fit` learns
        ):
            return f"{cls.__qualname__} has no attribute {name!r}"
    missing = [name for name in types if complete and name not in state]
    return f"{cls.__qualname__} lacks {missing[0]!r}" if missing else None


@cache
def _field_types(cls: type) -> dict[str, str]:
    """The annotations of the fields of a dataclass; empty for other classes."""
    return {field.name: str(field.type) for field in fields(cls)} if is_dataclass(cls) else {}


def _is_of(annotation: str, value: Any) -> bool:
    """Whether a value has the annotated type, checked for numbers and text only; other types pass.

    >>> _is_of("int | tuple[int, ...]", (1, 2)), _is_of("int | tuple[int, ...]", (1, "2")), _is_of("Layer", 3)
    (True, False, True)
    """
    return _matches(_parsed(annotation), value)


@cache
def _parsed(annotation: str) -> ast.expr:
    return ast.parse(annotation, mode="eval").body


def _matches(type_: ast.expr, value: Any) -> bool:
    match type_:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _matches(left, value) or _matches(right, value)
        case ast.Constant(value=None):
            return value is None
        case ast.Name(id="str"):
            return isinstance(value, str)
        case ast.Name(id="bool"):
            return isinstance(value, bool | np.bool_)
        case ast.Name(id="int"):
            return is_whole(value)
        case ast.Name(id="float"):
            array = isinstance(value, np.ndarray | jax.Array) and value.ndim == 0
            return is_whole(value) or isinstance(value, float | np.floating) or array
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[inner, ast.Constant(value=rest)])):
            return type(value) in (tuple, list) and (rest is not ... or all(_matches(inner, item) for item in value))
    return True


Array = Callable[[int], np.ndarray]


def build(tree: Any, array: Array, named: Mapping[str, Any] | None = None) -> Any:
    """The value described by `tree`, with arrays by number; ValueError for a tree that no `EncodedValue` has.

    >>> build({"is": "object", "number": 0, "class": "os:PathLike", "state": []}, [].__getitem__)
    Traceback (most recent call last):
    ValueError: 'os:PathLike' is not a class that is saved
    """
    try:
        return _Builder(array, named or {}).of(tree)
    except EquitangentsError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except KeyError as error:
        raise ValueError(f"it lacks {error}, or refers to what is not there") from None
    except (TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"it is not what was saved: {error}") from None


class _Builder:
    def __init__(self, array: Array, named: Mapping[str, Any]) -> None:
        self.array, self.named = array, named
        self._objects: dict[int, tuple[Any, int]] = {}  # with how many values each stands for
        self._count = 0

    def of(self, tree: Any) -> Any:
        self._counted(1)
        match tree:
            case None | bool() | int() | float() | str():
                return tree
            case {"is": "named", "name": str(name)}:
                return self.named[name]
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
            case {"is": "class", "name": str(name)} if name in _DYNAMICS:
                return _load(kinds()[name])
            case {"is": "same", "number": int(number)}:
                thing, count = self._objects[number]  # of objects that are whole: none holds itself
                self._counted(count)
                return thing
            case {"is": "object", "number": int(number), "class": str(name), "state": list(state)}:
                if name not in kinds():
                    raise ValueError(f"{name!r} is not a class that is saved")
                before = self._count
                made = restored(_load(kinds()[name]), {key: self.of(item) for key, item in state})
                self._objects[number] = made, self._count - before
                return made
        kind = tree["is"] if isinstance(tree, dict) else type(tree).__name__
        raise ValueError(f"{kind!r:.50} is not a known kind of value")

    def _counted(self, values: int) -> None:
        self._count += values
        if self._count > _MOST:
            raise ValueError(f"it stands for more than {_MOST:,} values")


def _dtype(name: str, of: str) -> np.dtype:
    """A dtype of numbers or text; raises for others, which may hold objects."""
    dtype = np.dtype(name)
    if dtype.kind not in of:
        raise ValueError(f"{name!r} is not a type of numbers")
    return dtype


def _is_indexed(table: np.ndarray, count: int) -> bool:
    return table.size == 0 or bool(table.min() >= 0 and table.max() < count)


def _table_group(g: Any) -> bool:
    square = g._table.shape == (g.order, g.order) and g.order > 0 and 0 <= g.identity < g.order
    return bool(square and (np.sort(g._table, axis=1) == np.arange(g.order)).all())


def _ensemble(e: Any) -> bool:
    (x, y), units, shape = e._data, e.standardisation_, tuple(e.sample_shape_)
    scaled = units is None or units.scale.shape == shape[-1:]
    return scaled and x.shape[1:] == shape and 0 < len(x) in y.shape[:2]  # |G| may come first


def _classes_of_outputs(e: Any) -> int:
    """The number of classes if each has an output, at every position of a field; else 0."""
    outputs = e.ensemble_.n_outputs_ * math.prod(e.ensemble_.positions_)
    return len(e.classes_) if outputs == len(e.classes_) * math.prod(e.positions_) else 0


FITS: dict[str, Callable[[Any], Any]] = {
    "actions.PositionPermutations": lambda a: a.table.ndim == 2 and len(a.table) == a.group.order
    and bool((np.sort(a.table, axis=1) == np.arange(a.table.shape[1])).all()),
    "ensembles.FieldPoints": lambda p: p.image.shape == p.position.shape
    and _is_indexed(p.image, len(p.signals)) and _is_indexed(p.position, p.count),
    "ensembles.InfiniteEnsembleClassifier": lambda e: _ensemble(e) and e.classes_.ndim == 1
    and _classes_of_outputs(e) > 1 and (e.temperature_ is None or e.temperature_ > 0),
    "ensembles.InfiniteEnsemble": _ensemble,
    "ensembles.Standardisation": lambda s: s.is_one,
    "groups.Subgroup": lambda s: _is_indexed(s.elements, s.group.order),
    "groups.TableGroup": _table_group,
    "groups.MatrixGroup": _table_group,
    "kernels.RandomFeatures": lambda f: f.version == VERSION,
    "scale.ObjectPath": lambda p: re.fullmatch(r"(s3|gs|az)://[\w.-]+", p.root) is not None,
}  # fmt: skip
"""Of some classes: whether an object is one, seen by its shapes, where others would be indexed out of bounds."""
