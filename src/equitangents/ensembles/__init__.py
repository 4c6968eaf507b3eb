"""Ensembles behind one interface: infinitely wide networks in closed form, and finite ones trained together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

_NAMES = {
    "deep.classifier": ["DeepEnsembleClassifier"],
    "deep.records": ["Checkpoints", "Training"],
    "deep.regressor": ["DeepEnsemble"],
    "infinite.bagging": ["BaggedInfiniteEnsemble"],
    "infinite.classifier": ["InfiniteEnsembleClassifier"],
    "infinite.leave_one_out": ["LabelsLeftOut", "LeaveOneOut"],
    "infinite.regressor": ["InfiniteEnsemble"],
    "infinite.refining": ["Refined"],
    "infinite.tuned": ["Candidate", "Tuning"],
    "networks.foreign": ["Variables"],
    "orbits.covariance": ["OrbitMoments", "orbit_moments"],
    "orbits.draws": ["OrbitLaw", "orbit_law"],
    "orbits.statistics": ["OrbitStatistic", "OrbitStatistics"],
    "streaming.to_file": ["predict_to_file"],
    "training.loop": ["TrainingState"],
    "training.variations": ["Bootstrap", "NNGPPosterior", "NTKPosterior", "TangentPrior", "Variation", "tangent_prior"],
}

__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_NAMES)

__all__ = [
    "BaggedInfiniteEnsemble",
    "Bootstrap",
    "Candidate",
    "Checkpoints",
    "DeepEnsemble",
    "DeepEnsembleClassifier",
    "InfiniteEnsemble",
    "InfiniteEnsembleClassifier",
    "LabelsLeftOut",
    "LeaveOneOut",
    "NNGPPosterior",
    "NTKPosterior",
    "OrbitLaw",
    "OrbitMoments",
    "OrbitStatistic",
    "OrbitStatistics",
    "Refined",
    "TangentPrior",
    "Training",
    "TrainingState",
    "Tuning",
    "Variables",
    "Variation",
    "orbit_law",
    "orbit_moments",
    "predict_to_file",
    "tangent_prior",
]

if TYPE_CHECKING:
    from equitangents.ensembles.deep.classifier import DeepEnsembleClassifier
    from equitangents.ensembles.deep.records import Checkpoints, Training
    from equitangents.ensembles.deep.regressor import DeepEnsemble
    from equitangents.ensembles.infinite.bagging import BaggedInfiniteEnsemble
    from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
    from equitangents.ensembles.infinite.leave_one_out import LabelsLeftOut, LeaveOneOut
    from equitangents.ensembles.infinite.refining import Refined
    from equitangents.ensembles.infinite.regressor import InfiniteEnsemble
    from equitangents.ensembles.infinite.tuned import Candidate, Tuning
    from equitangents.ensembles.networks.foreign import Variables
    from equitangents.ensembles.orbits.covariance import OrbitMoments, orbit_moments
    from equitangents.ensembles.orbits.draws import OrbitLaw, orbit_law
    from equitangents.ensembles.orbits.statistics import OrbitStatistic, OrbitStatistics
    from equitangents.ensembles.streaming.to_file import predict_to_file
    from equitangents.ensembles.training.loop import TrainingState
    from equitangents.ensembles.training.variations import (
        Bootstrap,
        NNGPPosterior,
        NTKPosterior,
        TangentPrior,
        Variation,
        tangent_prior,
    )


def __dir__() -> list[str]:
    return sorted(__all__)
