"""A fitted estimator in a folder: parameters and state as JSON, members' variables as arrays with checksums; no pickle.

What JSON and arrays cannot describe, such as networks of other libraries, optimizers and functions, is left out, and
given again when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator

from equitangents._types import Tree
from equitangents._version import FORMAT, __version__
from equitangents.ensembles.storage.array_folder import MODEL, Arrays, check_place, read_about, write_folder
from equitangents.ensembles.storage.checks import check_of
from equitangents.ensembles.storage.structure import Described, build, check_attributes
from equitangents.errors import InvalidArgumentError, InvalidTypeError, StoreError
from equitangents.keywords import check_keywords

_ABOUT = {"class": "text", "parameters": "{any}", "left_out": "(text)", "state": "any"}
_TREES = ("params_", "params0_")  # members' variables, in the form that their network has them
# what predictions of trained members need
_PREDICT = ("history_", "n_outputs_", "sample_shape_", "params0_", "_variation", "_chunk")
_NOT_SAVED = ("callback", "executor", "progress")  # functions, and what belongs to a process


def save(estimator: BaseEstimator, path: Path) -> None:
    """Write a fitted estimator; see FiniteEnsemble.save."""
    check_place(path)
    own = estimator.get_params(deep=False)
    given = {name: value for name, value in own.items() if name not in _NOT_SAVED or value is not None}
    state = {name: value for name, value in vars(estimator).items() if name not in own}
    for name in _TREES:  # of a form that only its network has, the leaves
        state[name] = jax.tree.map(np.asarray, state[name])
        if not describable(type(estimator), name, state[name]):
            state[f"{name}leaves"] = jax.tree.leaves(state.pop(name))
    write(estimator, path, given, _NOT_SAVED, state)


def load(
    cls: type[BaseEstimator], path: Path, replacements: dict[str, Any], form: Callable[[BaseEstimator], Tree]
) -> BaseEstimator:
    """Read a fitted estimator of class `cls`, see FiniteEnsemble.load; `form` is that of its members' variables."""
    content = read(cls, path)
    missing = [name for name in content["left_out"] if name not in (*replacements, *_NOT_SAVED)]
    if missing:
        raise InvalidArgumentError(
            missing[0], None, "what could not be saved with this ensemble", f"give it: load(path, {missing[0]}=...)"
        )
    check_keywords(cls, replacements)
    first = [name for name in content["left_out"] if name in replacements]
    estimator = cls(**content["parameters"], **{name: replacements[name] for name in first})
    estimator.set_params(**{name: value for name, value in replacements.items() if name not in first})
    state = content["state"]
    leaves = {name: state.pop(f"{name}leaves") for name in _TREES if f"{name}leaves" in state}
    vars(estimator).update(state)
    if "params_" in (*state, *leaves):
        lacking = [name for name in _PREDICT if name not in (*state, *leaves)]
        if lacking:
            raise StoreError(
                "path", str(path), "all that predictions need", f"it lacks {lacking[0]}; fit the model again"
            )
    for name, values in leaves.items():
        structure: Any = jax.tree.structure(form(estimator))
        if structure.num_leaves != len(values):
            raise InvalidArgumentError(
                "net", structure.num_leaves, len(values), "the network that was saved", verb="has arrays of variables,"
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


def write(
    estimator: BaseEstimator, path: Path, parameters: Mapping[str, Any], more: Collection[str], state: dict[str, Any]
) -> None:
    """Write an estimator's parameters and state; `more` names parameters that are left out whatever they are."""
    cls = type(estimator)
    whole = {name: value for name, value in parameters.items() if describable(cls, name, value) and name not in more}
    check_attributes(cls, state)
    described = Described(state)
    trees = {name: Described(value, beside=described).tree for name, value in whole.items()}
    about = {
        "format": FORMAT,
        "version": __version__,
        "class": cls.__name__,
        "parameters": trees,
        "left_out": [name for name in parameters if name not in whole],
        "state": described.tree,
    }
    write_folder(path, about, described.arrays)


def read(cls: type, path: Path) -> dict[str, Any]:
    """The `parameters`, what was `left_out`, and the `state` in the folder of an estimator of class `cls`.

    StoreError for a folder that is damaged.
    """
    said = f"path is {str(path)!r}, which"
    if not (path / MODEL).is_file():
        raise InvalidArgumentError("path", str(path), "a directory that save wrote")
    about = read_about(path, said)
    if isinstance(about.get("class"), str):  # first: folders of others hold something else
        _check_class(cls, path, about["class"])
    wrong = [name for name, words in _ABOUT.items() if name not in about or not check_of(words)(about[name], ())]
    if wrong:
        raise StoreError(f"{said} is damaged, or not an ensemble that was saved: {wrong[0]} is not as written")
    if about.get("format") != FORMAT:
        raise StoreError(
            f"{said} was saved by equitangents {about.get('version')} in format {about.get('format')!r}; this version "
            f"reads format {FORMAT}"
        )
    arrays: Any = Arrays(about, said)
    try:
        parameters = {name: build(tree, arrays) for name, tree in about["parameters"].items()}
        state = build(about["state"], arrays)
        check_attributes(cls, parameters)
        check_attributes(cls, state)
    except (ValueError, InvalidTypeError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{said} cannot be read: {error}") from None
    return {"parameters": parameters, "left_out": about["left_out"], "state": state}


def _check_class(cls: type, path: Path, name: str) -> None:
    if name != cls.__name__:
        articled = [f"{'an' if word[:1] in 'AEIOU' else 'a'} {word}" for word in (name, cls.__name__)]
        raise InvalidArgumentError(
            f"path is {path}, which holds {articled[0]}, not {articled[1]}; load it by {name}.load"
        )
