"""A fitted estimator in a folder: parameters and state as JSON, members' variables as arrays with checksums; no pickle.

What JSON and arrays cannot describe, such as networks of other libraries, optimizers and functions, is left out, and
given again when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator

from equitangents._types import Tree
from equitangents._version import FORMAT, __version__
from equitangents.ensembles.storage.array_folder import check_place, damaged, read_model, write_folder
from equitangents.ensembles.storage.structure import Described, build, check_attributes
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.keywords import check_keywords

_ABOUT = {"class": "text", "parameters": "{any}", "left_out": "(text)", "state": "any"}
_TREES = ("params_", "params0_")  # members' variables, in the form that their network has them
# what predictions of trained members need
_PREDICT = ("history_", "n_outputs_", "sample_shape_", "params0_", "_variation", "_chunk")
_NOT_SAVED = ("callback", "executor", "progress")  # functions, and what belongs to a process


def save(estimator: BaseEstimator, path: Path) -> None:
    """Write a fitted estimator; see FiniteEnsemble.save."""
    check_place(path)
    own, cls = estimator.get_params(deep=False), type(estimator)
    given = {name: value for name, value in own.items() if name not in _NOT_SAVED or value is not None}
    state = {name: value for name, value in vars(estimator).items() if name not in own}
    for name in _TREES:  # of a form that only its network has, the leaves
        state[name] = jax.tree.map(np.asarray, state[name])
        if not describable(cls, name, state[name]):
            state[f"{name}leaves"] = jax.tree.leaves(state.pop(name))
    whole = {name: value for name, value in given.items() if name not in _NOT_SAVED and describable(cls, name, value)}
    check_attributes(cls, state)
    described = Described(state)
    about = {
        "format": FORMAT,
        "version": __version__,
        "class": cls.__name__,
        "parameters": {name: Described(value, beside=described).tree for name, value in whole.items()},
        "left_out": [name for name in given if name not in whole],
        "state": described.tree,
    }
    write_folder(path, about, described.arrays)


def load(
    cls: type[BaseEstimator], path: Path, replacements: dict[str, Any], form: Callable[[BaseEstimator], Tree]
) -> BaseEstimator:
    """Read a fitted estimator of class `cls`, see FiniteEnsemble.load; `form` is that of its members' variables."""
    about = read_model(path, [cls.__name__], _ABOUT, {"format": FORMAT})
    try:
        parameters = {name: build(tree, about.array) for name, tree in about["parameters"].items()}
        state = build(about["state"], about.array)
        check_attributes(cls, parameters)
        check_attributes(cls, state)
    except (ValueError, InvalidTypeError) as error:
        raise damaged(path, error) from None
    missing = [name for name in about["left_out"] if name not in (*replacements, *_NOT_SAVED)]
    if missing:
        raise InvalidArgumentError(
            missing[0], None, "what could not be saved with the ensemble", f"give it: load(path, {missing[0]}=...)"
        )
    check_keywords(cls, replacements)
    first = [name for name in about["left_out"] if name in replacements]
    estimator = cls(**parameters, **{name: replacements[name] for name in first})
    estimator.set_params(**{name: value for name, value in replacements.items() if name not in first})
    leaves = {name: state.pop(f"{name}leaves") for name in _TREES if f"{name}leaves" in state}
    vars(estimator).update(state)
    if "params_" in (*state, *leaves):
        lacking = [name for name in _PREDICT if name not in (*state, *leaves)]
        if lacking:
            raise damaged(path, f"{lacking[0]} is missing, which predictions need")
    for name, values in leaves.items():
        structure: Any = jax.tree.structure(form(estimator))
        if structure.num_leaves != len(values):
            raise InvalidArgumentError(
                "net", estimator.net, "the network that was saved", "the numbers of its arrays of variables differ"
            )
        setattr(estimator, name, jax.tree.unflatten(structure, values))
    return estimator


def describable(cls: type, name: str, value: object) -> bool:
    """Whether a parameter can be saved."""
    try:
        Described(value)
        check_attributes(cls, {name: value})
    except InvalidTypeError:
        return False
    return True
