"""A fitted deep ensemble in a directory: pytrees in arrays/ as orbax writes them, the rest in estimator.pkl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.ensembles.storage import estimator_file
from equitangents.ensembles.storage.arrays import load_arrays, save_arrays
from equitangents.keywords import check_keywords

_TREES = ("params_", "params0_", "recorded_")  # pytrees of arrays; the rest of the fitted state is small
_NOT_SAVED = ("callback", "executor")


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator; see DeepEnsembleBase.save."""
    estimator_file.check_place(path)
    own = estimator.get_params(deep=False)
    given: dict[str, Any] = {}
    for name, value in own.items():  # of a record that cannot be pickled, what can
        whole = estimator_file.pickled(value) is not None
        given |= {name: value} if whole else estimator.entries(name) or {name: value}
    parameters, left_out = estimator_file.pickled_parameters(
        {name: value for name, value in given.items() if name not in _NOT_SAVED}
    )
    left_out += [name for name in _NOT_SAVED if given.get(name) is not None]
    state = {name: value for name, value in vars(estimator).items() if name not in own}
    trees = {name: state.pop(name) for name in _TREES}
    arrays: dict[str, np.ndarray] = {}
    structures = {}
    for name, tree in trees.items():
        leaves, structure = jax.tree.flatten(tree)
        structures[name] = jax.tree.unflatten(structure, [(a.shape, a.dtype.name) for a in leaves])
        arrays |= {f"{name}{i}": a for i, a in enumerate(leaves)}
    content = {"parameters": parameters, "left_out": left_out, "state": state, "structures": structures}
    estimator_file.write(type(estimator), path, content, lambda new: save_arrays(new / "arrays", arrays))


def load(cls: Any, path: Path, replacements: dict[str, Any]) -> Any:
    """Read a fitted estimator of class `cls`; see DeepEnsembleBase.load."""
    content = estimator_file.read(cls, path)
    replaced = {entry for name in replacements for entry in (name, *cls.entry_names(name))}
    missing = [name for name in content["left_out"] if name not in replaced and name not in _NOT_SAVED]
    estimator_file.refuse_missing(missing)
    check_keywords(cls, replacements)
    first = [name for name in content["left_out"] if name in replacements]
    estimator = cls(**content["parameters"], **{name: replacements[name] for name in first})
    estimator.set_params(**{name: value for name, value in replacements.items() if name not in first})
    arrays = load_arrays(path / "arrays")
    is_shape = lambda leaf: isinstance(leaf, tuple) and len(leaf) == 2 and isinstance(leaf[1], str)
    for name, structure in content["structures"].items():
        shapes, tree = jax.tree.flatten(structure, is_leaf=is_shape)
        leaves = [arrays.get(f"{name}{i}", np.zeros(*shape)) for i, shape in enumerate(shapes)]
        setattr(estimator, name, jax.tree.unflatten(tree, leaves))
    vars(estimator).update(content["state"])
    return estimator
