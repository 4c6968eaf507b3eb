"""Posteriors of Gaussian processes, and of fully trained networks, from kernel matrices."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from equitangents._types import Tree
from equitangents.errors import InvalidArgumentError
from equitangents.inference import decompose
from equitangents.predict.outputs import (
    Gaussian,
    Get,
    Layout,
    checked,
    names_of,
    precision_of,
    symmetric,
    targets,
    through,
)


def gp_inference(
    k_train_train: Tree,
    y_train: Tree,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """Posteriors from kernel matrices: "nngp", "ntk" (fully trained networks) and "ntkgp" (Θ as a prior).

    `k_train_train`: an array, or what has `nngp` and `ntk`, as kernel_fn(x, None) gives. Returns
    predict_fn(get=None, k_test_train=None, k_test_test=None), which gives means, and with `k_test_test` covariances.
    Covariances of "ntk" at test inputs need both kernels: of arrays alone they raise InvalidArgumentError. Works under
    jax.jit.
    """
    y = targets(y_train)
    layout = Layout.of(y, trace_axes)
    example = k_train_train if hasattr(k_train_train, "dtype") else getattr(k_train_train, "nngp", None)
    example = getattr(k_train_train, "ntk", None) if example is None else example

    def predict_fn(get: Get | None = None, k_test_train: Tree = None, k_test_test: Tree = None) -> Tree:
        names = names_of(get, "ntkgp")
        outcomes = []
        for name in names:
            kind, prior = ("ntk", "ntk") if name == "ntkgp" else (name, "nngp")
            kernel = _part("k_train_train", k_train_train, kind)
            layout.check("k_train_train", kernel, train=True)
            covariance = k_test_test is not None
            given: list[Any] = [None] * 4
            if k_test_train is not None:
                given[0] = _part("k_test_train", k_test_train, kind)
                layout.check("k_test_train", given[0], train=False)
                if covariance:
                    if name == "ntk":
                        _check_both("k_train_train", k_train_train)
                        _check_both("k_test_train", k_test_train)
                        given[3] = _part("k_train_train", k_train_train, "nngp")
                    given[1] = _part("k_test_train", k_test_train, prior)
                    given[2] = _part("k_test_test", k_test_test, prior)

            def run(kernel: Tree, y: Tree, *given: Tree, name: str = name, covariance: bool = covariance) -> Tree:
                matrix = symmetric(layout.matrix(np.asarray(kernel)), precision_of(kernel))
                unit = 1.0 if diag_reg_absolute_scale else np.trace(matrix) / len(matrix)
                regular = matrix + diag_reg * unit * np.eye(len(matrix))
                return _posterior(name, regular, layout, np.asarray(y, np.float64), covariance, *given)

            shape = layout.shape if given[0] is None else layout.test_shape(given[0])
            doubled = tuple(n for a in layout.kept for n in (shape[a], shape[a]))
            found = through(run, [shape, doubled][: 1 + covariance], example, kernel, y, *given)
            outcomes.append(Gaussian(*found) if covariance else found[0])
        return outcomes[0] if isinstance(get, str) else namedtuple("Gaussians", names)(*outcomes)

    return predict_fn


def _posterior(
    name: str, kernel: np.ndarray, layout: Layout, y: np.ndarray, covariance: bool, cross: Tree, cross_prior: Tree,
    prior: Tree, nngp: Tree,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """(mean,) or (mean, covariance)."""
    if cross is None:
        return (y, layout.covariance(np.zeros_like(kernel), layout.shape))[: 1 + covariance]
    factor = _factor(kernel)
    shape = layout.test_shape(cross)
    cross, cross_prior, prior, nngp = (
        None if v is None else layout.matrix(np.asarray(v, np.float64)) for v in (cross, cross_prior, prior, nngp)
    )
    mean = layout.outputs(cross @ scipy.linalg.cho_solve(factor, layout.rows(y)), shape)
    if not covariance:
        return (mean,)
    pull = scipy.linalg.cho_solve(factor, cross.T).T
    mixed = pull @ cross_prior.T
    found = prior - (mixed + mixed.T) / (2 if name != "ntk" else 1)
    if name == "ntk":
        found = found + pull @ nngp @ pull.T
    return mean, layout.covariance(found, shape)


def _factor(matrix: np.ndarray) -> Tree:
    try:
        return scipy.linalg.cho_factor(matrix, lower=True)
    except np.linalg.LinAlgError:
        decompose(matrix).check_invertible()
        raise


def _check_both(name: str, kernels: Tree) -> None:
    if getattr(kernels, "nngp", None) is None:
        raise InvalidArgumentError(
            name,
            "an array" if hasattr(kernels, "dtype") else "without nngp",
            remedy="the covariance of 'ntk' at test inputs needs both: kernel_fn(x1, x2, ('nngp', 'ntk'))",
        )


def _part(name: str, kernels: Tree, kind: str) -> Tree:
    if hasattr(kernels, "dtype"):
        return checked(name, kernels)
    if getattr(kernels, kind, None) is None:
        raise InvalidArgumentError(f"{name} comes without {kind}; give a named tuple with nngp and ntk")
    return checked(name, getattr(kernels, kind))
