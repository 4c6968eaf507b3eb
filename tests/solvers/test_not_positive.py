"""A matrix that is not positive definite: the smallest eigenvalue, its cause, and a ridge that cures it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from problems import Gaussian, exact_methods, positive, targets

from equitangents import solvers
from equitangents.errors import NotPositiveDefiniteError

NAMES = [name for name in exact_methods(".") if name != "out-of-core float32"]


def equal_inputs(n):
    x = np.random.default_rng(0).normal(size=(n, 6))
    x[17] = x[4]
    return x


def cured(error) -> float:
    return float(re.search(r"ridge=(\S+) or more", str(error))[1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("case", "cause"),
    [
        ("equal inputs", "rows 4 and 17 are equal"),
        ("indefinite", "it is indefinite beyond rounding, so it is not a kernel"),
        ("low rank", "ridge is 0 and eigenvalues of the kernel fall below the rounding of float64"),
    ],
)
def test_the_error_names_eigenvalue_cause_and_a_ridge_that_cures_it(tmp_path, name, case, cause):
    n = 40
    if case == "equal inputs":
        matrix = Gaussian().kernel(equal_inputs(n)).ntk
    elif case == "indefinite":
        matrix = positive(n, 10) - 0.15 * np.eye(n)
    else:
        matrix = targets(n, 5) @ targets(n, 5).T
    y = targets(n, 2, seed=4)
    how = exact_methods(tmp_path)[name]
    with pytest.raises(NotPositiveDefiniteError, match=cause) as caught:
        solvers.solve(matrix, y, solver=how)
    smallest = float(re.search(r"smallest eigenvalue (\S+),", str(caught.value))[1])
    true = np.linalg.eigvalsh(matrix)[0]
    assert abs(smallest - true) <= 0.05 * abs(true) + 1e-7
    solvers.solve(matrix, y, solver="eigh", ridge=cured(caught.value))


def test_rounding_of_float32_kernels_is_named_as_the_cause():
    x = np.linspace(0, 1, 60, dtype=np.float32)[:, None]
    with pytest.raises(
        NotPositiveDefiniteError, match=r"entries are float32, whose rounding.*float64 inputs"
    ) as caught:
        solvers.solve((Gaussian(), x), targets(60, 1), solver="cholesky")
    solvers.solve((Gaussian(), x), targets(60, 1), solver="cholesky", ridge=cured(caught.value))
    with pytest.raises(NotPositiveDefiniteError, match="float32"):
        solvers.solve((Gaussian(), x), targets(60, 1), solver=solvers.PCG(rank=60))


def test_a_ridge_that_is_too_small_is_named_as_the_cause():
    matrix = targets(30, 5) @ targets(30, 5).T
    with pytest.raises(NotPositiveDefiniteError, match=r"ridge=1e-18 is too small"):
        solvers.solve(matrix, targets(30, 1), ridge=1e-18, solver="cholesky")


@pytest.mark.parametrize("solver", ["lanczos", "eigh", "pcg"])
def test_an_indefinite_matrix_is_refused_at_finite_times_too(solver):
    with pytest.raises(NotPositiveDefiniteError, match="indefinite"):
        solvers.solve(positive(30, 10) - 0.2 * np.eye(30), targets(30, 1), time=5.0, solver=solver)


def test_a_factor_that_float32_cannot_hold_asks_for_float64(tmp_path):
    how = solvers.OutOfCore(path=tmp_path, tile=10, precision="float32")
    with pytest.raises(NotPositiveDefiniteError, match=r"too small for a factor in float32; take .*float64"):
        solvers.solve(positive(30, 1e12), targets(30, 1), solver=how)
