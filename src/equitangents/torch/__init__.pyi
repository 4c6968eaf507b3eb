"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .estimators import Ensemble, EnsembleClassifier
from .kernel import ModuleKernel
from .modules import member_seeds

__all__ = [
    "Ensemble",
    "EnsembleClassifier",
    "ModuleKernel",
    "member_seeds",
]
