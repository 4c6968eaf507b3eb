"""Ensembles behind one interface: infinitely wide networks in closed form, and finite ones trained together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "BaggedInfiniteEnsemble": "equitangents.ensembles.infinite.bagging",
    "Bootstrap": "equitangents.ensembles.training.variations",
    "DeepEnsemble": "equitangents.ensembles.deep.regressor",
    "DeepEnsembleClassifier": "equitangents.ensembles.deep.classifier",
    "InfiniteEnsemble": "equitangents.ensembles.infinite.regressor",
    "InfiniteEnsembleClassifier": "equitangents.ensembles.infinite.classifier",
    "NNGPPosterior": "equitangents.ensembles.training.variations",
    "NTKPosterior": "equitangents.ensembles.training.variations",
    "OrbitLaw": "equitangents.ensembles.orbits.draws",
    "OrbitMoments": "equitangents.ensembles.orbits.covariance",
    "OrbitStatistic": "equitangents.ensembles.orbits.statistics",
    "OrbitStatistics": "equitangents.ensembles.orbits.statistics",
    "TangentPrior": "equitangents.ensembles.training.variations",
    "TrainingState": "equitangents.ensembles.training.loop",
    "Variation": "equitangents.ensembles.training.variations",
    "orbit_law": "equitangents.ensembles.orbits.draws",
    "orbit_moments": "equitangents.ensembles.orbits.covariance",
    "tangent_prior": "equitangents.ensembles.training.variations",
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
    from equitangents.ensembles.deep.classifier import DeepEnsembleClassifier
    from equitangents.ensembles.deep.regressor import DeepEnsemble
    from equitangents.ensembles.infinite.bagging import BaggedInfiniteEnsemble
    from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
    from equitangents.ensembles.infinite.regressor import InfiniteEnsemble
    from equitangents.ensembles.orbits.covariance import OrbitMoments, orbit_moments
    from equitangents.ensembles.orbits.draws import OrbitLaw, orbit_law
    from equitangents.ensembles.orbits.statistics import OrbitStatistic, OrbitStatistics
    from equitangents.ensembles.training.loop import TrainingState
    from equitangents.ensembles.training.variations import (
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
