"""Nyström: the best predictor in the span of some inputs, with an estimate of its error."""

from __future__ import annotations

import numpy as np
import pytest
from problems import Gaussian, shifted, targets

from equitangents import solvers
from equitangents.errors import MemoryLimitError, NotFiniteError
from equitangents.solvers import low_rank
from equitangents.solvers.method import SolveTask

X = np.random.default_rng(0).normal(size=(240, 3))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2]], axis=1) + 0.1 * targets(240, 2)
THETA = Gaussian().kernel(X).ntk


def exact(ridge, time=np.inf):
    values, vectors = np.linalg.eigh(shifted(THETA, ridge))
    response = 1 / values if np.isinf(time) else -np.expm1(-values * time / len(X)) / values
    return vectors @ (response[:, None] * (vectors.T @ Y))


@pytest.mark.parametrize("time", [0.0, 5.0, 1e4, np.inf])
def test_all_inputs_as_landmarks_give_the_exact_predictor(time):
    solution = solvers.solve(THETA, Y, ridge=1e-3, time=time, solver=solvers.Nystrom(rank=240))
    means = THETA[:, solution.support] @ solution.coefficients
    np.testing.assert_allclose(means, THETA @ exact(1e-3, time), atol=1e-6)
    assert solution.report.error <= 1e-6


def test_weights_minimise_the_regularised_error_within_the_span():
    solution = solvers.solve(THETA, Y, ridge=0.05, solver=solvers.Nystrom(rank=25))
    C, W = THETA[:, solution.support], THETA[np.ix_(solution.support, solution.support)]
    delta = 0.05 * np.trace(THETA) / len(X)
    expected = np.linalg.solve(C.T @ C + delta * W, C.T @ Y)
    np.testing.assert_allclose(C @ solution.coefficients, C @ expected, atol=1e-9)


def test_of_time_is_training_with_the_approximated_kernel():
    solution = solvers.solve(THETA, Y, time=300.0, solver=solvers.Nystrom(rank=20))
    C, W = THETA[:, solution.support], THETA[np.ix_(solution.support, solution.support)]
    values, vectors = np.linalg.eigh(C @ np.linalg.solve(W, C.T))
    left = vectors @ (np.exp(-np.maximum(values, 0) * 300 / 240)[:, None] * (vectors.T @ Y))
    np.testing.assert_allclose(C @ solution.coefficients, Y - left, atol=1e-8)


@pytest.mark.parametrize(
    ("probes", "ridge", "rank"),
    [*((None, ridge, rank) for ridge in (1e-4, 1e-2) for rank in (15, 40, 100)), (60, 1e-2, 15), (60, 1e-2, 60)],
)
def test_the_estimated_error_is_of_the_size_of_the_error_also_from_a_part_of_the_inputs(
    monkeypatch, probes, ridge, rank
):
    monkeypatch.setattr(low_rank, "_PROBES", probes or low_rank._PROBES)
    solution = solvers.solve(THETA, Y, ridge=ridge, solver=solvers.Nystrom(rank=rank))
    difference = THETA[:, solution.support] @ solution.coefficients - THETA @ exact(ridge)
    true = np.sqrt(np.mean(difference**2) / np.mean(Y**2))
    assert 0.5 * true <= solution.report.error <= 20 * true


def test_nan_beside_the_landmarks_is_an_error():
    matrix, solver = THETA.copy(), solvers.Nystrom(rank=5)
    support = solvers.solve(matrix, Y, ridge=1e-2, solver=solver).support
    other = np.setdiff1d(np.arange(len(X)), support)[0]
    matrix[other, support[0]] = matrix[support[0], other] = np.nan
    with pytest.raises(NotFiniteError):
        solvers.solve(matrix, Y, ridge=1e-2, solver=solver)


def test_targets_that_take_more_than_the_span_have_an_error_of_their_size():
    noise = targets(240, 1, seed=9)
    report = solvers.solve(THETA, noise, ridge=1e-4, solver=solvers.Nystrom(rank=20)).report
    assert 0.6 <= report.error <= 1.2


def test_pivots_serve_better_than_rows_drawn_uniformly():
    clustered = np.concatenate([0.01 * X[:200], X[:40] + 5])
    theta = Gaussian().kernel(clustered).ntk
    pivots = solvers.solve(theta, Y, ridge=1e-2, solver=solvers.Nystrom(rank=25)).support
    left = []
    for support in (pivots, np.random.default_rng(0).permutation(240)[:25]):
        C, W = theta[:, support], theta[np.ix_(support, support)]
        left.append(np.trace(theta - C @ np.linalg.pinv(W, rcond=1e-10, hermitian=True) @ C.T))
    assert left[0] < 0.5 * left[1]


def test_memory_is_bounded_by_rows_times_landmarks():
    assert solvers.Nystrom(rank=1000).memory(SolveTask(1_000_000, 10, 4, False, False, 1024, 10**10)) <= 10**10
    with pytest.raises(MemoryLimitError, match=r"by solver 'nystrom'"):
        solvers.solve((Gaussian(), X), Y, solver="nystrom", memory_limit=1000)


def test_landmarks_of_many_rows_are_pivots_among_those_drawn():
    diagonal = np.tile([1.0, 1e-9], 50)  # rows that matter, and rows that do not
    chosen = solvers.solve(np.diag(diagonal), targets(100, 1), ridge=0.1, solver=solvers.Nystrom(rank=2)).support
    np.testing.assert_array_equal(diagonal[chosen], 1)
