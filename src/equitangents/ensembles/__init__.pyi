"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .deep.classifier import DeepEnsembleClassifier
from .deep.records import Checkpoints, Training
from .deep.regressor import DeepEnsemble
from .infinite.bagging import BaggedInfiniteEnsemble
from .infinite.classifier import InfiniteEnsembleClassifier
from .infinite.regressor import InfiniteEnsemble
from .networks.foreign import Variables
from .orbits.covariance import orbit_moments
from .orbits.draws import orbit_law
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
