"""The kinds of objects that saved models consist of: a fixed list of classes, each with the type of every attribute.

The layers and solvers that `nn` and `solvers` name in public are on it as they are written, where their fields are of
the types in `_WORDS`; every other class stands in the table here. Files call a class by a public name, `room.Class`,
which stays where the class moves, and name nothing else. None of them runs a command or holds a
function; the only ones that name files, or objects in an object store, are a store of kernels, which is read where it
is the one that the model was fitted with, and the folder of a factor (`structure` says when).

An attribute is `name type`, or `name? type` where not every object has it. Types: `none`, `bool`, `int`, `real`,
`text`, `path`, `dtype`, `class` (a kind of dynamics), `label` (of an element of a group), `given` (what is given to
`load` anew); `floats`, `ints`, `numbers` (complex, too) and `array` (text, too) are arrays, and `tree` is arrays in
dictionaries, lists and tuples; `(T)` is a tuple or list of T, `{T}` a dictionary of T by text or numbers; another word
is a class of this package, what derives from it, or one of `UNIONS`.
"""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

PACKAGE = "equitangents"
UNIONS = {
    # what has `.kernel`, or `.kernel_field`
    "Network": "Sequential|OrbitAverage|TangentPrior|FieldKernel|TurningField"
    "|PointAverage|RandomFeatures|FeatureNetwork|given",
    "Inputs": "array|FieldPoints",
    "Augmentation": "none|GroupAction|ActionSubset",
    "Sizes": "int|(int)",
    "Window": "text|(int)|((int))|Elements|ZonalWindow",
    "Place": "path|ObjectPath",
    "Solved": "Problem|SolvedProblem|IrrepProblem",
}
_WEIGHTS = "W_std real; b_std real"
_GROUP = (
    "name text; order int; identity int; inverses? ints; generators? (int); is_abelian? bool; "
    "conjugacy_classes? (ints); _complex_irreps? (groups.Irrep); _real_irreps? (groups.Irrep); "
    "weights? floats"
)
_ESTIMATOR = (
    "net Network; augmentation text|Augmentation; time real; learning_rate real; ridge real|floats|(real); "
    "kernel text; label_action Augmentation; input_shape none|(int); dynamics text; memory_limit none|real; "
    "store none|path; solver text|Method; n_features_in_ int; sample_shape_ (int); positions_ (int); _data (array); "
    "solver_ text; solution_ Report; augmentation_ Augmentation; max_learning_rate_ real; standardise bool; "
    "standardisation_ none|Standardisation"
)
_MEMBERS = (
    "members int; augmentation text|Augmentation; label_action Augmentation; augmentation_mode text; seed int; "
    "input_shape none|(int); dtype text; members_per_chunk none|int; memory_limit none|real; progress bool; "
    "optimizer text; learning_rate real; epochs int; batch_size none|int; momentum real; loss none|text; "
    "n_features_in_ int; sample_shape_ (int); n_outputs_ int; positions_ (int); augmentation_ Augmentation; "
    "history_ floats; params_ tree; classes_ array; _squeeze bool; variation none|Variation; "
    "checkpoint_dir none|path; checkpoint_every int; params0_ tree; "
    "params_leaves (numbers); params0_leaves (numbers); recorded_ {numbers}; recorded_epochs_ ints; "
    "_variation Variation; _chunk none|int; _fingerprint {text}; _recorded_inputs {text}; standardise bool; "
    "standardisation_ none|Standardisation"
)
_DEEP = f"net Network; {_MEMBERS}"
_TORCH = f"{_MEMBERS}; layout text; method text; device text; reason_ none|text; trained_by_ text"
_TRAINING = (
    "kernel Network; augmentation Augmentation; label_action Augmentation; x array; y floats; positions "
    "none|ensembles.Positions; settings Settings; action Augmentation; rows Inputs; labels floats; "
    "mean_problem? Solved; covariance_problem? Solved; way text; reason none|text"
)
_MATRIX = "size int; dtype dtype; tile int; words text"

# rooms and the class of those of their public classes whose fields say what is saved
_PUBLIC = {"nn": "nn.layer:Layer", "solvers": "solvers.method:Method"}
_WORDS = {
    "bool": "bool", "int": "int", "float": "real", "str": "text", "FileName": "path", "Features": "Features",
    "Nonlinearity": "Nonlinearity", "Sizes": "Sizes",
}  # fmt: skip

_TABLE = {
    "nn": {
        "attention:Aggregate": "_matrix none|FrozenArray",
        "group_conv:GroupConv": f"channels int; window Window; rotations none|(int); weights none|(real); {_WEIGHTS}",
        "pooling:GroupPool": "subgroup none|(int)",
        "group_conv:Elements": "numbers (int)",
        "group_conv:Lift": f"onto Group|GroupAction; channels int; window Window; weights none|(real); {_WEIGHTS}",
        "branches:Parallel": "_branches ((Layer))",
        "nonlinearities:Polynomial": "coefficients (real)",
        "readout:Readout": f"representation Representation; {_WEIGHTS}",
        "branches:Residual": "_body Sequential",
        "sequential:Sequential": "_layers (Layer)",
        "sphere_lift:SphereLift": f"onto SymmetryGroup; channels int; window ZonalWindow; {_WEIGHTS}; tolerance real; "
        "resolution none|int",
        "steerable.nonlinearity:NormNonlinearity": "function Nonlinearity|GaussianSum; tolerance real; largest real; "
        "gaussians GaussianSum; error real; off (real)",
        "steerable.inputs:PointCloud": "group text; features Features",
        "steerable.inputs:PlaneImage": "group text; features Features",
        "steerable.inputs:FeatureVector": "group text; features Features",
        "steerable.inputs:SphereSignal": "group text",
        "sphere_lift:ZonalWindow": "coefficients (real)",
    },
    "stax": {
        "own_layers:Gabor": "",
        "own_layers:Raised": "phi Nonlinearity; offset real",
        "own_layers:Wave": "phase real",
    },
    "steerable": {
        "features:Features": "group text; entries ((int|steerable.Irrep))",
        "gaussian_sum:GaussianSum": "coefficients (real); rates (real)",
        "features:Irrep": "group text; degree int; parity int",
    },
    "groups": {
        "irreps:Irrep": "matrices numbers; kind text; character? numbers",
        "matrix_group:MatrixGroup": f"{_GROUP}; matrices floats; _table ints; _is_orthogonal? bool",
        "plane_rotations:PlaneIsometries": "bandlimit int; matrices? floats",
        "plane_rotations:PlaneRotations": "bandlimit int",
        "representations:FiniteMatrices": "matrices floats; name text; digest text",
        "representations:Representation": "parts (FiniteMatrices|CompactIrrep); dimension? int",
        "rotation_group:RotationGroup": "name text; bandlimit int; reflections bool; euler_angles? floats; "
        "matrices? floats; weights? floats",
        "families:Permutations": "n int; name text",
        "symmetry_group:CompactIrrep": "group text; degree int; parity int",
        "table_group:TableGroup": f"{_GROUP}; _table ints; labels none|(label)",
        "wallpaper_group:TranslationGroup": f"{_GROUP}; shape (int); table? ints",
        "wallpaper_group:WallpaperGroup": f"{_GROUP}; rotations int; reflections bool; shape (int); point_order int; "
        "point_matrices ints; grid_table? ints; table? ints",
    },
    "actions": {
        "compact:ContinuousRotations": "group RotationGroup",
        "images:ImageTurns": "group Group; turns int; name text",
        "positions:GridMotions": "group Group; name text; positions_rank int",
        "positions:Permutations": "group Group; name text; table ints",
        "products:FieldAction": "group Group; exact bool; name text; positions GroupAction; fibre GroupAction",
        "products:RestrictedAction": "group Group; exact bool; name text; permutes_positions bool; channels_last bool; "
        "action GroupAction; elements ints",
        "rings:RingRotations": "group Group; name text",
        "images:ResampledRotations": "group Group; turns int; order int; mask none|text; name text",
        "given_maps:CircularShifts": "group TranslationGroup; channels_last bool; name text",
        "given_maps:Reversal": "group SymmetryGroup; channels_last bool; name text",
        "given_maps:SignChange": "group SymmetryGroup; name text",
        "subset:ActionSubset": "action GroupAction; elements numbers; weights floats",
        "vectors:LastAxisPermutation": "group Group; table ints; ranks none|(int); name text",
        "vectors:LinearAction": "group Group; _matrices numbers; ranks none|(int); name text",
        "vectors:TrivialAction": "group Group; name text",
    },
    "kernels": {
        "orbit:OrbitAverage": "base Network; action GroupAction",
        "operations:FrozenArray": "array array; key text",
        "random_features.features:RandomFeatures": "net Sequential|OrbitAverage|given; features int; seed int; "
        "version int",
        "result:Kernels": "nngp floats; ntk floats; engine text; form text; notes (text); error_estimate none|real; "
        "resolution none|int",
    },
    "fit": {"features:FeatureNetwork": "base Sequential; shift (real); scale (real); cells int; colours bool"},
    "inference": {
        "augmented:DataOrbits": "group Group; first ints; orbit ints; element ints; stabilisers {ints}",
        "dynamics:Descent": "learning_rate real; samples int",
        "dynamics:Flow": "learning_rate real; samples int",
        "dynamics:TrainedProcess": "spectrum Spectrum; dynamics Dynamics; scale none|floats; targets numbers; "
        "prior none|numbers",
        "group_fourier:FourierIrrep": "matrices numbers; count int",
        "spectrum:Ridge": "least real; above none|floats",
        "spectrum:Spectrum": "eigenvalues floats; vectors numbers; ridge real; ridge_unit real; resolution real; "
        "smallest real; scale real; name text",
    },
    "ensembles": {
        "deep:DeepEnsembleClassifier": _DEEP,
        "deep:DeepEnsemble": _DEEP,
        "fields.points:PointAction": "group Group; exact bool; name text; action GroupAction; table ints",
        "fields.kernel:FieldKernel": "net Network",
        "fields.kernel:FieldMatrix": f"kernel Network; x FieldPoints; field text; {_MATRIX}",
        "fields.points:FieldPoints": "signals numbers; image ints; position ints; count int",
        "fields.targets:Positions": "shape (int); turning bool",
        "fields.kernel:PointAverage": "base Network; action PointAction",
        "fields.kernel:TurningField": "net Network",
        "infinite.classifier:InfiniteEnsembleClassifier": f"{_ESTIMATOR}; classes_ array; ensemble_ InfiniteEnsemble; "
        "calibrate bool; temperature_ none|real",
        "infinite.irrep_problem:IrrepProblem": "kernel Network; action GroupAction; field text; inputs Inputs; "
        "irreps (FourierIrrep); blocks (IrrepBlock); orbits DataOrbits; consistent bool; bound real; "
        "self_kernels floats",
        "infinite.irrep_problem:IrrepBlock": "irrep FourierIrrep; process TrainedProcess; labelled bool",
        "infinite.predictor:Problem": "kernel Network; field text; inputs Inputs; process TrainedProcess; "
        "row ints; weight floats; trace floats; residual real; seconds real; above none|floats",
        "infinite.predictor:Settings": "field text; dynamics class; learning_rate real; ridge Ridge; "
        "memory_limit none|real; store none|path; solver text|Method; held none|Kernels; points int",
        "infinite.regressor:InfiniteEnsemble": f"{_ESTIMATOR}; n_outputs_ int; _squeeze bool; "
        "_training ensembles.TrainingProblem",
        "infinite.predictor:SolvedProblem": "kernel Network; field text; inputs Inputs; targets floats; "
        "solver Solver; prior none|SymmetricMatrix; scale none|floats; kernels none|Kernels; _solutions? {Solution}",
        "infinite.training:Training": _TRAINING,
        "standardisation:Standardisation": "shift floats; scale floats; how text",
        "training.variations:Bootstrap": "",
        "training.variations:NNGPPosterior": "noise real",
        "training.variations:NTKPosterior": "noise real",
        "training.variations:TangentPrior": "net Network",
        "training.variations:Variation": "",
        "training.variations:ZeroOutput": "",
    },
    "torch": {
        "estimators:EnsembleClassifier": _TORCH,
        "estimators:Ensemble": _TORCH,
    },
    "solvers": {
        "spectral:Eigh": "",
        "matrices:ArrayMatrix": f"array floats; in_memory bool; {_MATRIX}",
        "matrices:KernelMatrix": f"kernel Network; x Inputs; field text; {_MATRIX}",
        "matrices:ScaledMatrix": f"matrix SymmetricMatrix; scale none|floats; above none|floats; folder none|path; "
        f"in_memory bool; {_MATRIX}",
        "matrices:StoreMatrix": f"store GramStore; folder Place; _field text; in_memory bool; {_MATRIX}",
        "spectral:FeatureMatrix": f"kernel Network; x Inputs; field text; scale none|floats; factor? floats; {_MATRIX}",
        "spectral:Primal": "features int",
        "method:Report": "solver text; reason text; size int; precision text; residual real; condition real; "
        "smallest real; largest real; iterations int; seconds real; forecast_memory int; "
        "ridge real; time real; rank none|int; error real",
        "method:Solution": "coefficients floats; report Report; support none|ints",
        "solving:Solver": "system System; _method none|Method; _consumed bool; _limit real",
        "method:System": "matrix SymmetricMatrix; ridge real; dynamics Dynamics; given_unit none|real; scale real; "
        "unit? real; delta? real; resolution? real",
    },
    "scale": {
        "place:ObjectPath": "root text; key text",
        "gram:GramStore": "path Place; _data {numbers}; _work Work",
        "record:Inputs": "shape (int); count int; digest text",
        "record:Record": "network text; network_hash text; x1 scale.Inputs; x2 none|scale.Inputs; engine text; "
        "precision text; tile int; version text; numbers int; format int",
        "work:Work": "path Place; kernel Network; record Record",
    },
}

_NAMES = {"ensembles.infinite.training:Training": "ensembles.TrainingProblem"}  # where classes share one
DYNAMICS = ("inference.Flow", "inference.Descent")
"""The classes that are values themselves."""


@dataclass(frozen=True)
class Kind:
    """A class by its public name and its `place`, `module:class`, with the types of its attributes, and which of these
    an object may lack.
    """

    name: str
    place: str
    types: dict[str, str]
    optional: frozenset[str]

    def load(self) -> type:
        """The class; its module is imported now, by the place that stands in the list here."""
        return _load(self.place)


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """All kinds by their names."""
    found = [kind for room in _PUBLIC for kind in _of_public_classes(room)]
    for package, entries in _TABLE.items():
        for place, attributes in entries.items():
            whole = f"{package}.{place}"
            name = _NAMES.get(whole, f"{package}.{place.partition(':')[2]}")
            split = [attribute.split(" ") for attribute in attributes.split("; ") if attribute]
            types = {attribute.rstrip("?"): words for attribute, words in split}
            optional = frozenset(attribute.rstrip("?") for attribute, _ in split if attribute.endswith("?"))
            found.append(Kind(name, f"{PACKAGE}.{whole}", types, optional))
    return {kind.name: kind for kind in found}


@functools.cache
def _names() -> dict[str, str]:
    return {kind.place: name for name, kind in kinds().items()}


def name_of(cls: type) -> str:
    """The name by which files call a class: the public one of a kind, of others the place."""
    place = place_of(cls)
    return _names().get(place, place)


def place_of(cls: type) -> str:
    """Where a class is, `module:class`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _load(place: str) -> type:
    module, _, path = place.partition(":")
    found: type = getattr(importlib.import_module(module), path)
    return found


def _of_public_classes(room: str) -> Iterator[Kind]:
    """The layers or solvers that a room names, if each of their fields is of `_WORDS`."""
    module, base = importlib.import_module(f"{PACKAGE}.{room}"), _load(f"{PACKAGE}.{_PUBLIC[room]}")
    for cls in (getattr(module, name) for name in module.__all__):
        if isinstance(cls, type) and issubclass(cls, base) and is_dataclass(cls):
            types = {field.name: words_of(str(field.type)) for field in fields(cls)}
            if all(types.values()):
                yield Kind(f"{room}.{cls.__qualname__}", place_of(cls), types, frozenset())


def words_of(annotation: str) -> str:
    """The type of an attribute in the words of the table; "" for what they do not say.

    >>> words_of("tuple[float, ...]"), words_of("int | str | None"), words_of("Callable[[float], float]")
    ('(real)', 'none|int|text', '')
    """
    return _words(ast.parse(annotation, mode="eval").body)


def _words(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return _WORDS.get(name, "")
        case ast.Constant(value=None):
            return "none"
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            choices = sorted((_words(left), _words(right)), key="none".__ne__)
            return "|".join(choices) if all(choices) else ""
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[inner, ast.Constant(value=rest)])):
            return f"({words})" if rest is ... and (words := _words(inner)) else ""
    return ""


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
