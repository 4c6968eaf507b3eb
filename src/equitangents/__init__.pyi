"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

import equitangents.audit as _audit
import equitangents_studies as studies
import equitangents_studies.baselines as baselines
import equitangents_studies.data as data
import equitangents_studies.systems as systems

from . import (
    actions,
    ensembles,
    errors,
    extending,
    fit,
    groups,
    inference,
    kernels,
    metrics,
    molecules,
    nn,
    predict,
    report,
    scale,
    solvers,
    sphere,
    statistics,
    stax,
    steerable,
    testing,
    torch,
)
from ._version import __version__
from .ensembles.deep import DeepEnsemble, DeepEnsembleClassifier
from .ensembles.infinite.classifier import InfiniteEnsembleClassifier
from .ensembles.infinite.regressor import InfiniteEnsemble
from .errors import EquitangentsError
from .functional import (
    NtkImplementation,
    batch,
    empirical_kernel_fn,
    empirical_nngp_fn,
    empirical_ntk_fn,
    linearize,
    monte_carlo_kernel_fn,
    taylor_expand,
)
from .planning.members import plan_ensemble
from .stax.kernel import Kernel
from .structured import Graphs, Masked

audit: _audit.AuditPackage

__all__ = [
    "DeepEnsemble",
    "DeepEnsembleClassifier",
    "EquitangentsError",
    "Graphs",
    "InfiniteEnsemble",
    "InfiniteEnsembleClassifier",
    "Kernel",
    "Masked",
    "NtkImplementation",
    "__version__",
    "actions",
    "audit",
    "baselines",
    "batch",
    "data",
    "empirical_kernel_fn",
    "empirical_nngp_fn",
    "empirical_ntk_fn",
    "ensembles",
    "errors",
    "extending",
    "fit",
    "groups",
    "inference",
    "kernels",
    "linearize",
    "metrics",
    "molecules",
    "monte_carlo_kernel_fn",
    "nn",
    "plan_ensemble",
    "predict",
    "report",
    "scale",
    "solvers",
    "sphere",
    "statistics",
    "stax",
    "steerable",
    "studies",
    "systems",
    "taylor_expand",
    "testing",
    "torch",
]
