"""Lanczos trains for any time as the matrix exponential does, to the error that it states."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from problems import exact_methods, positive, shifted, targets

from equitangents import solvers
from equitangents.inference import Flow
from equitangents.inference.dynamics import Descent
from equitangents.solvers.lanczos import evolve
from equitangents.solvers.matrices import as_matrix
from equitangents.solvers.method import LinearSystem

TIMES = [0.0, 0.3, 20.0, 3e3, 1e7]


@pytest.mark.parametrize("ridge", [0.0, 1e-2])
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("condition", [1e1, 1e6])
def test_what_is_left_of_the_targets_is_their_matrix_exponential(time, ridge, condition):
    n, matrix = 40, positive(40, condition)
    y = targets(n, 3)
    full = shifted(matrix, ridge)
    alpha = solvers.solve(matrix, y, ridge=ridge, time=time, learning_rate=0.7, solver="lanczos").coefficients
    left = scipy.linalg.expm(-0.7 * time / n * full) @ y
    np.testing.assert_allclose(y - full @ alpha, left, atol=3e-10 * np.linalg.norm(y))


@pytest.mark.parametrize("name", list(exact_methods(".")))
def test_every_exact_solver_trains_for_finite_times(tmp_path, name):
    matrix, y = positive(30, 1e4), targets(30, 2)
    solution = solvers.solve(matrix, y, time=50.0, ridge=1e-3, solver=exact_methods(tmp_path)[name])
    full = shifted(matrix, 1e-3)
    np.testing.assert_allclose(y - full @ solution.coefficients, scipy.linalg.expm(-50 / 30 * full) @ y, atol=1e-9)
    assert solution.report.solver == ("eigh" if name in ("eigh", "auto") else "lanczos")


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 400])
def test_steps_of_gradient_descent_are_those_of_the_loop(steps):
    n, matrix = 25, positive(25, 1e3)
    y = targets(n, 2)
    rate = 1.4 / n  # times λ_max = 1: below 2
    alpha = np.zeros_like(y)
    for _ in range(steps):
        alpha += rate * (y - matrix @ alpha)
    found = solvers.solve(matrix, y, time=float(steps), learning_rate=1.4, dynamics="discrete", solver="lanczos")
    np.testing.assert_allclose(found.coefficients, alpha, atol=1e-9)


@pytest.mark.parametrize("dynamics", [Flow, Descent])
def test_the_stated_error_bounds_the_error(dynamics):
    n, matrix = 60, positive(60, 1e4)
    y = targets(n, 4)
    system = LinearSystem(as_matrix(matrix), 0.0, dynamics(1.0, n))
    values, vectors = np.linalg.eigh(matrix)
    for time in (10.0, 1e3, 1e5):
        left = vectors @ (system.dynamics.decay(values, time)[:, None] * (vectors.T @ y))
        for tolerance in (0.3, 1e-2, 1e-5):
            found = evolve(system, y, time, tolerance, n)
            errors = np.linalg.norm(y - matrix @ found.coefficients - left, axis=0) / np.linalg.norm(y, axis=0)
            assert np.max(errors) <= found.report.residual <= tolerance


def test_a_singular_kernel_trains_for_finite_times():
    factor = targets(30, 4)
    matrix, y = factor @ factor.T, targets(30, 1, seed=8)
    alpha = solvers.solve(matrix, y, time=40.0, solver="lanczos").coefficients
    np.testing.assert_allclose(y - matrix @ alpha, scipy.linalg.expm(-40 / 30 * matrix) @ y, atol=1e-9)


def test_columns_are_solved_one_after_another_where_memory_is_short():
    matrix, y = positive(100, 1e3), targets(100, 6)
    whole = solvers.solve(matrix, y, time=1e4, solver="lanczos")
    parts = solvers.solve(matrix, y, time=1e4, solver="lanczos", memory_limit=1_000_000)
    np.testing.assert_allclose(parts.coefficients, whole.coefficients, atol=1e-9)
