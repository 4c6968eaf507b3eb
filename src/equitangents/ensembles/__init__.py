"""Two ensembles behind one interface: infinitely wide networks in closed form, and finite ones trained together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "DeepEnsemble": "equitangents.ensembles.deep",
    "DeepEnsembleClassifier": "equitangents.ensembles.deep_classifier",
    "InfiniteEnsemble": "equitangents.ensembles.infinite",
    "InfiniteEnsembleClassifier": "equitangents.ensembles.infinite_classifier",
}

__all__ = ["DeepEnsemble", "DeepEnsembleClassifier", "InfiniteEnsemble", "InfiniteEnsembleClassifier"]

if TYPE_CHECKING:
    from equitangents.ensembles.deep import DeepEnsemble
    from equitangents.ensembles.deep_classifier import DeepEnsembleClassifier
    from equitangents.ensembles.infinite import InfiniteEnsemble
    from equitangents.ensembles.infinite_classifier import InfiniteEnsembleClassifier


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'equitangents.ensembles' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
