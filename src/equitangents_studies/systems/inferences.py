"""Inference: how a model comes from an architecture and data.

NTK    all layers of infinitely wide networks trained for a time (inf: kernel regression)
NNGP   the last layer alone: at time inf the Bayesian posterior's mean
NN     finite networks by stochastic gradient descent, η = c · 2/λ_max, c = 1
NN+    c = 8 and an L² penalty, λ = 1e-7

λ_max is the largest eigenvalue of the finite tangent kernel J Jᵀ/N between all outputs at the member's initialisation.
It does not carry the 1/K of the loss (1/2KN) Σ |f − y|²: that loss has the curvature λ_max/K, so momentum m is stable
on a quadratic for c < (1 + m) K, which c = 8 is for 10 classes and m = 0.9 (19), but would not be with the 1/K (1.9).

Source: Xiao & Pennington 2022, arXiv 2207.04612; it does not say whether λ_max carries 1/K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.kernels import KernelFunction
from equitangents_studies.systems.descent import GradientInference, Labelled
from equitangents_studies.systems.transformations import Transformation


@final
@dataclass(frozen=True)
class KernelInference:
    """Infinitely wide networks in closed form, as `InfiniteEnsemble`: `kernel`, `time`, `ridge`.

    Kernels are computed in the precision of the inputs.
    """

    name: str = "NTK"
    kernel: Literal["ntk", "nngp"] = "ntk"
    time: float = math.inf
    ridge: float = 0.0

    finite = False

    def fit(
        self,
        net: KernelFunction,
        x: np.ndarray,
        y: np.ndarray,
        index: np.ndarray | None = None,
        *,
        seed: int = 0,
        coupling: Transformation | None = None,
        watch: Labelled | None = None,
    ) -> InfiniteEnsemble:
        """The ensemble of inputs x (N, …) and targets y (N, K).

        Nothing here is random or has epochs, so that what stands after y changes nothing.
        """
        if not callable(getattr(net, "kernel", None)):
            raise NetworkError("net", net, "a network with a kernel of infinite width", self.name)
        return InfiniteEnsemble(net, kernel=self.kernel, time=self.time, ridge=self.ridge).fit(x, y)


Inference = KernelInference | GradientInference


def inference(name: str, **settings: Any) -> Inference:
    """One of "NTK", "NNGP", "NN" and "NN+", with `settings` of KernelInference or GradientInference.

    >>> inference("NN+", members=8).c, inference("NN+").weight_decay, inference("NNGP").kernel
    (8.0, 1e-07, 'nngp')
    """
    known: dict[str, Inference] = {
        "NTK": KernelInference(),
        "NNGP": KernelInference("NNGP", "nngp"),
        "NN": GradientInference(),
        "NN+": GradientInference("NN+", c=8.0, weight_decay=1e-7),
    }
    if not isinstance(name, str):
        raise InvalidTypeError("name", name, list(known))
    if name not in known:
        raise InvalidArgumentError("name", name, list(known))
    unknown = [key for key in settings if key not in vars(known[name]) or key == "name"]
    if unknown:
        takes = ", ".join(key for key in vars(known[name]) if key != "name")
        raise InvalidArgumentError(name, unknown[0], takes, verb="has no setting")
    return replace(known[name], **settings)
