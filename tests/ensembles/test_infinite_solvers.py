"""An infinite ensemble gives the same answers whichever exact solver it uses, and says which one that was."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from equitangents import InfiniteEnsemble, actions, nn, solvers
from equitangents.ensembles.infinite import predictor
from equitangents.ensembles.infinite.predictor import training_matrices
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.result import NngpKernels
from oracles.literal_network import LiteralNetwork

NET = LiteralNetwork.relu_mlp(1)
RNG = np.random.default_rng(3)
X, Y, X_TEST = RNG.normal(size=(20, 5)), RNG.normal(size=(20, 2)), RNG.normal(size=(6, 5))
EXACT = ["auto", "cholesky", "lanczos", "pcg", solvers.PCG(rank=5), solvers.Cholesky(precision="float32")]


def same(model, reference, x=X_TEST, atol=1e-8):
    np.testing.assert_allclose(model.predict(x), reference.predict(x), atol=atol)
    np.testing.assert_allclose(model.predict(x, time=[0.0, 30.0]), reference.predict(x, time=[0.0, 30.0]), atol=atol)
    for option in ("return_std", "return_cov"):
        got, expected = (m.predict(x, time=[30.0, np.inf], **{option: True})[1] for m in (model, reference))
        np.testing.assert_allclose(got, expected, atol=10 * atol)
    assert model.max_learning_rate_ == pytest.approx(reference.max_learning_rate_, rel=1e-2)


@pytest.mark.quick(2)
@pytest.mark.parametrize(("kernel", "time"), [("ntk", 40.0), ("nngp", np.inf)])
@pytest.mark.parametrize("solver", EXACT, ids=str)
def test_means_and_covariances_are_those_of_the_decomposition(kernel, time, solver):
    settings = {"kernel": kernel, "time": time, "ridge": 1e-2, "learning_rate": 0.7}
    model = InfiniteEnsemble(NET, solver=solver, **settings).fit(X, Y)
    same(model, InfiniteEnsemble(NET, solver="eigh", **settings).fit(X, Y))
    assert model.solver_ == "dense N×N"


@pytest.mark.parametrize("solver", ["out-of-core", "cholesky", "pcg", "nystrom"])
def test_a_kernel_in_a_store_is_solved_from_its_tiles(tmp_path, solver):
    net = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
    model = InfiniteEnsemble(net, ridge=1e-2, store=tmp_path / "k", solver=solver).fit(X, Y[:, 0])
    expected = InfiniteEnsemble(net, ridge=1e-2).fit(X, Y[:, 0]).predict(X_TEST)
    np.testing.assert_allclose(model.predict(X_TEST), expected, atol=1e-6)
    assert model.solution_.solver == solver
    assert (tmp_path / "k").exists()


def test_the_approximation_predicts_and_estimates_its_error():
    exact = InfiniteEnsemble(NET, ridge=0.05, solver="eigh").fit(X, Y)
    full = InfiniteEnsemble(NET, ridge=0.05, solver="nystrom").fit(X, Y)
    np.testing.assert_allclose(full.predict(X_TEST), exact.predict(X_TEST), atol=1e-8)
    assert full.solution_.error == 0
    part = InfiniteEnsemble(NET, ridge=0.05, solver=solvers.Nystrom(rank=10)).fit(X, Y)
    error = np.sqrt(np.mean((part.predict(X) - exact.predict(X)) ** 2) / np.mean(Y**2))
    assert 0.2 * error <= part.solution_.error <= 20 * error
    assert part.solution_.rank == 10
    with pytest.raises(InvalidArgumentError, match="exact one or 'pcg' for variances"):
        part.predict(X_TEST, return_std=True)


@pytest.mark.parametrize("solver", ["cholesky", "pcg", "nystrom"])
def test_equal_samples_are_merged(solver):
    x, y = np.concatenate([X, X[:7], X[:2]]), np.concatenate([Y, Y[:7], Y[:2]])
    settings = {"ridge": 1e-3, "learning_rate": 2.0}
    model = InfiniteEnsemble(NET, solver=solver, **settings).fit(x, y)
    reference = InfiniteEnsemble(NET, solver="eigh", **settings).fit(x, y)
    np.testing.assert_allclose(model.predict(X_TEST, time=9.0), reference.predict(X_TEST, time=9.0), atol=1e-7)
    np.testing.assert_allclose(model.predict(X_TEST), reference.predict(X_TEST), atol=1e-7)


class TestAugmentation:
    IMAGES = RNG.normal(size=(6, 3, 3, 1))
    TARGETS = RNG.normal(size=(6, 2))
    TEST = RNG.normal(size=(3, 3, 3, 1))

    @pytest.mark.parametrize("solver", ["cholesky", "pcg"])
    def test_by_exact_actions_is_the_orbit_averaged_problem(self, solver):
        settings = {"augmentation": actions.image_rotations(4), "ridge": 1e-2}
        model = InfiniteEnsemble(NET, solver=solver, **settings).fit(self.IMAGES, self.TARGETS)
        reference = InfiniteEnsemble(NET, solver="eigh", **settings).fit(self.IMAGES, self.TARGETS)
        assert model.solver_ == reference.solver_ == "orbit-averaged N×N"
        assert model.solution_.solver == solver
        for time in (5.0, np.inf):
            got, expected = (m.predict(self.TEST, time=time, return_std=True) for m in (model, reference))
            np.testing.assert_allclose(got[0], expected[0], atol=1e-8)
            np.testing.assert_allclose(got[1], expected[1], atol=1e-8)

    @pytest.mark.parametrize("solver", ["cholesky", "pcg"])
    def test_by_some_elements_is_the_explicit_problem(self, solver):
        some = actions.subset(actions.image_rotations(4), [0, 1, 3], weights=[1.0, 2.0, 1.0])
        settings = {"augmentation": some, "ridge": 1e-2}
        model = InfiniteEnsemble(NET, solver=solver, **settings).fit(self.IMAGES, self.TARGETS)
        same(model, InfiniteEnsemble(NET, solver="eigh", **settings).fit(self.IMAGES, self.TARGETS), self.TEST)
        assert model.solver_.startswith("explicit N|G|")

    def test_that_needs_irreps_is_decomposed_or_refused(self):
        turns, y = actions.image_rotations(4), RNG.normal(size=(6, 4))
        classes = actions.labels(turns.group, np.add.outer(range(4), range(4)) % 4)
        settings = {"augmentation": turns, "label_action": classes, "ridge": 1e-2}
        report = InfiniteEnsemble(NET, **settings).fit(self.IMAGES, y).solution_
        assert report.solver == "eigh"
        assert "irreps" in report.reason
        with pytest.raises(InvalidArgumentError, match=r"solver is 'pcg'.*labels is decomposed.*irreps"):
            InfiniteEnsemble(NET, solver="pcg", **settings).fit(self.IMAGES, y)


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
def test_leave_one_out_likelihood_and_tuning_decompose_when_they_are_asked_for(solver, caplog):
    model = InfiniteEnsemble(NET, ridge=1e-2, solver=solver).fit(X, Y)
    reference = InfiniteEnsemble(NET, ridge=1e-2, solver="eigh").fit(X, Y)
    caplog.set_level(logging.INFO, "equitangents")
    np.testing.assert_allclose(model.leave_one_out_.predictions, reference.leave_one_out_.predictions, atol=1e-9)
    assert "decomposing the training kernel" in caplog.text
    assert model.log_marginal_likelihood_ == pytest.approx(reference.log_marginal_likelihood_)
    tuned = model.tune({"ridge": [1e-3, 1e-1]})
    assert tuned.best_score == pytest.approx(reference.tune({"ridge": [1e-3, 1e-1]}).best_score)


def test_the_solution_of_a_decomposition_says_its_condition():
    report = InfiniteEnsemble(NET, ridge=1e-2).fit(X, Y).solution_
    assert (report.solver, report.iterations) == ("eigh", 0)
    assert report.residual < 1e-10
    values = np.linalg.eigvalsh(NET.kernel(X).ntk)
    assert report.condition == pytest.approx((values[-1] + 1e-2 * values.mean()) / (values[0] + 1e-2 * values.mean()))


def test_auto_goes_on_to_other_solvers_where_a_decomposition_is_too_large(monkeypatch):
    monkeypatch.setattr(predictor, "DECOMPOSED", 10)
    monkeypatch.setattr(solvers.solving, "DECOMPOSED", 10)
    model = InfiniteEnsemble(NET, ridge=1e-2).fit(X, Y)
    assert model.solution_.solver == "cholesky"
    assert model.solution_.reason == "auto: a factor fits into memory"
    same(model, InfiniteEnsemble(NET, ridge=1e-2, solver="eigh").fit(X, Y))
    finite = InfiniteEnsemble(NET, time=3.0, memory_limit=250_000).fit(X, Y)
    assert finite.solution_.solver == "lanczos"


class Counted:
    """A kernel that counts the pairs of inputs it computes."""

    def __init__(self):
        self.pairs = 0

    def kernel(self, x1, x2=None):
        self.pairs += len(x1) * len(x1 if x2 is None else x2)
        return NET.kernel(x1, x2)


@pytest.mark.parametrize("solver", ["cholesky", "lanczos", "pcg"])
def test_the_training_kernel_is_computed_once_where_it_fits_into_memory(solver):
    counted = Counted()
    model = InfiniteEnsemble(counted, time=20.0, ridge=1e-2, solver=solver).fit(X, Y)
    assert counted.pairs <= 2 * len(X) ** 2  # twice for what fit checks on a few inputs
    before = counted.pairs
    model.predict(X_TEST, time=[1.0, np.inf])
    assert counted.pairs - before <= len(X) * len(X_TEST)
    _ = model.leave_one_out_
    assert counted.pairs - before <= len(X) * len(X_TEST)


@pytest.mark.parametrize(
    ("limit", "held"), [(10**8, (True,) * 3), (20_000, (True, False, False)), (4_000, (False,) * 3)]
)
def test_kernels_are_held_both_one_or_none_by_the_memory_there_is(limit, held):
    trained, prior, kernels = training_matrices(NET, X, "ntk", None, limit, full=True)
    assert (trained.in_memory, prior.in_memory, kernels is not None) == held
    for matrix, field in ((trained, "ntk"), (prior, "nngp")):
        np.testing.assert_allclose(matrix.product(np.eye(20)), getattr(NET.kernel(X), field), atol=1e-12)
    assert not training_matrices(NET, X, "ntk", None, limit, full=False)[0].in_memory


def test_a_network_that_has_no_tangent_kernel_is_trained_in_its_last_layer():
    class WithoutTangents:
        def kernel(self, x1, x2=None):
            return NngpKernels(NET.kernel(x1, x2).nngp, reason="it has none")

    settings = {"kernel": "nngp", "ridge": 1e-2}
    model = InfiniteEnsemble(WithoutTangents(), solver="pcg", **settings).fit(X, Y)
    same(model, InfiniteEnsemble(NET, solver="eigh", **settings).fit(X, Y))
