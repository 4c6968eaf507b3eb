"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .deep import DeepEnsemble, DeepEnsembleClassifier
from .infinite.classifier import InfiniteEnsembleClassifier
from .infinite.regressor import InfiniteEnsemble
from .networks import Variables
from .orbits import orbit_law
from .streaming import predict_to_file
from .training.variations import Bootstrap, NNGPPosterior, NTKPosterior, TangentPrior, Variation, ZeroOutput

__all__ = [
    "Bootstrap",
    "DeepEnsemble",
    "DeepEnsembleClassifier",
    "InfiniteEnsemble",
    "InfiniteEnsembleClassifier",
    "NNGPPosterior",
    "NTKPosterior",
    "TangentPrior",
    "Variables",
    "Variation",
    "ZeroOutput",
    "orbit_law",
    "predict_to_file",
]
