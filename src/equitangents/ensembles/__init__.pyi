"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .deep.estimators import DeepEnsemble, DeepEnsembleClassifier
from .infinite.bagging import BaggedInfiniteEnsemble
from .infinite.classifier import InfiniteEnsembleClassifier
from .infinite.regressor import InfiniteEnsemble
from .networks.foreign import Variables
from .orbits import orbit_law
from .streaming import predict_to_file
from .training.variations import Bootstrap, NNGPPosterior, NTKPosterior, Variation, tangent_prior

__all__ = [
    "BaggedInfiniteEnsemble",
    "Bootstrap",
    "DeepEnsemble",
    "DeepEnsembleClassifier",
    "InfiniteEnsemble",
    "InfiniteEnsembleClassifier",
    "NNGPPosterior",
    "NTKPosterior",
    "Variables",
    "Variation",
    "orbit_law",
    "predict_to_file",
    "tangent_prior",
]
