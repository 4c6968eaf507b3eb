"""How the marginal likelihood changes with the scales of weights and biases, from the decomposition that is there.

    d log p/dθ = ½ Σ_ij [α αᵀ − outputs · (Θ + δ)⁻¹]_ij d(Θ + δ)_ij/dθ,   α = (Θ + δ)⁻¹Y.
dΘ/dθ comes from four kernel matrices near θ in float64 (Richardson), to about nine digits. Source: Rasmussen & Williams
2006, equation 5.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from equitangents.ensembles.infinite.densities import target_evidence
from equitangents.ensembles.infinite.problem import Problem
from equitangents.ensembles.infinite.training_problem import Training
from equitangents.errors import InvalidArgumentError
from equitangents.inference.evidence import check_density
from equitangents.kernels import KernelFunction
from equitangents.nn import Sequential
from equitangents.nn.residual import Residual
from equitangents.nn.variants import vary

SCALES = ("W_std", "b_std")
_STEP = 2e-3  # of the scale; half of it as well


def likelihood_gradient(training: Training, net: KernelFunction, names: tuple[str, ...]) -> dict[str, float]:
    """d log p/dθ for each of `names`: "ridge", and the scales that all layers of `net` share."""
    for name in names:
        if name not in ("ridge", *SCALES):
            raise InvalidArgumentError(f"name is {name!r}; expected 'ridge', 'W_std' or 'b_std'")
    scales = {name: shared_scale(net, name) for name in names if name in SCALES}
    slope = target_evidence(training).slope
    found = {"ridge": slope} if "ridge" in names else {}
    if scales:
        problem = _plain(training)
        weights, inputs = _weights(problem), np.asarray(problem.inputs, np.float64)
        for name, value in scales.items():
            change = _derivative(net, name, value, inputs, problem.field)
            change[np.diag_indices(len(change))] += (
                problem.process.spectrum.ridge * float(np.trace(change)) / len(change)
            )
            found[name] = float((weights * change).sum()) / 2
    return {name: found[name] for name in names}


def _plain(training: Training) -> Problem:
    """The decomposed problem of distinct inputs without augmentation."""
    if training.augmentation is not None:
        raise InvalidArgumentError(
            "gradients by W_std and b_std are those of problems without augmentation; tune(grid) compares their "
            "values, and log_marginal_likelihood_slope_ is the derivative by ridge"
        )
    if training.source is not None:
        raise InvalidArgumentError(
            "gradients by W_std and b_std are those of networks that end on one position, and this one's outputs are "
            "fields or turn; tune(grid) compares their values, and log_marginal_likelihood_slope_ is the derivative by "
            "ridge"
        )
    problem = cast(Problem, training.decomposed.covariance_problem)
    check_density(problem.process.spectrum)
    if len(problem.process.spectrum.eigenvalues) != len(training.x) or problem.process.scale is not None:
        raise InvalidArgumentError("some training inputs are equal; gradients by W_std and b_std need distinct ones")
    return problem


def _weights(problem: Problem) -> np.ndarray:
    """α αᵀ − outputs · (Θ + δ)⁻¹."""
    process, spectrum = problem.process, problem.process.spectrum
    solved = spectrum.vectors @ (process.targets / spectrum.eigenvalues[:, None])
    inverse = (spectrum.vectors / spectrum.eigenvalues) @ spectrum.vectors.T
    return np.asarray(solved @ solved.T - process.targets.shape[1] * inverse)


def _derivative(net: KernelFunction, name: str, value: float, x: np.ndarray, field: str) -> np.ndarray:
    """dΘ/dθ; Θ is even in every scale, so that it is 0 at 0."""
    if value == 0:
        return np.zeros((len(x), len(x)))
    at = lambda scale: np.asarray(getattr(vary(cast(Sequential, net), **{name: scale}).kernel(x), field), np.float64)
    central = lambda h: (at(value + h) - at(value - h)) / (2 * h)
    h = _STEP * value
    return (4 * central(h / 2) - central(h)) / 3


def shared_scale(net: KernelFunction, name: str) -> float:
    """The value that all layers with weights share."""
    values = set(_values(getattr(net, "layers", ()), name))
    if len(values) != 1:
        raise InvalidArgumentError(
            f"{name} of the network's layers is {sorted(values) if values else 'not known'}; a gradient by it is "
            "one by the value that all layers share"
        )
    return float(values.pop())


def _values(layers: Any, name: str) -> Iterator[float]:
    for layer in layers:
        if isinstance(layer, Residual):
            yield from _values(layer.layers, name)
        elif hasattr(layer, name):
            yield getattr(layer, name)
