"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .deep.estimators import DeepEnsemble, DeepEnsembleClassifier
from .deep.records import Checkpoints, Training
from .infinite.bagging import BaggedInfiniteEnsemble
from .infinite.classifier import InfiniteEnsembleClassifier
from .infinite.regressor import InfiniteEnsemble
from .networks.foreign import Variables
from .orbits.law import orbit_law, orbit_moments
from .streaming.to_file import predict_to_file
from .training.variations import Bootstrap, NNGPPosterior, NTKPosterior, Variation, tangent_prior

__all__ = [
    "BaggedInfiniteEnsemble",
    "Bootstrap",
    "Checkpoints",
    "DeepEnsemble",
    "DeepEnsembleClassifier",
    "InfiniteEnsemble",
    "InfiniteEnsembleClassifier",
    "NNGPPosterior",
    "NTKPosterior",
    "Training",
    "Variables",
    "Variation",
    "orbit_law",
    "orbit_moments",
    "predict_to_file",
    "tangent_prior",
]
