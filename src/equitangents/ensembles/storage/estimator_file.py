"""A folder that holds a fitted estimator: parameters and fitted state as JSON, arrays with checksums; no pickle in it.

What JSON and arrays cannot describe, such as networks of other libraries, optimizers and functions, is left out, and
given again when it is loaded. Versions before wrote a pickle, which is read only if it is trusted.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from equitangents._version import __version__
from equitangents.array_files import PICKLED
from equitangents.ensembles.storage.array_folder import ABOUT, read_about, read_array, write_folder
from equitangents.ensembles.storage.attribute_types import check_of
from equitangents.ensembles.storage.structure import Described, build, check_attributes
from equitangents.errors import InvalidArgumentError, InvalidTypeError, StoreError

PICKLE = "estimator.pkl"  # of versions before
_FORMAT = 2
_ABOUT = {"class": "text", "parameters": "{any}", "left_out": "(text)", "state": "any", "arrays": "(any)"}


def check_place(path: Path) -> None:
    """Refuse to replace what is not a saved ensemble."""
    if path.exists() and not any((path / name).is_file() for name in (ABOUT, PICKLE)):
        raise InvalidArgumentError(f"path is {path}, which exists and is not a saved ensemble; choose another")


def describable(cls: type, name: str, value: object) -> bool:
    """Whether a parameter can be saved."""
    try:
        Described(value)
        check_attributes(cls, {name: value})
    except InvalidTypeError:
        return False
    return True


def write(estimator: Any, path: Path, parameters: Mapping[str, Any], more: Collection[str], state: Any) -> None:
    """Write an estimator's parameters and state; `more` names parameters that are left out whatever they are."""
    cls = type(estimator)
    whole = {name: value for name, value in parameters.items() if describable(cls, name, value) and name not in more}
    check_attributes(cls, state)
    described = Described(state)
    trees = {name: Described(value, beside=described).tree for name, value in whole.items()}
    about = {
        "format": _FORMAT,
        "version": __version__,
        "class": cls.__name__,
        "parameters": trees,
        "left_out": [name for name in parameters if name not in whole],
        "state": described.tree,
    }
    write_folder(path, about, described.arrays)


def read(cls: type, path: Path, trust: bool) -> dict[str, Any]:
    """The `parameters`, what was `left_out`, and the `state` in the folder of an estimator of class `cls`.

    StoreError for a folder that is damaged or of a version before, unless `trust`, which unpickles those.
    """
    said = f"path is {str(path)!r}, which"
    if not (path / ABOUT).is_file():
        if not (path / PICKLE).is_file():
            raise InvalidArgumentError(f"path is {path}, which is not a directory that save wrote")
        if not trust:
            raise StoreError(
                f"{said} was saved by an older version, and is not loaded: {PICKLED}; trust=True loads it all the same"
            )
        return _unpickled(cls, path)
    about = read_about(path, said)
    wrong = [name for name, words in _ABOUT.items() if name not in about or not check_of(words)(about[name], ())]
    if wrong:
        raise StoreError(f"{said} is damaged, or not an ensemble that was saved: {wrong[0]} is not as written")
    _check_class(cls, path, about["class"])
    if about.get("format") != _FORMAT:
        raise StoreError(
            f"{said} was saved by equitangents {about.get('version')} in format {about.get('format')!r}; this version "
            f"reads format {_FORMAT}"
        )
    arrays: Any = Arrays(path, about, said)
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


def refuse_missing(missing: Sequence[str]) -> None:
    """Say which parameters were not saved, and how to give them."""
    if missing:
        raise InvalidArgumentError(
            f"{', '.join(missing)} could not be saved with this ensemble; give it: load(path, {missing[0]}=...)"
        )


class Arrays:
    """Arrays of a folder, read as they are asked for."""

    def __init__(self, path: Path, about: dict[str, Any], said: str) -> None:
        self._from, self._read = (path, about, said), dict[int, Any]()

    def __getitem__(self, number: int) -> Any:
        if number not in self._read:
            path, about, said = self._from
            self._read[number] = read_array(path, about, number, said)
        return self._read[number]


def _check_class(cls: type, path: Path, name: str) -> None:
    if name != cls.__name__:
        raise InvalidArgumentError(f"path is {path}, which holds a {name}, not a {cls.__name__}")


def _unpickled(cls: type, path: Path) -> dict[str, Any]:
    """What versions before wrote; their arrays lie beside it."""
    try:
        content: dict[str, Any] = pickle.loads((path / PICKLE).read_bytes())
        parameters = {name: pickle.loads(value) for name, value in content["parameters"].items()}
    except Exception as error:  # whatever bytes that are not what they were make the unpickler raise
        raise StoreError(f"path is {str(path)!r}, whose {PICKLE} cannot be unpickled: {error}") from None
    _check_class(cls, path, content["class"])
    return content | {"parameters": parameters}
