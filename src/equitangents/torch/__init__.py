"""Ensembles of PyTorch modules, and kernels of one. PyTorch itself is imported when one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

_NAMES = {
    "classifier": ["EnsembleClassifier"],
    "kernel": ["EmpiricalKernel"],
    "regressor": ["Ensemble"],
    "seeds": ["Seeds", "member_seeds"],
}

__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_NAMES)

__all__ = ["EmpiricalKernel", "Ensemble", "EnsembleClassifier", "Seeds", "member_seeds"]

if TYPE_CHECKING:
    from equitangents.torch.classifier import EnsembleClassifier
    from equitangents.torch.kernel import EmpiricalKernel
    from equitangents.torch.regressor import Ensemble
    from equitangents.torch.seeds import Seeds, member_seeds


def __dir__() -> list[str]:
    return sorted(__all__)
