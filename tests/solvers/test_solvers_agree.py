"""Every solver gives what a dense float64 solve gives, for any conditioning and any number of right-hand sides."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.linalg
from problems import Gaussian, exact_methods, positive, shifted, targets

from equitangents import nn, solvers
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError, StoreError
from equitangents.inference import Flow
from equitangents.scale import GramStore
from equitangents.solvers.matrices import KernelMatrix, as_matrix
from equitangents.solvers.method import LinearSystem, SolveTask

NAMES = list(exact_methods("."))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("n", "condition", "outputs", "ridge"), [(1, 1, 1, 0.0), (25, 1e2, 1, 0.0), (40, 1e5, 3, 1e-3)]
)
def test_solutions_are_those_of_a_dense_solve(tmp_path, name, n, condition, outputs, ridge):
    matrix, y = positive(n, condition), targets(n, outputs)
    solution = solvers.solve(matrix, y, ridge=ridge, solver=exact_methods(tmp_path)[name])
    full = shifted(matrix, ridge)
    np.testing.assert_allclose(full @ solution.coefficients, y, atol=2e-10 * np.linalg.norm(y))
    expected = scipy.linalg.solve(full, y, assume_a="pos")
    assert np.linalg.norm(solution.coefficients - expected) <= 1e-9 * np.linalg.cond(full) * np.linalg.norm(expected)
    assert solution.report.residual <= 2e-10
    assert solution.support is None


@pytest.mark.parametrize("name", NAMES)
def test_an_ill_conditioned_matrix_is_solved_to_the_accuracy_that_float64_allows(tmp_path, name):
    n = 60
    matrix, true = positive(n, 1e8), targets(n, 2, seed=3)
    y = matrix @ true
    solution = solvers.solve(matrix, y, solver=exact_methods(tmp_path)[name]) if "float32" not in name else None
    if solution is None:  # a float32 factor is one of the matrix with a ridge
        solution = solvers.solve(matrix, y, ridge=1e-4, solver=exact_methods(tmp_path)[name])
        true = np.linalg.solve(shifted(matrix, 1e-4), y)
    left = shifted(matrix, solution.report.ridge) @ (solution.coefficients - true)
    assert np.linalg.norm(left) <= 1e-9 * np.linalg.norm(y)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_float32_entries_are_solved_to_float64_accuracy(precision):
    matrix, y = positive(80, 1e3).astype(np.float32), targets(80, 4)
    solution = solvers.solve(matrix, y, ridge=1e-3, solver=solvers.Cholesky(precision=precision))
    expected = np.linalg.solve(shifted(matrix, 1e-3), y)
    assert np.linalg.norm(solution.coefficients - expected) <= 1e-10 * np.linalg.norm(expected)
    assert solution.report.precision == precision


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cholesky_in_place_makes_no_second_array_and_keeps_the_upper_triangle(dtype):
    matrix, y = positive(30, 1e3).astype(dtype), targets(30, 2)
    kept = matrix.copy()
    how = solvers.Cholesky(precision=np.dtype(dtype).name)
    solution = solvers.solve(matrix, y, ridge=1e-3, solver=how, overwrite=True)
    np.testing.assert_array_equal(np.triu(matrix, 1), np.triu(kept, 1))
    lower = np.tril(matrix).astype(np.float64)
    np.testing.assert_allclose(lower @ lower.T, shifted(kept, 1e-3), atol=40 * np.finfo(dtype).eps)
    np.testing.assert_allclose(shifted(kept, 1e-3) @ solution.coefficients, y, atol=1e-9)
    solvers.solve(kept, y, ridge=1e-3, solver=how)
    np.testing.assert_array_equal(kept, np.triu(matrix, 1) + np.triu(matrix, 1).T + np.diag(np.diag(kept)))


class TestMatrices:
    NET = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))

    @pytest.mark.parametrize(
        "solver", ["pcg", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cholesky", "lanczos", "nystrom"))]
    )
    def test_may_be_arrays_stores_or_computed_anew(self, tmp_path, solver):
        x = np.random.default_rng(0).normal(size=(23, 3))
        y = targets(23, 2)
        theta = np.asarray(self.NET.kernel(x).ntk)
        np.save(tmp_path / "theta.npy", theta)
        store = GramStore(tmp_path / "k", self.NET, x, tile=7).compute()
        matrices = [
            theta,
            np.load(tmp_path / "theta.npy", mmap_mode="r"),
            store,
            store.ntk,
            (self.NET, x),
            KernelMatrix(self.NET, x, tile=5),
        ]
        expected = np.linalg.solve(shifted(theta, 1e-2), y)
        for matrix in matrices:
            solution = solvers.solve(matrix, y, ridge=1e-2, solver=solver)
            means = theta[:, slice(None) if solution.support is None else solution.support] @ solution.coefficients
            np.testing.assert_allclose(means, theta @ expected, atol=1e-8)

    def test_that_lack_tiles_are_refused(self, tmp_path):
        x = np.random.default_rng(0).normal(size=(9, 3))
        with pytest.raises(StoreError, match=r"store holds tiles, 0; expected 1; compute\(\)"):
            solvers.solve(GramStore(tmp_path / "k", self.NET, x), targets(9, 1))


@pytest.mark.parametrize("name", [*NAMES, "nystrom"])
def test_a_single_nan_is_an_error_in_every_solver(tmp_path, name):
    matrix = positive(30, 10)
    matrix[21, 4] = matrix[4, 21] = np.nan
    with pytest.raises(NotFiniteError):
        solvers.solve(matrix, targets(30, 1), solver=exact_methods(tmp_path).get(name, name))


@pytest.mark.parametrize("name", NAMES)
def test_targets_of_zero_have_coefficients_of_zero(tmp_path, name):
    y = targets(20, 2)
    y[:, 1] = 0
    how = exact_methods(tmp_path)[name]
    assert not solvers.solve(positive(20, 10), y, solver=how).coefficients[:, 1].any()
    assert not solvers.solve(positive(20, 10), 0 * y, solver=how).coefficients.any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"matrix": np.ones((3, 4))}, ShapeError, r"shape \(3, 4\)"),
        ({"matrix": "theta"}, InvalidTypeError, "expected a square array"),
        ({"matrix": np.array([[2.0, 1.0], [0.0, 2.0]]), "targets": np.ones(2)}, InvalidArgumentError, "not symmetric"),
        ({"targets": np.ones(3)}, InvalidArgumentError, r"targets has shape \(3,\)"),
        ({"targets": np.array([1.0, np.nan])}, NotFiniteError, "targets"),
        ({"ridge": -1.0}, InvalidArgumentError, "ridge is -1.0"),
        ({"ridge": np.nan}, InvalidArgumentError, "ridge is nan"),
        ({"solver": "magic"}, InvalidArgumentError, "'auto', 'eigh', 'cholesky'"),
        ({"solver": 3}, InvalidTypeError, "solver is 3"),
        ({"time": [1.0, 2.0]}, InvalidArgumentError, "one number"),
        ({"time": -1.0}, InvalidArgumentError, "times are ≥ 0"),
        ({"dynamics": "heat"}, InvalidArgumentError, "dynamics is 'heat'"),
        ({"memory_limit": 0}, InvalidArgumentError, "memory_limit is 0"),
        ({"kernel": "rbf"}, InvalidArgumentError, "kernel is 'rbf'"),
        ({"solver": "out-of-core"}, InvalidArgumentError, r"OutOfCore\(path"),
    ],
)
def test_bad_input_is_named(change, error, message):
    arguments = {"matrix": np.eye(2), "targets": np.ones(2)} | change
    with pytest.raises(error, match=message):
        solvers.solve(arguments.pop("matrix"), arguments.pop("targets"), **arguments)


def test_the_report_says_what_was_used_and_how_good_it_is(caplog):
    matrix, y = positive(50, 1e4), targets(50, 3)
    caplog.set_level(logging.INFO, "equitangents")
    for solver in ("eigh", "cholesky", "pcg", "lanczos"):
        report = solvers.solve(matrix, y, solver=solver).report
        assert (report.solver, report.reason, report.size, report.ridge) == (solver, "as set", 50, 0.0)
        assert 0.3 <= report.condition / 1e4 <= 3
        assert report.largest == pytest.approx(1, rel=0.2)
        assert (report.iterations > 0) == (solver != "eigh")
        assert report.seconds > 0
        assert report.forecast_memory > 0
        assert str(report) in caplog.text


def test_conjugate_gradients_that_do_not_arrive_say_so():
    with pytest.raises(InvalidArgumentError, match=r"after 5 steps, above the tolerance 1e-10.*raise rank"):
        solvers.solve(positive(80, 1e4), targets(80, 1), solver=solvers.PCG(rank=5, max_iterations=5))
    with pytest.raises(InvalidArgumentError, match=r"after 3 steps of Lanczos"):
        solvers.solve(positive(80, 1e4), targets(80, 1), time=1e5, solver=solvers.Lanczos(max_iterations=3))


def test_a_preconditioner_of_higher_rank_takes_fewer_steps():
    x = np.random.default_rng(0).normal(size=(300, 2))
    matrix = Gaussian().kernel(x).ntk

    def steps(rank):
        return solvers.solve(matrix, targets(300, 2), ridge=1e-3, solver=solvers.PCG(rank)).report.iterations

    assert steps(1) > 1.5 * steps(10) > 4 * steps(60)


def test_ranks_grow_with_the_rows_from_the_least_to_the_most_that_is_documented():
    sizes = (30, 400, 1600, 10**4, 10**8)
    assert [solvers.PCG().rank_of(n) for n in sizes] == [30, 50, 160, 1000, 1000]
    assert [solvers.Nystrom().rank_of(n) for n in sizes] == [30, 200, 200, 400, 5000]


def test_a_factor_in_single_precision_is_shifted_no_more_than_it_must_be():
    """By the spacing of the largest eigenvalue, or the smallest power of ten of it that is enough."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        draws = rng.normal(size=(40, 8))
        theta = draws @ draws.T
        system, task = LinearSystem(as_matrix(theta), 1e-8, Flow(1.0, 40)), SolveTask(40, 1, 8, True, False, 40, 10**9)
        factor = solvers.Cholesky(precision="float32").prepare(system, task).args[1]
        spacing = np.finfo(np.float32).eps * np.linalg.eigvalsh(theta)[-1]
        shifts = [spacing * 10.0**power for power in range(3)]
        moved = (shifted(theta, 1e-8) + shift * np.eye(40) for shift in shifts)
        fails = [scipy.linalg.lapack.spotrf(matrix, lower=1)[1] != 0 for matrix in moved]
        enough = shifts[fails.index(False)]
        assert factor.shift == pytest.approx(enough, rel=0.05)
