"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .deep.estimators import DeepEnsemble, DeepEnsembleClassifier
from .deep.records import Checkpoints, Training
from .infinite.bagging import BaggedInfiniteEnsemble
from .infinite.classifier import InfiniteEnsembleClassifier
from .infinite.leave_one_out import LabelsLeftOut, LeaveOneOut
from .infinite.refining import Refined
from .infinite.regressor import InfiniteEnsemble
from .infinite.tuning import Candidate, Tuning
from .networks.foreign import Variables
from .orbits.law import OrbitLaw, OrbitMoments, orbit_law, orbit_moments
from .orbits.statistics import OrbitStatistic, OrbitStatistics
from .streaming.to_file import predict_to_file
from .training.run import TrainingState
from .training.variations import Bootstrap, NNGPPosterior, NTKPosterior, TangentPrior, Variation, tangent_prior

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
