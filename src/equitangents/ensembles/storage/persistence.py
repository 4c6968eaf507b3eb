"""A fitted estimator in a directory: arrays/ as orbax writes them, and estimator.pkl with everything small.

The directory is written next to its place and renamed when complete.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents._version import __version__
from equitangents.ensembles.storage.arrays import load_arrays, replace_directory, save_arrays
from equitangents.errors import InvalidArgumentError
from equitangents.keywords import check_keywords

_FILE = "estimator.pkl"
_TREES = ("params_", "params0_", "recorded_")  # pytrees of arrays; the rest of the fitted state is small
_NOT_SAVED = ("callback",)


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator; see DeepEnsembleBase.save."""
    if path.exists() and not (path / _FILE).is_file():
        raise InvalidArgumentError(f"path is {path}, which exists and is not a saved ensemble; choose another")
    parameters, left_out = {}, []
    given: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():  # of a record that cannot be pickled, what can
        given |= {name: value} if _pickle(value) is not None else estimator.entries(name) or {name: value}
    for name, value in given.items():
        pickled = None if name in _NOT_SAVED else _pickle(value)
        if pickled is not None:
            parameters[name] = pickled
        elif value is not None:
            left_out.append(name)
    state = {name: value for name, value in vars(estimator).items() if name not in estimator.get_params(deep=False)}
    trees = {name: state.pop(name) for name in _TREES}
    arrays: dict[str, np.ndarray] = {}
    structures = {}
    for name, tree in trees.items():
        leaves, structure = jax.tree.flatten(tree)
        structures[name] = jax.tree.unflatten(structure, [(a.shape, a.dtype.name) for a in leaves])
        arrays |= {f"{name}{i}": a for i, a in enumerate(leaves)}
    content = {
        "class": type(estimator).__name__,
        "version": __version__,
        "parameters": parameters,
        "left_out": left_out,
        "state": state,
        "structures": structures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        save_arrays(new / "arrays", arrays)
        (new / _FILE).write_bytes(pickle.dumps(content))
        replace_directory(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def load(cls: Any, path: Path, replacements: dict[str, Any]) -> Any:
    """Read a fitted estimator of class `cls`; see DeepEnsembleBase.load."""
    if not (path / _FILE).is_file():
        raise InvalidArgumentError(f"path is {path}, which is not a directory that save wrote")
    content = pickle.loads((path / _FILE).read_bytes())
    if content["class"] != cls.__name__:
        raise InvalidArgumentError(f"path is {path}, which holds a {content['class']}, not a {cls.__name__}")
    parameters = {name: pickle.loads(value) for name, value in content["parameters"].items()}
    replaced = {entry for name in replacements for entry in (name, *cls.entry_names(name))}
    missing = [name for name in content["left_out"] if name not in replaced and name not in _NOT_SAVED]
    if missing:
        raise InvalidArgumentError(
            f"{', '.join(missing)} could not be saved with this ensemble; give it: load(path, {missing[0]}=...)"
        )
    check_keywords(cls, replacements)
    first = [name for name in content["left_out"] if name in replacements]
    estimator = cls(**parameters, **{name: replacements[name] for name in first})
    estimator.set_params(**{name: value for name, value in replacements.items() if name not in first})
    arrays = load_arrays(path / "arrays")
    is_shape = lambda leaf: isinstance(leaf, tuple) and len(leaf) == 2 and isinstance(leaf[1], str)
    for name, structure in content["structures"].items():
        shapes, tree = jax.tree.flatten(structure, is_leaf=is_shape)
        leaves = [arrays.get(f"{name}{i}", np.zeros(*shape)) for i, shape in enumerate(shapes)]
        setattr(estimator, name, jax.tree.unflatten(tree, leaves))
    vars(estimator).update(content["state"])
    return estimator


def _pickle(value: Any) -> bytes | None:
    """The pickled value, or None if it cannot be pickled."""
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
