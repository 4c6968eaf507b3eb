"""Equitangents: what a neural network learns from symmetric data, exactly and at scale.

Everything public is reached from here and imported when first used, so that `import equitangents` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from equitangents._version import __version__

_SUBMODULES = (
    "actions",
    "audit",
    "data",
    "ensembles",
    "errors",
    "groups",
    "inference",
    "kernels",
    "metrics",
    "molecules",
    "nn",
    "planning",
    "report",
    "sphere",
    "studies",
)
_NAMES = {
    "DeepEnsemble": "equitangents.ensembles.deep.regressor",
    "DeepEnsembleClassifier": "equitangents.ensembles.deep.classifier",
    "InfiniteEnsemble": "equitangents.ensembles.infinite.regressor",
    "InfiniteEnsembleClassifier": "equitangents.ensembles.infinite.classifier",
    "EquitangentsError": "equitangents.errors",
    "plan_ensemble": "equitangents.planning.members",
}

__all__ = [*_SUBMODULES, *_NAMES, "__version__"]

if TYPE_CHECKING:
    from equitangents import (
        actions,
        audit,
        data,
        ensembles,
        errors,
        groups,
        inference,
        kernels,
        metrics,
        molecules,
        nn,
        planning,
        report,
        sphere,
        studies,
    )
    from equitangents.ensembles.deep.classifier import DeepEnsembleClassifier
    from equitangents.ensembles.deep.regressor import DeepEnsemble
    from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
    from equitangents.ensembles.infinite.regressor import InfiniteEnsemble
    from equitangents.errors import EquitangentsError
    from equitangents.planning.members import plan_ensemble


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"equitangents.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'equitangents' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
