"""Sketch-and-project: the dense float64 answer block by block, in little memory, with a count of what it read."""

from __future__ import annotations

import re

import numpy as np
import pytest
from problems import Gaussian, positive, shifted, targets

from equitangents import InfiniteEnsemble, nn, solvers
from equitangents.errors import InvalidArgumentError, NotFiniteError, NotPositiveDefiniteError
from equitangents.scale import GramStore
from equitangents.solvers import choosing
from equitangents.solvers.choosing import choose
from equitangents.solvers.conjugate_gradients import Unchanged, conjugate_gradients
from equitangents.solvers.matrices import ArrayMatrix, KernelMatrix
from equitangents.solvers.method import Task

X = np.random.default_rng(0).normal(size=(90, 4))
THETA = Gaussian().kernel(X).ntk
Y = targets(90, 3)


@pytest.mark.parametrize(
    "method",
    [
        solvers.SketchAndProject(),
        solvers.SketchAndProject(block=20),
        solvers.SketchAndProject(block=30, rank=25),
        solvers.SketchAndProject(block=7, seed=3, tolerance=1e-12),
    ],
    ids=["one block", "blocks", "blocks at low rank", "small blocks"],
)
def test_solutions_are_those_of_a_dense_solve_to_float64_accuracy(method):
    found = solvers.solve(THETA, Y, ridge=3e-2, solver=method)
    full = shifted(THETA, 3e-2)
    expected = np.linalg.solve(full, Y)
    residual = np.max(np.linalg.norm(full @ found.coefficients - Y, axis=0) / np.linalg.norm(Y, axis=0))
    assert residual <= method.tolerance
    assert found.report.residual == pytest.approx(residual, rel=1e-3, abs=1e-15)
    assert np.linalg.norm(found.coefficients - expected) <= 1e-9 * np.linalg.norm(expected)
    assert found.report.solver == "sketch-and-project"


def test_iterations_and_passes_are_those_that_were_made(monkeypatch):
    """Of the entries read in strips and of those of whole products."""
    read = {"strips": 0, "products": 0}
    rectangle, product = ArrayMatrix.rectangle, ArrayMatrix.product

    def counted(self, rows, columns):
        read["strips"] += len(rows) * len(columns) if self.size == 90 else 0
        return rectangle(self, rows, columns)

    def multiplied(self, vectors):
        read["products"] += vectors.shape[1] == 3
        return product(self, vectors)

    monkeypatch.setattr(ArrayMatrix, "rectangle", counted)
    monkeypatch.setattr(ArrayMatrix, "product", multiplied)
    report = solvers.solve(THETA, Y, ridge=3e-2, solver=solvers.SketchAndProject(block=20)).report
    passes, checks = map(int, re.search(r"(\d+) passes over the matrix, (\d+) of them", report.notes[0]).groups())
    sweeps = passes - checks
    assert report.iterations == 5 * sweeps  # blocks of 20, 20, 20, 20 and 10
    assert read["strips"] == sweeps * (90 * 90 + 4 * 20 * 20 + 10 * 10)
    assert read["products"] == checks
    assert 1 <= checks < sweeps
    assert report.condition >= np.linalg.cond(shifted(THETA, 3e-2))


def test_momentum_makes_fewer_sweeps_of_it():
    plain = {}
    for ridge in (3e-2, 1e-2):
        report = solvers.solve(THETA, Y, ridge=ridge, solver=solvers.SketchAndProject(block=15)).report
        plain[ridge] = (report.iterations / 6, _sweeps_without_momentum(THETA, Y, ridge, 15))
    assert plain[1e-2][0] < plain[1e-2][1]


def _sweeps_without_momentum(theta, y, ridge, block):
    """Block Gauss-Seidel in random order."""
    full, rng, w = shifted(theta, ridge), np.random.default_rng(0), np.zeros_like(y)
    for sweep in range(1, 2000):
        order = rng.permutation(len(y))
        for rows in np.split(order, range(block, len(y), block)):
            w[rows] -= np.linalg.solve(full[np.ix_(rows, rows)], full[rows] @ w - y[rows])
        if np.linalg.norm(full @ w - y) <= 1e-10 * np.linalg.norm(y):
            return sweep
    return np.inf


def test_stores_and_float32_entries_are_solved_alike(tmp_path):
    net = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
    theta = np.asarray(net.kernel(X).ntk)
    expected = np.linalg.solve(shifted(theta, 5e-2), Y)
    store = GramStore(tmp_path / "k", net, X, tile=16).compute()
    method = solvers.SketchAndProject(block=40)
    found = solvers.solve(store, Y, ridge=5e-2, solver=method)
    np.testing.assert_allclose(found.coefficients, expected, atol=1e-8 * np.abs(expected).max())
    single = theta.astype(np.float32)
    found = solvers.solve(single, Y, ridge=5e-2, solver=method)
    exact = np.linalg.solve(shifted(single, 5e-2), Y)
    np.testing.assert_allclose(found.coefficients, exact, atol=1e-8 * np.abs(exact).max())
    assert found.report.precision == "float64 on float32 entries"


@pytest.mark.parametrize("tile", [25, 1024])
def test_tiles_computed_anew_are_solved_alike(tile):
    expected = np.linalg.solve(shifted(THETA, 5e-2), Y)
    matrix = KernelMatrix(Gaussian(), X, tile=tile)
    found = solvers.solve(matrix, Y, ridge=5e-2, solver=solvers.SketchAndProject(block=40))
    np.testing.assert_allclose(found.coefficients, expected, atol=1e-8 * np.abs(expected).max())


def test_rows_of_one_chunk_of_a_store_are_read_together(tmp_path):
    net = nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1))
    matrix = solvers.matrices.as_matrix(GramStore(tmp_path / "k", net, X[:50], tile=8).compute())
    rng = np.random.default_rng(0)
    blocks = list(solvers.sketch_and_project._blocks(matrix, 16, rng))
    assert sorted(np.concatenate(blocks)) == list(range(50))
    assert all(len(set(rows // 8)) <= 3 for rows in blocks)
    assert [len(rows) for rows in blocks] == [16, 16, 16, 2]


def test_an_ensemble_is_fitted_by_name(tmp_path):
    net = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
    one, other = (
        InfiniteEnsemble(net, ridge=0.05, solver=name).fit(X[:40], Y[:40]) for name in ("eigh", "sketch-and-project")
    )
    np.testing.assert_allclose(other.predict(X[40:]), one.predict(X[40:]), atol=1e-8)
    assert other.solution_.solver == "sketch-and-project"


def test_auto_takes_it_where_not_even_a_preconditioner_fits_and_says_why():
    task = lambda limit: Task(200_000, 10, 4, False, False, 1024, int(limit))
    assert choose(task(16e9), np.inf, 1e-3, False, None, True).solver == "pcg"
    plan = choose(task(2e9), np.inf, 1e-3, False, None, True)
    assert plan.solver == "sketch-and-project"
    assert "not even the preconditioner of 'pcg' fits" in plan.reason
    assert plan.memory <= 2e9
    assert plan.method.exact
    assert "sketch-and-project" in choosing.SOLVERS


class TestRefusals:
    def test_without_a_ridge_say_what_to_take(self):
        with pytest.raises(InvalidArgumentError, match=r"the ridge is 0; give a ridge, .*'pcg'"):
            solvers.solve(THETA, Y, solver="sketch-and-project")

    def test_of_too_few_sweeps_give_the_residual(self):
        method = solvers.SketchAndProject(block=10, max_sweeps=2)
        with pytest.raises(InvalidArgumentError, match=r"ends at a relative residual of .* after 2 sweeps.*max_sweeps"):
            solvers.solve(THETA, Y, ridge=1e-3, solver=method)

    def test_of_a_matrix_that_is_not_positive_name_its_eigenvalue(self):
        matrix = positive(30, 10)
        matrix[3, 3] = -5.0
        with pytest.raises(NotPositiveDefiniteError, match="smallest eigenvalue -"):
            solvers.solve(matrix, Y[:30], ridge=1e-3, ridge_unit=1.0, solver=solvers.SketchAndProject(block=10))

    def test_of_entries_that_are_not_finite(self):
        matrix = THETA.copy()
        matrix[5, 70] = matrix[70, 5] = np.nan
        with pytest.raises(NotFiniteError, match="NaN"):
            solvers.solve(matrix, Y, ridge=1e-2, solver=solvers.SketchAndProject(block=10))

    @pytest.mark.parametrize("wrong", [{"block": 0}, {"rank": -1}, {"tolerance": 2.0}, {"max_sweeps": 0}, {"seed": -1}])
    def test_of_wrong_settings(self, wrong):
        with pytest.raises(InvalidArgumentError):
            solvers.SketchAndProject(**wrong)


def test_what_diverges_stops_once_its_residual_has_grown_a_thousandfold(rng):
    """Blocks of half the rows, at a ridge far below what they leave: each sweep adds to the residual."""
    x, y = rng.normal(size=(400, 5)), rng.normal(size=400)
    theta = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 10)
    with pytest.raises(InvalidArgumentError, match=r"diverges and stops .* raise the ridge .* solver='pcg'") as caught:
        solvers.solve(theta, y, ridge=1e-6, solver=solvers.SketchAndProject(block=200))
    residual, sweeps = re.search(r"residual of (\S+) after (\d+) sweeps", str(caught.value)).groups()
    assert 1e3 < float(residual) < 1e4
    assert int(sweeps) < 200


def test_what_stands_still_stops_after_200_sweeps_without_a_fall(rng, caplog):
    """Blocks of an eighth of the rows at such a ridge neither fall nor grow; those of a twentieth fall, and go on."""
    x, y = rng.normal(size=(400, 5)), rng.normal(size=400)
    theta = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 10)
    with pytest.raises(InvalidArgumentError, match=r"stands still and stops at .* solver='pcg'") as caught:
        solvers.solve(theta, y, ridge=1e-5, solver=solvers.SketchAndProject(block=50))
    residual, sweeps = re.search(r"residual of (\S+) after (\d+) sweeps", str(caught.value)).groups()
    assert 1 < float(residual) < 1e3
    assert 200 <= int(sweeps) < 500
    assert f"stands still and stops: relative residual {residual} after {sweeps} sweeps" in caplog.text
    with pytest.raises(InvalidArgumentError, match="after 300 sweeps"):
        solvers.solve(theta, y, ridge=1e-5, solver=solvers.SketchAndProject(block=20, max_sweeps=300))


def test_conjugate_gradients_that_diverge_stop(rng):
    """By a product that is not symmetric, which pᵀAp > 0 does not show: every step multiplies the residual."""
    X = rng.normal(size=(50, 50))
    A = np.eye(50) + 100 * (X - X.T)
    steps = []
    found = conjugate_gradients(
        lambda v: steps.append(1) or A @ v, rng.normal(size=(50, 1)), Unchanged(), tolerance=1e-10, steps=500
    )
    assert found.negative > 0
    assert found.steps < 10
