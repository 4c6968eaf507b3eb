"""A directory that holds a fitted estimator: estimator.pkl with everything small, and arrays beside it.

The directory is written next to its place and renamed when complete.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from equitangents._version import __version__
from equitangents.ensembles.storage.arrays import directory_beside, replace_directory
from equitangents.errors import InvalidArgumentError

_FILE = "estimator.pkl"


def pickled(value: object) -> bytes | None:
    """The pickled value, or None if it cannot be pickled."""
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def pickled_parameters(given: Mapping[str, object]) -> tuple[dict[str, bytes], list[str]]:
    """Parameters pickled one by one, and the names of those that cannot be."""
    parameters, left_out = {}, []
    for name, value in given.items():
        data = pickled(value)
        if data is None:
            left_out.append(name)
        else:
            parameters[name] = data
    return parameters, left_out


def check_place(path: Path) -> None:
    """Refuse to replace what is not a saved ensemble."""
    if path.exists() and not (path / _FILE).is_file():
        raise InvalidArgumentError(f"path is {path}, which exists and is not a saved ensemble; choose another")


def write(cls: type, path: Path, content: Mapping[str, Any], write_arrays: Callable[[Path], None]) -> None:
    """Write `content`, with the class and this version, and what `write_arrays` puts into the new directory."""
    new = directory_beside(path)
    try:
        write_arrays(new)
        (new / _FILE).write_bytes(pickle.dumps({"class": cls.__name__, "version": __version__, **content}))
        replace_directory(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def read(cls: type, path: Path) -> dict[str, Any]:
    """The content of the directory of an estimator of class `cls`, its parameters unpickled."""
    if not (path / _FILE).is_file():
        raise InvalidArgumentError(f"path is {path}, which is not a directory that save wrote")
    content: dict[str, Any] = pickle.loads((path / _FILE).read_bytes())
    if content["class"] != cls.__name__:
        raise InvalidArgumentError(f"path is {path}, which holds a {content['class']}, not a {cls.__name__}")
    parameters = {name: pickle.loads(value) for name, value in content["parameters"].items()}
    return content | {"parameters": parameters}


def refuse_missing(missing: Sequence[str]) -> None:
    """Say which parameters were not saved, and how to give them."""
    if missing:
        raise InvalidArgumentError(
            f"{', '.join(missing)} could not be saved with this ensemble; give it: load(path, {missing[0]}=...)"
        )
