"""A matrix that is not positive definite: the smallest eigenvalue, its cause, and a ridge that cures it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from problems import Gaussian, exact_methods, positive, targets

from equitangents import solvers
from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError
from equitangents.solvers import cholesky

NAMES = list(exact_methods("."))


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


@pytest.mark.parametrize("name", ["eigh", "cholesky", "pcg"])
def test_the_ridge_that_cures_is_the_whole_ridge_and_not_what_the_given_one_lacks(name):
    matrix = positive(40, 10) - 0.15 * np.eye(40)  # its smallest eigenvalue is −0.05
    ridge = 0.5 * 0.05 / (np.trace(matrix) / 40)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        solvers.solve(matrix, targets(40, 1), ridge=ridge, solver=name)
    assert cured(caught.value) >= 2 * ridge
    solvers.solve(matrix, targets(40, 1), ridge=cured(caught.value), solver="eigh")


@pytest.mark.parametrize("solver", ["lanczos", "eigh", "pcg"])
def test_an_indefinite_matrix_is_refused_at_finite_times_too(solver):
    with pytest.raises(NotPositiveDefiniteError, match="indefinite"):
        solvers.solve(positive(30, 10) - 0.2 * np.eye(30), targets(30, 1), time=5.0, solver=solver)


def test_equal_inputs_are_named_before_the_precision_of_a_factor_and_the_ridge_is_enough_for_it():
    matrix, how = Gaussian().kernel(equal_inputs(30)).ntk, solvers.Cholesky(precision="float32")
    with pytest.raises(NotPositiveDefiniteError, match="cause: rows 4 and 17 are equal") as caught:
        solvers.solve(matrix, targets(30, 1), solver=how)
    assert solvers.solve(matrix, targets(30, 1), solver=how, ridge=cured(caught.value)).report.residual < 1e-10


def test_refinement_that_stalls_names_eigenvalue_cause_and_a_ridge_that_cures_it(monkeypatch):
    monkeypatch.setitem(cholesky._PATIENCE, "float32", 1)
    matrix, how = positive(40, 3e10), solvers.Cholesky(precision="float32")
    with pytest.raises(NotPositiveDefiniteError) as caught:
        solvers.solve(matrix, targets(40, 1), solver=how)
    message = str(caught.value)
    assert re.search(r"refinement leaves .* cause: rounding in float32 .*float64", message)
    smallest = float(re.search(r"smallest eigenvalue (\S+),", message)[1])
    assert 0.5 < smallest * 3e10 < 2
    assert solvers.solve(matrix, targets(40, 1), solver=how, ridge=cured(message)).report.residual < 1e-10


def test_learning_rates_that_diverge_name_the_bound_of_the_whole_spectrum():
    matrix = positive(40, 1e3)
    y = np.linalg.eigh(matrix)[1][:, :5].sum(axis=1, keepdims=True)  # slow directions: few steps see no fast one
    bounds = []
    for solver, time in (("eigh", 5), ("lanczos", 5), ("lanczos", 500)):
        with pytest.raises(InvalidArgumentError, match="gradient descent on these data diverges") as caught:
            solvers.solve(matrix, y, solver=solver, learning_rate=1e6, time=time, dynamics="discrete")
        bounds.append(float(re.search(r"at most (\S+), above", str(caught.value))[1]))
    np.testing.assert_allclose(bounds, bounds[0], rtol=1e-3)


@pytest.mark.parametrize("dtype", [">f4", "float16"])
def test_the_rounding_of_entries_counts_in_every_byte_order_and_size(dtype):
    matrix = (targets(30, 5) @ targets(30, 5).T).astype(dtype)
    with pytest.raises(NotPositiveDefiniteError):
        solvers.solve(matrix, targets(30, 1), ridge=1e-12, solver="cholesky")
    found = solvers.solve(positive(30, 10).astype(dtype) + np.eye(30, dtype=dtype), targets(30, 1), solver="pcg")
    assert found.report.precision == "float64 on float32 entries"


@pytest.mark.parametrize("solver", ["eigh", "lanczos"])
def test_the_condition_of_a_singular_matrix_is_infinite_however_it_is_rounded(solver, rng):
    features, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    for _ in range(4):
        E = np.finfo(float).eps * rng.uniform(-1, 1, (30, 30))
        report = solvers.solve(features @ features.T + E + E.T, y, time=1.0, solver=solver).report
        assert report.condition == np.inf


@pytest.mark.parametrize("solver", ["eigh", "lanczos"])
def test_a_positive_eigenvalue_counts_from_what_rounding_leaves_of_it(solver, rng):
    turn, y = np.linalg.qr(rng.normal(size=(30, 30)))[0], rng.normal(size=(30, 2))
    for smallest, condition in ((3e-15, np.inf), (1e-12, 1e12)):
        matrix = (turn * np.append(np.ones(29), smallest)) @ turn.T
        report = solvers.solve((matrix + matrix.T) / 2, y, time=1.0, solver=solver).report
        assert report.smallest > 0
        assert report.condition == pytest.approx(condition, rel=0.01)
