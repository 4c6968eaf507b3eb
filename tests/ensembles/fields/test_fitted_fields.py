"""Laws: training on fields is training on all points of all their copies, with a loss that is a mean over samples."""

import jax
import numpy as np
import pytest

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels, flat, literal_fit
from equitangents import actions
from equitangents.ensembles import fields as kernel
from equitangents.ensembles.fields import FieldPoints, moved_targets
from equitangents.ensembles.infinite import predictor
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError

NET = PatchKernels()
UNEVEN = PatchKernels(profile=[[1, 0.5, 0], [1, 1, 0.2], [0, 0.3, 1]])
ENDING = et.nn.Sequential(et.nn.Conv(4, (3, 3), W_std=1.4, b_std=0.2), et.nn.Relu(), et.nn.Conv(2, (3, 3)))
D4, C4 = actions.image_dihedral(4), actions.image_rotations(4)
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
TURNED = np.stack([np.linalg.matrix_power(TURN, k) for k in range(4)])
REFLECTED = np.concatenate([TURNED, TURNED @ np.diag([-1.0, 1.0])])
VECTORS = actions.tensor_product(D4, actions.channels(D4.group, REFLECTED))  # 2-vectors turn with their positions
TORUS, STILL = actions.translations((3, 3)), actions.trivial(C4.group)
TIMES = (0.0, 0.8, 50.0, np.inf)
SETTINGS = {"learning_rate": 0.7, "ridge": 0.03}


def gap(a, b):
    return float(np.max(np.abs(np.reshape(a, np.shape(b)) - b)))


def fields(n=3, seed=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3, 3, 1)), rng.normal(size=(n, 3, 3, 2)), rng.normal(size=(2, 3, 3, 1))


X, Y, X_TEST = fields()
SYMMETRIC = [np.concatenate([sum(C4(g, z[:1]) for g in range(4)) / 4, z[1:], C4(1, z[1:2])]) for z in (X, Y)]
TWICE = [np.concatenate([z, z[:2]]) for z in (X, Y)]


def copies(action, label_action, x, y, elements=None):
    """All augmented samples, one by one."""
    elements = range(action.group.order) if elements is None else elements
    return [np.concatenate([np.asarray(act(g, z)) for g in elements]) for act, z in ((action, x), (label_action, y))]


def cases():
    """(solver's name, network, settings, data, all copies)."""
    for time in TIMES:
        for which in ("ntk", "nngp"):
            yield "dense NP×NP", NET, {"kernel": which, "time": time}, (X, Y), (X, Y)
        for given in ("C4", C4):  # values of masks do not turn; positions do in either case
            how = {"augmentation": given, "label_action": None if given == "C4" else C4, "time": time}
            yield "orbit-averaged NP×NP", NET, how, (X, Y), copies(C4, C4, X, Y)
    for time in TIMES[1:]:
        vectors = {"augmentation": D4, "label_action": VECTORS, "time": time}
        yield "irreps of D4", NET, vectors, (X, Y), copies(D4, VECTORS, X, Y)
        shifts = {"augmentation": TORUS, "time": time}
        yield "the network is equivariant under", NET, shifts, (X, Y), copies(TORUS, TORUS, X, Y)
    yield "dense NP×NP", ENDING, {"time": 0.8}, (X, Y), (X, Y)
    for solver, time in (("cholesky", np.inf), ("pcg", np.inf), ("lanczos", 3.0)):
        yield "dense NP×NP", NET, {"solver": solver, "time": time}, (X, Y), (X, Y)
    for time in TIMES[1:3]:
        uneven = {"augmentation": C4, "time": time}
        yield "explicit NP|G| (the kernel is not known", UNEVEN, uneven, (X, Y), copies(C4, C4, X, Y)
    yield "", NET, {"augmentation": C4, "label_action": STILL, "time": 0.8}, (X, Y), copies(C4, STILL, X, Y)
    for elements, name in (([0, 1, 1], "explicit"), ([0, 2], "orbit-averaged NP×NP")):
        some = {"augmentation": actions.subset(C4, elements), "time": 0.8}
        yield name, NET, some, (X, Y), copies(C4, C4, X, Y, elements)
    yield "", NET, {"augmentation": C4, "time": 5.0}, SYMMETRIC, copies(C4, C4, *SYMMETRIC)
    yield "dense NP×NP", NET, {"time": 1.0}, TWICE, TWICE


@pytest.mark.parametrize(("name", "net", "settings", "data", "copied"), list(cases()))
def test_a_fit_is_the_dense_fit_to_all_points_of_all_copies(name, net, settings, data, copied):
    model = et.InfiniteEnsemble(net, **SETTINGS | settings).fit(*data)
    assert name in model.solver_
    literal = {"time": settings["time"], "kernel": settings.get("kernel", "ntk")} | SETTINGS
    for inputs in (X[:1], X_TEST):  # on the data and off it
        mean, covariance = model.predict(inputs, return_cov=True)
        expected, expected_covariance = literal_fit(net, *copied, inputs, **literal)
        assert mean.shape == (len(inputs), 3, 3, 2)
        assert covariance.shape == (len(inputs), 3, 3, len(inputs), 3, 3)
        assert not gap(mean, expected) > 1e-8
        assert not gap(covariance, expected_covariance) > 1e-7
        std = model.predict(inputs, return_std=True)[1]
        assert not gap(std**2, np.maximum(np.diagonal(expected_covariance), 0).reshape(std.shape)) > 1e-7


@pytest.mark.quick(3)
@pytest.mark.parametrize("time", [0.8, np.inf])
@pytest.mark.parametrize(("action", "label_action"), [(C4, C4), (D4, VECTORS), (TORUS, TORUS)])
def test_means_and_covariances_move_with_the_inputs(action, label_action, time):
    model = et.InfiniteEnsemble(NET, augmentation=action, label_action=label_action, time=time, ridge=0.03).fit(X, Y)
    mean, covariance = model.predict(X_TEST, return_cov=True)
    for g in range(action.group.order):
        moved, moved_covariance = model.predict(action(g, X_TEST), return_cov=True)
        assert not gap(moved, label_action(g, mean)) > 1e-9
        if label_action is not action:  # Σ(gx, gx′) = ρ Σ(x, x′) ρᵀ, of one output
            continue
        once = np.stack([action(g, c[..., None])[..., 0] for c in covariance.reshape(-1, 2, 3, 3)])
        once = np.moveaxis(once.reshape(2, 3, 3, 2, 3, 3), (3, 4, 5), (0, 1, 2))
        twice = np.stack([action(g, c[..., None])[..., 0] for c in once.reshape(-1, 2, 3, 3)])
        twice = np.moveaxis(twice.reshape(2, 3, 3, 2, 3, 3), (3, 4, 5), (0, 1, 2))
        assert not gap(moved_covariance, twice) > 1e-9


@pytest.mark.parametrize("label_action", [None, pytest.param(VECTORS, marks=pytest.mark.slow)])
def test_predictions_on_orbits_are_those_of_the_moved_inputs_one_by_one(label_action):
    model = et.InfiniteEnsemble(NET, augmentation=D4, label_action=label_action, time=3.0).fit(X, Y)
    orbit = np.moveaxis(D4.orbit(X_TEST), 0, 1)
    mean, covariance = model.predict(orbit.reshape(16, 3, 3, 1), return_cov=True)
    joint_mean, joint = mean.reshape(2, 8, 3, 3, 2), covariance.reshape(2, 8, 3, 3, 2, 8, 3, 3)
    assert not gap(model.predict_orbit_means(X_TEST), joint_mean) > 1e-10
    draws = model.sample_orbits(X_TEST[:1], 1000, key=jax.random.key(2))
    assert draws.shape == (1000, 1, 8, 3, 3, 2)
    spread = np.sqrt(np.einsum("gijgij->gij", joint[0, :, :, :, 0]) / 1000)
    assert not np.max(np.abs(draws.mean(0)[0] - joint_mean[0]) / spread[..., None]) > 4.5


def test_images_that_are_symmetric_themselves_make_no_singular_problem():
    x, y = SYMMETRIC
    model = et.InfiniteEnsemble(NET, augmentation=C4, time=np.inf).fit(x, y)
    assert not gap(model.predict(C4(3, x)), C4(3, y)) > 1e-7


def test_shifts_of_an_equivariant_network_are_the_samples_themselves():
    plain = et.InfiniteEnsemble(NET, ridge=0.03 / 9, time=0.8).fit(X, Y)  # which nine copies weigh against
    model = et.InfiniteEnsemble(NET, augmentation=TORUS, ridge=0.03, time=0.8).fit(X, Y)
    assert not gap(model.predict(X), plain.predict(X)) > 1e-9


def test_blocks_of_a_kernel_of_points_with_themselves_fill_both_halves(monkeypatch):
    points = FieldPoints.of(X, 9)
    monkeypatch.setattr(kernel, "_ENTRIES", 200)  # one signal at a time
    found, field = kernel.FieldKernel(NET).kernel(points), NET.kernel_field(X)
    np.testing.assert_allclose(found.ntk, flat(field.ntk), rtol=1e-12)
    np.testing.assert_allclose(found.nngp, flat(field.nngp), rtol=1e-12)


def test_matrices_that_are_not_held_are_computed_tile_by_tile(monkeypatch):
    x, y, x_test = fields(n=4, seed=3)
    for module, name, value in ((predictor, "_BOTH", 0.0), (predictor, "_ONE", 0.0), (kernel, "_TILE", 20)):
        monkeypatch.setattr(module, name, value)  # as if they were too large
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
    for found in (chosen, model):
        assert not gap(found.predict(x_test), literal) > 1e-8


def test_an_approximation_that_leaves_out_much_is_warned_of_and_an_exact_solver_is_not(caplog):
    rough = et.InfiniteEnsemble(NET, ridge=0.01, solver=et.solvers.Nystrom(rank=4)).fit(X, Y)
    assert rough.solution_.error > 0.05
    assert f"estimated at {100 * rough.solution_.error:.0f} % of the targets' size" in caplog.text
    caplog.clear()
    et.InfiniteEnsemble(NET, ridge=0.01, solver="pcg").fit(X, Y)
    assert "approximates" not in caplog.text


def test_many_times_are_predicted_at_once_and_discrete_steps_are_steps_on_the_loss_over_samples():
    model = et.InfiniteEnsemble(NET, time=3, learning_rate=0.2, dynamics="discrete").fit(X, Y)
    theta, cross = flat(NET.kernel_field(X).ntk), flat(NET.kernel_field(X_TEST, X).ntk)
    f, f_test = np.zeros((27, 2)), np.zeros((18, 2))
    for _ in range(3):
        pull = 0.2 / len(X) * (Y.reshape(27, 2) - f)
        f, f_test = f + theta @ pull, f_test + cross @ pull
    found = model.predict(X_TEST, time=[0, 3])
    assert found.shape == (2, 2, 3, 3, 2)
    assert not gap(found[1], f_test) > 1e-12
    assert model.max_learning_rate_ == pytest.approx(2 * len(X) / np.linalg.eigvalsh(theta)[-1])


class PositionsOnly(et.nn.Sequential):
    """A network whose layers say where it ends, with kernels of patches."""

    def __init__(self):
        super().__init__(et.nn.Conv(1, (3, 3)))

    def kernel_field(self, x1, x2=None):
        return NET.kernel_field(x1, x2)

    kernel_field_diagonal = None


def test_targets_without_an_axis_of_outputs_are_predicted_without_it():
    single = et.InfiniteEnsemble(PositionsOnly(), ridge=0.1, time=1.0)
    mean, std = single.fit(X, Y[..., 0]).predict(X_TEST, return_std=True)
    assert mean.shape == std.shape == (2, 3, 3)
    assert single.predict(X_TEST, return_cov=True)[1].shape == (2, 3, 3, 2, 3, 3)
    assert single.sample(X_TEST, 4, key=jax.random.key(0)).shape == (4, 2, 3, 3)
    assert single.fit(X, Y).sample(X_TEST, 4, key=jax.random.key(0)).shape == (4, 2, 3, 3, 2)


def test_the_marginal_likelihood_is_that_of_all_numbers():
    model = et.InfiniteEnsemble(NET, ridge=0.2, kernel="nngp").fit(X, Y)
    K, y = flat(NET.kernel_field(X).nngp), Y.reshape(27, 2)
    K = K + 0.2 * np.trace(K) / 27 * np.eye(27)
    literal = -np.trace(y.T @ np.linalg.solve(K, y)) / 2 - np.linalg.slogdet(K)[1] - 27 * np.log(2 * np.pi)
    assert model.log_marginal_likelihood_ == pytest.approx(literal, rel=1e-9)


STRIDED = et.nn.Sequential(et.nn.Conv(2, (3, 3), stride=2))  # whose positions are fewer than its inputs'
ONE = et.nn.Sequential(et.nn.Conv(1, (3, 3)))


@pytest.mark.parametrize(
    ("model", "y", "error", "message"),
    [
        (et.InfiniteEnsemble(ENDING), Y[:, 0], ShapeError, r"y has shape .*; expected \(3, 3, 3, outputs\)"),
        (et.InfiniteEnsemble(STRIDED, TORUS, time=1.0), Y[:, :2, :2], ShapeError, "that moves the positions on which"),
        (et.InfiniteEnsemble(NET, C4), np.stack([Y] * 3), ShapeError, "y has shape .*3, 3, 3, 3, 2"),
        (et.InfiniteEnsemble(UNEVEN), np.ones((3, 4, 4, 2)), ShapeError, "targets on 9 positions"),
        (et.InfiniteEnsemble(ONE), Y[:, 0, 0], ShapeError, r"for one target a sample, end"),
        (et.DeepEnsemble(ENDING, members=1, epochs=1), Y[:, :2], ShapeError, "y has shape"),
        (et.DeepEnsemble(ENDING, members=1, epochs=1), np.tile(Y, 2), NetworkError, r"outputs of shape \(.*3, 3, 2\)"),
    ],
)
def test_fields_that_do_not_fit_are_refused(model, y, error, message):
    with pytest.raises(error, match=message):
        model.fit(X, y)


def test_groups_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"\(3, 3, 3, 1\); expected \(3, 3, 3, 2\); it must keep"):
        moved_targets(C4, lambda g, y: y[..., :1], Y)
    model = et.InfiniteEnsemble(NET, augmentation=actions.subset(C4, [0, 1, 1]), time=0.8).fit(X, Y)
    with pytest.raises(InvalidArgumentError, match="expected an action of a group"):
        model.predict_orbit_means(X_TEST)
