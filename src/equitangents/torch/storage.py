"""A fitted ensemble of PyTorch modules in a directory: weights in arrays.npz, the rest in estimator.pkl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from equitangents.ensembles.storage import estimator_file

_ARRAYS = "arrays.npz"


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator; parameters that cannot be pickled are left out."""
    estimator_file.check_place(path)
    own = estimator.get_params(deep=False)
    parameters, left_out = estimator_file.pickled_parameters(own)
    state = {name: value for name, value in vars(estimator).items() if name not in own and name != "params_"}
    content = {"parameters": parameters, "left_out": left_out, "state": state}
    estimator_file.write(type(estimator), path, content, lambda new: np.savez(new / _ARRAYS, **estimator.params_))


def load(cls: Any, path: Path, replacements: dict[str, Any]) -> Any:
    """Read a fitted estimator of class `cls`."""
    content = estimator_file.read(cls, path)
    parameters = content["parameters"] | replacements
    estimator_file.refuse_missing([name for name in content["left_out"] if name not in parameters])
    estimator = cls(**parameters)
    with np.load(path / _ARRAYS) as arrays:
        estimator.params_ = dict(arrays)
    vars(estimator).update(content["state"])
    return estimator
