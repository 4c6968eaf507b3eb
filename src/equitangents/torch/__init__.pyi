"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .classifier import EnsembleClassifier
from .kernel import EmpiricalKernel
from .regressor import Ensemble
from .seeds import member_seeds

__all__ = [
    "EmpiricalKernel",
    "Ensemble",
    "EnsembleClassifier",
    "member_seeds",
]
