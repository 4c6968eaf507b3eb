"""A fitted ensemble of PyTorch modules in a folder: parameters and state as JSON, weights as arrays with checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from equitangents.ensembles.storage import estimator_file

_OLDER = "arrays.npz"  # of versions before


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator; parameters that are functions or objects of PyTorch are left out."""
    estimator_file.check_place(path)
    own = estimator.get_params(deep=False)
    state = {name: value for name, value in vars(estimator).items() if name not in own}
    estimator_file.write(estimator, path, own, (), state)


def load(cls: Any, path: Path, replacements: dict[str, Any], trust: bool) -> Any:
    """Read a fitted estimator of class `cls`."""
    content = estimator_file.read(cls, path, trust)
    parameters = content["parameters"] | replacements
    estimator_file.refuse_missing([name for name in content["left_out"] if name not in parameters])
    estimator = cls(**parameters)
    if (path / _OLDER).is_file():
        with np.load(path / _OLDER, allow_pickle=False) as arrays:
            estimator.params_ = dict(arrays)
    vars(estimator).update(content["state"])
    return estimator
