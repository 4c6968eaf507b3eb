"""A fitted deep ensemble in a folder: parameters and state as JSON, the members' variables as arrays with checksums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.ensembles.storage import estimator_file
from equitangents.ensembles.storage.arrays import load_arrays
from equitangents.errors import InvalidArgumentError
from equitangents.keywords import check_keywords

_TREES = ("params_", "params0_")  # members' variables, in the form that their network has them
_NOT_SAVED = ("callback", "executor")
_OLDER = "arrays.npz"  # of ensembles of PyTorch, in versions before


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator; see FiniteEnsemble.save."""
    estimator_file.check_place(path)
    own, cls = estimator.get_params(deep=False), type(estimator)
    given: dict[str, Any] = {}
    for name, value in own.items():  # of a record that cannot be saved, what can
        whole = estimator_file.describable(cls, name, value)
        given |= {name: value} if whole else estimator.entries(name) or {name: value}
    given = {name: value for name, value in given.items() if name not in _NOT_SAVED or value is not None}
    state = {name: value for name, value in vars(estimator).items() if name not in own}
    for name in _TREES:  # of a form that only its network has, the leaves
        state[name] = jax.tree.map(np.asarray, state[name])
        if not estimator_file.describable(cls, name, state[name]):
            state[f"{name}leaves"] = jax.tree.leaves(state.pop(name))
    estimator_file.write(estimator, path, given, _NOT_SAVED, state)


def load(cls: Any, path: Path, replacements: dict[str, Any], trust: bool, form: Callable[[Any], Any]) -> Any:
    """Read a fitted estimator of class `cls`, see FiniteEnsemble.load; `form` is that of its members' variables."""
    content = estimator_file.read(cls, path, trust)
    replaced = {entry for name in replacements for entry in (name, *cls.entry_names(name))}
    missing = [name for name in content["left_out"] if name not in replaced and name not in _NOT_SAVED]
    estimator_file.refuse_missing(missing)
    check_keywords(cls, replacements)
    first = [name for name in content["left_out"] if name in replacements]
    estimator = cls(**content["parameters"], **{name: replacements[name] for name in first})
    estimator.set_params(**{name: value for name, value in replacements.items() if name not in first})
    state = cls.of_older_versions(content["state"] | _older_trees(path, content))
    leaves = {name: state.pop(f"{name}leaves") for name in _TREES if f"{name}leaves" in state}
    vars(estimator).update(state)
    for name, values in leaves.items():
        structure: Any = jax.tree.structure(form(estimator))
        if structure.num_leaves != len(values):
            raise InvalidArgumentError(
                f"net is {estimator.net!r}, with {structure.num_leaves} arrays of variables; the network that was "
                f"saved has {len(values)}"
            )
        setattr(estimator, name, jax.tree.unflatten(structure, values))
    return estimator


def _older_trees(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The variables as versions before kept them; empty for others."""
    if (path / _OLDER).is_file():
        with np.load(path / _OLDER, allow_pickle=False) as found:
            return {"params_": dict(found)}
    structures = content.get("structures", {})
    arrays = load_arrays(path / "arrays") if structures else {}
    is_shape = lambda leaf: isinstance(leaf, tuple) and len(leaf) == 2 and isinstance(leaf[1], str)
    trees = {}
    for name, structure in structures.items():
        shapes, tree = jax.tree.flatten(structure, is_leaf=is_shape)
        leaves = [arrays.get(f"{name}{i}", np.zeros(*shape)) for i, shape in enumerate(shapes)]
        trees[name] = jax.tree.unflatten(tree, leaves)
    return trees
