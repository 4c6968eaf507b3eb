"""Arguments that are none, and targets and matrices of unusual size: one-line errors, no wrong numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from problems import positive, targets

from equitangents import solvers
from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError


@pytest.mark.parametrize("solver", ["eigh", "cholesky", "pcg", "lanczos", "nystrom"])
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_targets_of_any_size_are_solved_as_those_of_size_one(solver, size):
    matrix, y = positive(12, 10), targets(12, 2)
    plain = solvers.solve(matrix, y, solver=solver)
    scaled = solvers.solve(matrix, y * size, solver=solver)
    np.testing.assert_allclose(scaled.coefficients / size, plain.coefficients, rtol=1e-9)
    assert abs(scaled.report.residual - plain.report.residual) < 1e-10


@pytest.mark.parametrize("solver", ["eigh", "cholesky", "lanczos", "pcg", "nystrom"])
@pytest.mark.parametrize("time", [math.inf, 2.0])
def test_matrices_are_solved_as_those_of_size_one_or_refused(solver, time):
    matrix, y = positive(12, 10), targets(12, 2)
    plain = solvers.solve(matrix, y, solver=solver, ridge=0.1, time=time)
    for size in (2.0**-160, 2.0**-67, 2.0**160):
        scaled = solvers.solve(matrix * size, y, solver=solver, ridge=0.1, time=time, learning_rate=1 / size)
        np.testing.assert_allclose(scaled.coefficients * size, plain.coefficients, rtol=1e-9)
    for size in (1e-60, 1e60):
        with pytest.raises(InvalidArgumentError, match=r"has entries of about .*; expected entries whose squares"):
            solvers.solve(matrix * size, y, solver=solver, ridge=0.1, time=time)


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
@pytest.mark.parametrize("time", [math.inf])
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_subclasses_of_arrays_are_solved_as_their_entries(solver, time):
    matrix, y = positive(12, 10), targets(12, 2)
    plain = solvers.solve(matrix, y, solver=solver, ridge=0.1, time=time)
    for other in (np.ma.array(matrix), np.ma.array(matrix, mask=np.zeros(matrix.shape)), np.matrix(matrix)):
        found = solvers.solve(other, y, solver=solver, ridge=0.1, time=time)
        np.testing.assert_array_equal(found.coefficients, plain.coefficients)
    with pytest.raises(InvalidArgumentError, match="matrix has masked entries"):
        solvers.solve(np.ma.array(matrix, mask=np.eye(12)), y, solver=solver, time=time)


@pytest.mark.parametrize(("solver", "size"), [("cholesky", 1e-200), ("pcg", 1e-12)])
def test_a_column_of_tiny_targets_beside_others_is_solved(solver, size):
    matrix, y = positive(12, 10), targets(12, 2) * [1.0, size]
    found = solvers.solve(matrix, y, solver=solver).coefficients
    np.testing.assert_allclose(matrix @ found / [1.0, size], y / [1.0, size], atol=1e-9)


@pytest.mark.parametrize("solver", ["pcg", "nystrom", "cholesky", "eigh"])
def test_a_matrix_that_vanishes_is_refused_with_its_cause(solver):
    with pytest.raises(NotPositiveDefiniteError, match=r"smallest eigenvalue .*cause: .*no ridge helps"):
        solvers.solve(np.zeros((5, 5)), targets(5, 1), solver=solver, ridge=0.1)


def test_the_residual_of_lanczos_at_the_end_of_training_counts_rounding():
    matrix, y = positive(60, 1e10), targets(60, 2)
    found = solvers.solve(matrix, y, solver="lanczos")
    left = np.max(np.linalg.norm(y - matrix @ found.coefficients, axis=0) / np.linalg.norm(y, axis=0))
    assert 0.2 * left < found.report.residual < 5 * left


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: solvers.OutOfCore(tile=-3), "tile is -3"),
        (lambda: solvers.OutOfCore(tile=2.5), "tile is 2.5"),
        (lambda: solvers.PCG(max_iterations=2.5), "max_iterations is 2.5"),
        (lambda: solvers.Lanczos(max_iterations=float("nan")), "max_iterations is nan"),
        (lambda: solvers.PCG(tolerance="small"), "tolerance is 'small'"),
        (lambda: solvers.PCG(rank=0), "rank is 0"),
        (lambda: solvers.PCG(tolerance=0.0), "tolerance is 0.0"),
        (lambda: solvers.Cholesky(precision="float16"), "precision is 'float16'"),
        (lambda: solvers.Lanczos(max_iterations=0), "max_iterations is 0"),
        (lambda: solvers.Nystrom(rank=-1), "rank is -1"),
        (lambda: solvers.solve(np.eye(3), np.ones(3), ridge="a"), "ridge is 'a'"),
        (lambda: solvers.solve(np.eye(3), np.ones(3), ridge=0.1, ridge_unit=float("nan")), "ridge_unit is nan"),
        (lambda: solvers.solve(np.eye(3), np.ones(3), memory_limit="1 GB"), "memory_limit is '1 GB'"),
        (lambda: solvers.solve(np.eye(3), np.ones(3), dynamics=["flow"]), "dynamics is ['flow']; expected 'flow'"),
    ],
)
def test_arguments_that_are_none_are_named(make, message):
    with pytest.raises((InvalidArgumentError, TypeError)) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize("unit", [1.0, 2.0**150, 2.0**-150])
@pytest.mark.parametrize("solver", ["eigh", "lanczos", "cholesky"])
def test_times_are_known_up_to_the_one_that_an_error_names(solver, unit):
    """Of rank 3, with targets at odds with every function of it; times are in units of one over the matrix's."""
    x, noise = np.random.default_rng(3).normal(size=(2, 20, 3))
    y, new = x.sum(axis=1) + noise[:, 0], noise
    limit = new @ np.linalg.lstsq(x, y, rcond=None)[0]
    at = lambda time: unit * new @ x.T @ solvers.solve(unit * x @ x.T, y, time=time, solver=solver).coefficients
    assert np.abs(at(1e8 / unit) - limit).max() <= 1e-4
    with pytest.raises(NotPositiveDefiniteError, match="or take a time of at most") as caught:
        at(1e18 / unit)
    longest = float(str(caught.value).rpartition(" ")[2])
    assert longest * unit > 1e9
    assert np.abs(at(longest) - limit).max() <= 1e-3
    with pytest.raises(NotPositiveDefiniteError, match="or take a time of at most"):
        at(1.2 * longest)
