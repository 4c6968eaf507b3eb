"""A fitted ensemble of PyTorch modules in a directory: arrays.npz, and estimator.pkl with everything small.

The directory is written next to its place and renamed when complete.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._version import __version__
from equitangents.ensembles.storage.arrays import replace_directory
from equitangents.errors import InvalidArgumentError

_FILE, _ARRAYS = "estimator.pkl", "arrays.npz"


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator; parameters that cannot be pickled are left out."""
    if path.exists() and not (path / _FILE).is_file():
        raise InvalidArgumentError(f"path is {path}, which exists and is no saved ensemble; choose another")
    parameters, left_out = {}, []
    for name, value in estimator.get_params(deep=False).items():
        try:
            parameters[name] = pickle.dumps(value)
        except (pickle.PicklingError, AttributeError, TypeError):
            left_out.append(name)
    own = estimator.get_params(deep=False)
    state = {name: value for name, value in vars(estimator).items() if name not in own and name != "params_"}
    content = {
        "class": type(estimator).__name__,
        "version": __version__,
        "parameters": parameters,
        "left_out": left_out,
        "state": state,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        np.savez(new / _ARRAYS, **estimator.params_)
        (new / _FILE).write_bytes(pickle.dumps(content))
        replace_directory(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def load(cls: Any, path: Path, replacements: dict[str, Any]) -> Any:
    """Read a fitted estimator of class `cls`."""
    if not (path / _FILE).is_file():
        raise InvalidArgumentError(f"path is {path}, which is no directory that save wrote")
    content = pickle.loads((path / _FILE).read_bytes())
    if content["class"] != cls.__name__:
        raise InvalidArgumentError(f"path is {path}, which holds a {content['class']}, not a {cls.__name__}")
    parameters = {name: pickle.loads(value) for name, value in content["parameters"].items()} | replacements
    missing = [name for name in content["left_out"] if name not in parameters]
    if missing:
        raise InvalidArgumentError(
            f"{', '.join(missing)} could not be saved with this ensemble; give it: load(path, {missing[0]}=...)"
        )
    estimator = cls(**parameters)
    with np.load(path / _ARRAYS) as arrays:
        estimator.params_ = dict(arrays)
    vars(estimator).update(content["state"])
    return estimator
