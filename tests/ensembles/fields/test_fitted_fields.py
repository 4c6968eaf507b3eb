"""Laws: training on fields is training on all their points, with a loss that is a mean over samples."""

import jax
import numpy as np
import pytest

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels, flat, literal_fit
from equitangents.ensembles.fields import kernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.infinite import problem
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError

NET = PatchKernels()
TIMES = (0.0, 0.7, 40.0, np.inf)


@pytest.fixture
def data(rng=None):
    rng = np.random.default_rng(3)
    return rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 3, 3, 2)), rng.normal(size=(2, 3, 3, 1))


def gap(a, b):
    return float(np.max(np.abs(a - b)))


@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
@pytest.mark.parametrize("time", TIMES)
def test_a_fit_to_fields_is_the_dense_fit_to_all_points(data, time, kernel):
    x, y, x_test = data
    settings = {"time": time, "learning_rate": 0.5, "ridge": 0.02, "kernel": kernel}
    model = et.InfiniteEnsemble(NET, **settings).fit(x, y)
    mean, covariance = model.predict(x_test, return_cov=True)
    literal_mean, literal_covariance = literal_fit(NET, x, y, x_test, **settings)
    assert mean.shape == (2, 3, 3, 2)
    assert covariance.shape == (2, 3, 3, 2, 3, 3)
    assert not gap(mean.reshape(18, 2), literal_mean) > 1e-9
    assert not gap(covariance.reshape(18, 18), literal_covariance) > 1e-9
    std = model.predict(x_test, return_std=True)[1]
    assert not gap(std.ravel() ** 2, np.maximum(np.diagonal(literal_covariance), 0)) > 1e-9
    assert model.solver_ == "dense NP×NP"


@pytest.mark.parametrize("solver", ["cholesky", "lanczos", "pcg"])
def test_every_exact_solver_gives_the_same_fields(data, solver):
    x, y, x_test = data
    time = 3.0 if solver == "lanczos" else np.inf
    model = et.InfiniteEnsemble(NET, ridge=0.1, time=time, solver=solver).fit(x, y)
    mean, covariance = model.predict(x_test, return_cov=True)
    literal_mean, literal_covariance = literal_fit(NET, x, y, x_test, ridge=0.1, time=time)
    assert not gap(mean.reshape(18, 2), literal_mean) > 1e-8
    assert not gap(covariance.reshape(18, 18), literal_covariance) > 1e-7


def test_blocks_of_a_kernel_of_points_with_themselves_fill_both_halves(data, monkeypatch):
    x = data[0]
    points = FieldPoints.of(x, 9)
    monkeypatch.setattr(kernel, "_ENTRIES", 200)  # one signal at a time
    found, field = kernel.FieldKernel(NET).kernel(points), NET.kernel_field(x)
    np.testing.assert_allclose(found.ntk, flat(field.ntk), rtol=1e-12)
    np.testing.assert_allclose(found.nngp, flat(field.nngp), rtol=1e-12)


def test_matrices_that_are_not_held_are_computed_tile_by_tile(data, monkeypatch):
    x, y, x_test = data
    monkeypatch.setattr(problem, "_BOTH", 0.0)  # as if they were too large
    monkeypatch.setattr(problem, "_ONE", 0.0)
    monkeypatch.setattr(kernel, "_TILE", 20)
    monkeypatch.setattr(kernel, "_ENTRIES", 200)
    model = et.InfiniteEnsemble(NET, ridge=0.1, solver=et.solvers.PCG(rank=8)).fit(x, y)
    assert model._training.mean_problem.solver.system.matrix.in_memory is False
    monkeypatch.setattr(kernel, "_LANDMARKS", 12)  # pivots of some signals alone, whose columns are read together
    chosen = et.InfiniteEnsemble(NET, ridge=0.1, solver=et.solvers.PCG(rank=8)).fit(x, y)
    spanned = et.InfiniteEnsemble(NET, ridge=0.1, solver=et.solvers.Nystrom(rank=8)).fit(x, y)
    landmarks = spanned._training.mean_problem.solution(np.inf).support
    assert len(np.unique(landmarks // 9)) <= 2 < len(landmarks)
    assert spanned.solution_.error > 0
    literal = literal_fit(NET, x, y, x_test, time=np.inf, ridge=0.1)[0]
    assert not gap(chosen.predict(x_test).reshape(18, 2), literal) > 1e-8
    assert not gap(model.predict(x_test).reshape(18, 2), literal) > 1e-8


def test_an_approximation_that_leaves_out_much_is_warned_of_and_an_exact_solver_is_not(data, caplog):
    x, y, _ = data
    rough = et.InfiniteEnsemble(NET, ridge=0.01, solver=et.solvers.Nystrom(rank=4)).fit(x, y)
    assert rough.solution_.error > 0.05
    assert f"estimated at {100 * rough.solution_.error:.0f} % of the targets' size" in caplog.text
    caplog.clear()
    et.InfiniteEnsemble(NET, ridge=0.01, solver="pcg").fit(x, y)
    assert "approximates" not in caplog.text


def test_many_times_are_predicted_at_once_and_discrete_steps_are_steps_on_the_loss_over_samples(data):
    x, y, x_test = data
    model = et.InfiniteEnsemble(NET, time=3, learning_rate=0.2, dynamics="discrete").fit(x, y)
    theta, cross = flat(NET.kernel_field(x).ntk), flat(NET.kernel_field(x_test, x).ntk)
    f, f_test = np.zeros((36, 2)), np.zeros((18, 2))
    for _ in range(3):
        pull = 0.2 / len(x) * (y.reshape(36, 2) - f)
        f, f_test = f + theta @ pull, f_test + cross @ pull
    found = model.predict(x_test, time=[0, 3])
    assert found.shape == (2, 2, 3, 3, 2)
    assert not gap(found[1].reshape(18, 2), f_test) > 1e-12
    assert model.max_learning_rate_ == pytest.approx(2 * len(x) / np.linalg.eigvalsh(theta)[-1])


def test_targets_without_an_axis_of_outputs_are_predicted_without_it(data):
    x, y, x_test = data
    model = et.InfiniteEnsemble(NET, ridge=0.1).fit(x, y)
    net = PositionsOnly()
    alone = et.InfiniteEnsemble(net, ridge=0.1, time=1.0).fit(x, y[..., 0])
    assert alone.predict(x_test).shape == (2, 3, 3)
    assert alone.sample(x_test, 4, key=jax.random.key(0)).shape == (4, 2, 3, 3)
    assert model.sample(x_test, 4, key=jax.random.key(0)).shape == (4, 2, 3, 3, 2)


class PositionsOnly(et.nn.Sequential):
    """A network whose layers say where it ends, with kernels of patches."""

    def __init__(self):
        super().__init__(et.nn.Conv(1, (3, 3)))

    def kernel_field(self, x1, x2=None):
        return NET.kernel_field(x1, x2)

    kernel_field_diagonal = None


def test_a_saved_ensemble_predicts_the_same_fields(data, tmp_path):
    x, y, x_test = data
    model = et.InfiniteEnsemble(NET, ridge=0.1).fit(x, y)
    model.save(tmp_path / "model")
    loaded = et.InfiniteEnsemble.load(tmp_path / "model", net=NET)
    assert gap(loaded.predict(x_test), model.predict(x_test)) == 0
    assert (
        gap(loaded.predict(x_test, time=1.0, return_cov=True)[1], model.predict(x_test, time=1.0, return_cov=True)[1])
        == 0
    )


def test_the_marginal_likelihood_is_that_of_all_numbers_and_equal_samples_count_twice(data):
    x, y, x_test = data
    model = et.InfiniteEnsemble(NET, ridge=0.2, kernel="nngp").fit(x, y)
    K = flat(NET.kernel_field(x).nngp)
    K = K + 0.2 * np.trace(K) / 36 * np.eye(36)
    flat_y = y.reshape(36, 2)
    literal = -np.trace(flat_y.T @ np.linalg.solve(K, flat_y)) / 2
    literal -= np.linalg.slogdet(K)[1] + 36 * np.log(2 * np.pi)
    assert model.log_marginal_likelihood_ == pytest.approx(literal, rel=1e-9)
    twice = et.InfiniteEnsemble(NET, time=1.0).fit(np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]]))
    literal_mean = literal_fit(NET, np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]]), x_test, time=1.0)[0]
    assert not gap(twice.predict(x_test).reshape(18, 2), literal_mean) > 1e-9


@pytest.mark.parametrize("time", [0.7, np.inf])
def test_a_field_is_left_out_with_all_its_positions(data, time):
    x, y, _ = data
    x[3], y[3] = x[0], y[0]  # the same field twice: only one of them is left out
    model = et.InfiniteEnsemble(NET, time=time, learning_rate=0.5, ridge=0.1)
    left_out = model.fit(x, y).leave_one_out_
    for i in range(4):
        rest = np.delete(np.arange(4), i)
        assert not gap(left_out.predictions[i], model.fit(x[rest], y[rest]).predict(x[i : i + 1])[0]) > 1e-9
    np.testing.assert_array_equal(left_out.residuals, y - left_out.predictions)
    assert left_out.squared_errors.shape == (4,)


def test_what_does_not_fit_is_refused_in_words(data):
    x, y, _ = data
    field = et.nn.Sequential(et.nn.Conv(4, (3, 3)), et.nn.Relu(), et.nn.Conv(2, (3, 3)))
    with pytest.raises(ShapeError, match=r"y has shape .*; expected \(4, 3, 3, outputs\)"):
        et.InfiniteEnsemble(field).fit(x, y[:, 0])
    steps = et.InfiniteEnsemble(NET, time=5, learning_rate=0.1, ridge=0.1, dynamics="discrete").fit(x, y)
    with pytest.raises(InvalidArgumentError, match=r"time is 5.*leaving samples out of gradient descent"):
        steps.leave_one_out_
    with pytest.raises(ShapeError, match=r"y has shape"):
        et.DeepEnsemble(field, members=1, epochs=1).fit(x, y[:, :2])
    with pytest.raises(NetworkError, match=r"net gives outputs of shape \(.*3, 3, 2\)"):
        et.DeepEnsemble(field, members=1, epochs=1).fit(x, np.concatenate([y, y], axis=-1))
