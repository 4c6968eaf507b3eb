"""Two ensembles behind one interface: infinitely wide networks in closed form, and finite ones trained together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "DeepEnsemble": "equitangents.ensembles.deep",
    "DeepEnsembleClassifier": "equitangents.ensembles.deep_classifier",
    "InfiniteEnsemble": "equitangents.ensembles.infinite",
    "InfiniteEnsembleClassifier": "equitangents.ensembles.infinite_classifier",
    "OrbitLaw": "equitangents.ensembles.orbit_draws",
    "OrbitMoments": "equitangents.ensembles.orbit_covariance",
    "OrbitStatistic": "equitangents.ensembles.orbit_statistics",
    "OrbitStatistics": "equitangents.ensembles.orbit_statistics",
    "TrainingState": "equitangents.ensembles.loop",
    "orbit_law": "equitangents.ensembles.orbit_draws",
    "orbit_moments": "equitangents.ensembles.orbit_covariance",
}

__all__ = [
    "DeepEnsemble",
    "DeepEnsembleClassifier",
    "InfiniteEnsemble",
    "InfiniteEnsembleClassifier",
    "OrbitLaw",
    "OrbitMoments",
    "OrbitStatistic",
    "OrbitStatistics",
    "TrainingState",
    "orbit_law",
    "orbit_moments",
]

if TYPE_CHECKING:
    from equitangents.ensembles.deep import DeepEnsemble
    from equitangents.ensembles.deep_classifier import DeepEnsembleClassifier
    from equitangents.ensembles.infinite import InfiniteEnsemble
    from equitangents.ensembles.infinite_classifier import InfiniteEnsembleClassifier
    from equitangents.ensembles.loop import TrainingState
    from equitangents.ensembles.orbit_covariance import OrbitMoments, orbit_moments
    from equitangents.ensembles.orbit_draws import OrbitLaw, orbit_law
    from equitangents.ensembles.orbit_statistics import OrbitStatistic, OrbitStatistics


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'equitangents.ensembles' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
