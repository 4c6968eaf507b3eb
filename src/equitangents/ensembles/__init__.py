"""Ensembles behind one interface: infinitely wide networks in closed form, and finite ones trained together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "BaggedInfiniteEnsemble": "equitangents.ensembles.bagging",
    "Bootstrap": "equitangents.ensembles.variations",
    "DeepEnsemble": "equitangents.ensembles.deep",
    "DeepEnsembleClassifier": "equitangents.ensembles.deep_classifier",
    "InfiniteEnsemble": "equitangents.ensembles.infinite",
    "InfiniteEnsembleClassifier": "equitangents.ensembles.infinite_classifier",
    "NNGPPosterior": "equitangents.ensembles.variations",
    "NTKPosterior": "equitangents.ensembles.variations",
    "OrbitLaw": "equitangents.ensembles.orbit_draws",
    "OrbitMoments": "equitangents.ensembles.orbit_covariance",
    "OrbitStatistic": "equitangents.ensembles.orbit_statistics",
    "OrbitStatistics": "equitangents.ensembles.orbit_statistics",
    "TangentPrior": "equitangents.ensembles.variations",
    "TrainingState": "equitangents.ensembles.loop",
    "Variation": "equitangents.ensembles.variations",
    "orbit_law": "equitangents.ensembles.orbit_draws",
    "orbit_moments": "equitangents.ensembles.orbit_covariance",
    "tangent_prior": "equitangents.ensembles.variations",
}

__all__ = [
    "BaggedInfiniteEnsemble",
    "Bootstrap",
    "DeepEnsemble",
    "DeepEnsembleClassifier",
    "InfiniteEnsemble",
    "InfiniteEnsembleClassifier",
    "NNGPPosterior",
    "NTKPosterior",
    "OrbitLaw",
    "OrbitMoments",
    "OrbitStatistic",
    "OrbitStatistics",
    "TangentPrior",
    "TrainingState",
    "Variation",
    "orbit_law",
    "orbit_moments",
    "tangent_prior",
]

if TYPE_CHECKING:
    from equitangents.ensembles.bagging import BaggedInfiniteEnsemble
    from equitangents.ensembles.deep import DeepEnsemble
    from equitangents.ensembles.deep_classifier import DeepEnsembleClassifier
    from equitangents.ensembles.infinite import InfiniteEnsemble
    from equitangents.ensembles.infinite_classifier import InfiniteEnsembleClassifier
    from equitangents.ensembles.loop import TrainingState
    from equitangents.ensembles.orbit_covariance import OrbitMoments, orbit_moments
    from equitangents.ensembles.orbit_draws import OrbitLaw, orbit_law
    from equitangents.ensembles.orbit_statistics import OrbitStatistic, OrbitStatistics
    from equitangents.ensembles.variations import (
        Bootstrap,
        NNGPPosterior,
        NTKPosterior,
        TangentPrior,
        Variation,
        tangent_prior,
    )


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'equitangents.ensembles' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
