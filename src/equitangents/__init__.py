"""Equitangents: what a neural network learns from symmetric data, exactly and at scale.

Everything public is reached from here and imported when first used, so that `import equitangents` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from equitangents._version import __version__

_SUBMODULES = (
    "actions",
    "audit",
    "contenders",
    "data",
    "ensembles",
    "errors",
    "functional",
    "groups",
    "inference",
    "kernels",
    "metrics",
    "molecules",
    "nn",
    "planning",
    "predict",
    "report",
    "scale",
    "solvers",
    "sphere",
    "stax",
    "steerable",
    "studies",
    "systems",
    "testing",
    "torch",
)
_NAMES = {
    "ensembles.deep.classifier": ["DeepEnsembleClassifier"],
    "ensembles.deep.regressor": ["DeepEnsemble"],
    "ensembles.infinite.classifier": ["InfiniteEnsembleClassifier"],
    "ensembles.infinite.regressor": ["InfiniteEnsemble"],
    "errors": ["EquitangentsError"],
    "functional": [
        "NtkImplementation",
        "batch",
        "empirical_kernel_fn",
        "empirical_nngp_fn",
        "empirical_ntk_fn",
        "linearize",
        "monte_carlo_kernel_fn",
        "taylor_expand",
    ],
    "planning.members": ["plan_ensemble"],
    "stax.kernel": ["Kernel"],
    "stax.missing": ["experimental", "utils"],
    "structured": ["Graphs", "Masked"],
}

__getattr__, _, _lazy = lazy_loader.attach(__name__, _SUBMODULES, _NAMES)

__all__ = [*_lazy, "__version__"]

if TYPE_CHECKING:
    from equitangents import (
        actions,
        audit,
        contenders,
        data,
        ensembles,
        errors,
        functional,
        groups,
        inference,
        kernels,
        metrics,
        molecules,
        nn,
        planning,
        predict,
        report,
        scale,
        solvers,
        sphere,
        stax,
        steerable,
        studies,
        systems,
        testing,
        torch,
    )
    from equitangents.ensembles.deep.classifier import DeepEnsembleClassifier
    from equitangents.ensembles.deep.regressor import DeepEnsemble
    from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
    from equitangents.ensembles.infinite.regressor import InfiniteEnsemble
    from equitangents.errors import EquitangentsError
    from equitangents.functional import (
        NtkImplementation,
        batch,
        empirical_kernel_fn,
        empirical_nngp_fn,
        empirical_ntk_fn,
        linearize,
        monte_carlo_kernel_fn,
        taylor_expand,
    )
    from equitangents.planning.members import plan_ensemble
    from equitangents.stax.kernel import Kernel
    from equitangents.stax.missing import experimental, utils
    from equitangents.structured import Graphs, Masked


def __dir__() -> list[str]:
    return sorted(__all__)
