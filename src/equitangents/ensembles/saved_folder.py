"""A folder with one file, `model.npz`, an archive that is replaced atomically. Other files in it are not touched.

Parts of a finite ensemble that JSON and arrays cannot describe, such as networks of other libraries, optimizers and
functions, are not saved, and are passed to `load`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator

from equitangents._types import Tree
from equitangents._version import FORMAT, __version__
from equitangents.ensembles.archives import Archive, write_archive
from equitangents.ensembles.saved_objects import EncodedValue, build, check_attributes
from equitangents.errors import InvalidArgumentError, InvalidTypeError, StoreError
from equitangents.files import LEFTOVER, atomic_file, open_regular, real
from equitangents.scale.place import store_errors

MODEL = "model.npz"
_ABOUT = {"class": str, "left_out": list, "state": object}
_TREES = ("params_", "params0_")  # members' variables, in the form that their network has them
# what predictions of trained members need
_PREDICT = ("history_", "n_outputs_", "sample_shape_", "params0_", "_variation", "_chunk")
_NOT_SAVED = ("progress",)  # which may be a function


def check_place(path: Path, name: str = "path") -> None:
    """Raise InvalidArgumentError, which names `name`, if `path` holds something other than a saved ensemble."""
    if (path / MODEL).is_file() or not path.exists():
        return
    if not path.is_dir() or not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir()):
        raise InvalidArgumentError(name, str(path), "a new path, or that of a saved ensemble")


def write_folder(path: Path, about: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Save `about`, a JSON-compatible record, and the arrays in the folder `path` atomically.

    Raises StoreError if the disk is full, or writing is not permitted.
    """
    home = real(path)
    fresh = not home.exists()
    try:
        kept = "; what was saved there before is kept"
        with store_errors(f"{path} cannot be written", kept), atomic_file(home / MODEL) as partial:
            write_archive(partial, about, arrays)
    except BaseException:
        if fresh:
            with contextlib.suppress(OSError):  # another process has saved there
                home.rmdir()
        raise


def read_about(path: Path) -> Archive:
    """The archive written by `write_folder`; StoreError for anything else."""
    try:
        return Archive(open_regular(real(path) / MODEL), path)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError("path", str(path), "the folder of a saved model", f"it holds no {MODEL}") from None
    except OSError as error:
        raise damaged(path, error.strerror or error) from None
    except ValueError as error:
        raise damaged(path, error) from None


def read_model(path: Path, classes: Sequence[str], types: Mapping[str, Any], same: Mapping[str, object]) -> Archive:
    """The record of a saved model of one of `classes`, with entries of these `types`.

    InvalidArgumentError for another class, StoreError for a damaged model, or one that differs in an entry of `same`,
    such as the version.
    """
    about = read_about(path)
    held = about.get("class")
    if isinstance(held, str) and held not in classes:
        raise InvalidArgumentError("path", str(path), list(classes), f"load it by {held}.load", verb=f"holds {held}:")
    for name, value in same.items():
        if about.get(name) != value:
            raise StoreError(
                "path",
                str(path),
                f"a model with {name} {value}",
                f"it was saved with {about.get(name)}: fit the model again, or install that version",
            )
    wrong = [name for name, kind in types.items() if name not in about or not isinstance(about[name], kind)]
    if wrong or not isinstance(held, str):
        raise damaged(path, f"{(*wrong, 'class')[0]} is not as written")
    return about


def damaged(path: object, why: object) -> StoreError:
    """The error for a model that differs from what was saved."""
    return StoreError("path", str(path), "a saved model that can be read", f"{MODEL}: {why}; fit the model again")


def save_members(estimator: BaseEstimator, path: Path) -> None:
    """Write a fitted estimator; see FiniteEnsemble.save."""
    check_place(path)
    own, cls = estimator.get_params(deep=False), type(estimator)
    state = {name: value for name, value in vars(estimator).items() if name not in own}
    for name in _TREES:  # of a form that only its network has, the leaves
        state[name] = jax.tree.map(np.asarray, state[name])
    leaves = {name: jax.tree.leaves(state.pop(name)) for name in _TREES if not _is_describable(state[name])}
    state |= {name: value for name, value in own.items() if name not in _NOT_SAVED and _is_describable(value)}
    check_attributes(cls, state)
    described = EncodedValue(state | {f"{name}leaves": arrays for name, arrays in leaves.items()})
    about = {
        "format": FORMAT,
        "version": __version__,
        "class": cls.__name__,
        "left_out": [name for name in own if name not in (*state, *_NOT_SAVED)],
        "state": described.tree,
    }
    write_folder(path, about, described.arrays)


def load_members(
    cls: type[BaseEstimator], path: Path, replacements: dict[str, Any], form: Callable[[BaseEstimator], Tree]
) -> BaseEstimator:
    """Read a fitted estimator of class `cls`; `form` gives the structure of its variables; see `load`."""
    about = read_model(path, [cls.__name__], _ABOUT, {"format": FORMAT})
    try:
        state = dict(build(about["state"], about.array))
        leaves = {name: list(state.pop(f"{name}leaves")) for name in _TREES if f"{name}leaves" in state}
        check_attributes(cls, state)
    except (ValueError, TypeError) as error:
        raise damaged(path, error) from None
    left_out = [str(name) for name in about["left_out"]]
    missing = [name for name in left_out if name not in replacements]
    if missing:
        raise InvalidArgumentError(
            missing[0], None, "what could not be saved with the ensemble", f"give it: load(path, {missing[0]}=...)"
        )
    lacking = [name for name in _PREDICT if name not in (*state, *leaves)]
    if lacking:
        raise damaged(path, f"{lacking[0]} is missing, which predictions need")
    parameters = {name: state.pop(name) for name in cls._get_param_names() if name in state}
    estimator = cls(**{**parameters, **{name: replacements[name] for name in left_out}})
    estimator.set_params(**replacements)
    vars(estimator).update(state)
    for name, values in leaves.items():
        structure: Any = jax.tree.structure(form(estimator))
        if structure.num_leaves != len(values):
            raise InvalidArgumentError(
                "net", estimator.net, "the network that was saved", "the numbers of its arrays of variables differ"
            )
        setattr(estimator, name, jax.tree.unflatten(structure, values))
    if any(np.ndim(leaf) == 0 for name in _TREES for leaf in jax.tree.leaves(getattr(estimator, name, None))):
        raise damaged(path, "an array of the members' variables has no axis of members")
    return estimator


def _is_describable(value: object) -> bool:
    try:
        EncodedValue(value)
    except InvalidTypeError:
        return False
    return True
