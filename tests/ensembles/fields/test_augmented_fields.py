"""Laws: augmentation moves fields along, and the mean is equivariant on and off the data at every time."""

import jax
import numpy as np
import pytest

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels, literal_fit
from equitangents import actions
from equitangents.ensembles.fields.targets import moved_targets
from equitangents.errors import InvalidArgumentError, ShapeError

NET = PatchKernels()
D4, C4 = actions.image_dihedral(4), actions.image_rotations(4)
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
TURNED = np.stack([np.linalg.matrix_power(TURN, k) for k in range(4)])
REFLECTED = np.concatenate([TURNED, TURNED @ np.diag([-1.0, 1.0])])
VECTORS = actions.tensor_product(D4, actions.channels(D4.group, REFLECTED))  # 2-vectors turn with their positions
TORUS = actions.translations((3, 3))
TIMES = (0.0, 0.8, 50.0, np.inf)


def gap(a, b):
    return float(np.max(np.abs(a - b)))


def fields(seed=5, n=3, outputs=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3, 3, 1)), rng.normal(size=(n, 3, 3, outputs)), rng.normal(size=(2, 3, 3, 1))


def copies(action, label_action, x, y):
    """All augmented samples, one by one."""
    everything = range(action.group.order)
    moved = [np.asarray(label_action(g, y)) for g in everything]
    return np.concatenate([action(g, x) for g in everything]), np.concatenate(moved)


def check_against_copies(model, net, action, label_action, time, tolerance=1e-9):
    x, y, x_test = fields()
    settings = {"time": time, "learning_rate": 0.7, "ridge": 0.03}
    many_x, many_y = copies(action, label_action, x, y)
    for inputs in (x[:1], x_test):  # on the data and off it
        mean, covariance = model.predict(inputs, return_cov=True)
        literal_mean, literal_covariance = literal_fit(net, many_x, many_y, inputs, **settings)
        assert not gap(mean.reshape(literal_mean.shape), literal_mean) > tolerance
        assert not gap(covariance.reshape(literal_covariance.shape), literal_covariance) > tolerance
        for g in range(action.group.order):
            moved, moved_covariance = model.predict(action(g, inputs), return_cov=True)
            assert not gap(moved, label_action(g, mean)) > tolerance
            if label_action is action:  # Σ(gx, gx′) = ρ Σ(x, x′) ρᵀ, of one output
                n = covariance.shape[0]
                once = np.stack([action(g, c[..., None])[..., 0] for c in covariance.reshape(-1, n, 3, 3)])
                once = np.moveaxis(once.reshape(n, 3, 3, n, 3, 3), (3, 4, 5), (0, 1, 2))
                twice = np.stack([action(g, c[..., None])[..., 0] for c in once.reshape(-1, n, 3, 3)])
                twice = np.moveaxis(twice.reshape(n, 3, 3, n, 3, 3), (3, 4, 5), (0, 1, 2))
                assert not gap(moved_covariance, twice) > tolerance


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("given", ["C4", C4])
def test_masks_that_turn_with_their_images_are_solved_at_the_size_of_the_data(time, given):
    x, y, _ = fields()
    label_action = None if given == "C4" else given  # values of masks do not turn; positions do in either case
    model = et.InfiniteEnsemble(
        NET, augmentation=given, label_action=label_action, time=time, learning_rate=0.7, ridge=0.03
    ).fit(x, y)
    assert model.solver_ == "orbit-averaged NP×NP"
    assert model.covariance_solver_.startswith("irreps of C4")
    check_against_copies(model, NET, C4, C4, time)


@pytest.mark.parametrize("time", [0.7, np.inf])
def test_a_field_and_its_copies_are_left_out_together(time):
    x, y, _ = fields()
    x[1], y[1] = C4(1, x[:1])[0], C4(1, y[:1])[0]  # a copy of another sample, which stays when that one leaves
    model = et.InfiniteEnsemble(NET, augmentation=C4, time=time, learning_rate=0.7, ridge=0.03)
    left_out = model.fit(x, y).leave_one_out_.predictions
    for i in range(len(x)):
        rest = np.delete(np.arange(len(x)), i)
        assert not gap(left_out[i], model.fit(x[rest], y[rest]).predict(x[i : i + 1])[0]) > 1e-8
    turned = et.InfiniteEnsemble(NET, augmentation=D4, label_action=VECTORS, time=time, ridge=0.03).fit(x, y)
    with pytest.raises(InvalidArgumentError, match=r"solver is .*irreps.* for leaving fields out"):
        turned.leave_one_out_


@pytest.mark.quick(1)
@pytest.mark.parametrize("time", TIMES)
def test_vectors_that_turn_with_their_positions_are_solved_by_irreps(time):
    x, y, _ = fields()
    settings = {"time": time, "learning_rate": 0.7, "ridge": 0.03}
    model = et.InfiniteEnsemble(NET, augmentation=D4, label_action=VECTORS, **settings).fit(x, y)
    assert model.solver_.startswith("irreps of D4")
    check_against_copies(model, NET, D4, VECTORS, time)


@pytest.mark.parametrize("time", TIMES[1:3])
def test_kernels_that_the_group_changes_are_trained_on_the_copies_themselves(time):
    uneven = PatchKernels(profile=[[1, 0.5, 0], [1, 1, 0.2], [0, 0.3, 1]])
    x, y, _ = fields()
    settings = {"time": time, "learning_rate": 0.7, "ridge": 0.03}
    model = et.InfiniteEnsemble(uneven, augmentation=C4, **settings).fit(x, y)
    assert model.solver_.startswith("explicit NP|G| (the kernel is not known to be invariant")
    many_x, many_y = copies(C4, C4, x, y)
    _, _, x_test = fields()
    literal = literal_fit(uneven, many_x, many_y, x_test, **settings)
    mean, covariance = model.predict(x_test, return_cov=True)
    assert not gap(mean.reshape(18, 2), literal[0]) > 1e-9
    assert not gap(covariance.reshape(18, 18), literal[1]) > 1e-9


@pytest.mark.quick(1)
@pytest.mark.parametrize("time", TIMES[1:])
def test_shifts_of_a_network_that_is_equivariant_under_them_are_the_samples_themselves(time):
    x, y, _ = fields()
    settings = {"time": time, "learning_rate": 0.7}
    plain = et.InfiniteEnsemble(NET, ridge=0.03 / 9, **settings).fit(x, y)  # which nine copies weigh against
    model = et.InfiniteEnsemble(NET, augmentation=TORUS, ridge=0.03, **settings).fit(x, y)
    assert "the network is equivariant under" in model.solver_
    check_against_copies(model, NET, TORUS, TORUS, time)
    assert not gap(model.predict(x), plain.predict(x)) > 1e-9


def test_targets_that_stay_where_they_are_and_targets_of_every_copy_are_taken_as_given():
    x, y, x_test = fields()
    settings = {"time": 0.8, "learning_rate": 0.7, "ridge": 0.03}
    still = actions.trivial(C4.group)
    model = et.InfiniteEnsemble(NET, augmentation=C4, label_action=still, **settings).fit(x, y)
    literal = literal_fit(NET, *copies(C4, still, x, y), x_test, **settings)
    assert not gap(model.predict(x_test).reshape(18, 2), literal[0]) > 1e-9
    rng = np.random.default_rng(9)
    each = rng.normal(size=(4, 3, 3, 3, 2))
    model = et.InfiniteEnsemble(NET, augmentation=C4, **settings).fit(x, each)
    literal = literal_fit(NET, copies(C4, still, x, y)[0], each.reshape(12, 3, 3, 2), x_test, **settings)
    assert not gap(model.predict(x_test).reshape(18, 2), literal[0]) > 1e-9


def test_some_elements_are_as_good_as_their_copies_with_their_weights():
    x, y, x_test = fields()
    settings = {"time": 0.8, "learning_rate": 0.7, "ridge": 0.03}
    some = actions.subset(C4, [0, 1, 1])
    model = et.InfiniteEnsemble(NET, augmentation=some, **settings).fit(x, y)
    many = [np.concatenate([C4(g, a) for g in (0, 1, 1)]) for a in (x, y)]
    assert not gap(model.predict(x_test).reshape(18, 2), literal_fit(NET, *many, x_test, **settings)[0]) > 1e-9
    half = et.InfiniteEnsemble(NET, augmentation=actions.subset(C4, [0, 2]), **settings).fit(x, y)
    assert half.solver_ == "orbit-averaged NP×NP"
    many = [np.concatenate([C4(g, a) for g in (0, 2)]) for a in (x, y)]
    assert not gap(half.predict(x_test).reshape(18, 2), literal_fit(NET, *many, x_test, **settings)[0]) > 1e-9
    with pytest.raises(InvalidArgumentError, match="has no such group"):
        model.predict_orbit_means(x_test)


def test_images_that_are_symmetric_themselves_make_no_singular_problem():
    x, y, x_test = fields()
    x[0] = sum(C4(g, x[:1])[0] for g in range(4)) / 4
    y[0] = sum(C4(g, y[:1])[0] for g in range(4)) / 4
    x, y = np.concatenate([x, C4(1, x[1:2])]), np.concatenate([y, C4(1, y[1:2])])
    model = et.InfiniteEnsemble(NET, augmentation=C4, time=np.inf).fit(x, y)
    assert not gap(model.predict(C4(3, x)), C4(3, y)) > 1e-7
    many_x, many_y = copies(C4, C4, x, y)
    model = et.InfiniteEnsemble(NET, augmentation=C4, time=5.0, ridge=0.02).fit(x, y)
    literal = literal_fit(NET, many_x, many_y, x_test, time=5.0, ridge=0.02)
    mean, covariance = model.predict(x_test, return_cov=True)
    assert not gap(mean.reshape(18, 2), literal[0]) > 1e-9
    assert not gap(covariance.reshape(18, 18), literal[1]) > 1e-9


def test_a_label_action_that_changes_the_shape_of_fields_is_refused():
    with pytest.raises(ShapeError, match=r"\(3, 3, 3, 1\); expected \(3, 3, 3, 2\); it must keep"):
        moved_targets(C4, lambda g, y: y[..., :1], fields()[1])


@pytest.mark.parametrize("label_action", [None, pytest.param(VECTORS, marks=pytest.mark.slow)])
def test_predictions_on_orbits_are_those_of_the_moved_inputs_one_by_one(label_action):
    x, y, x_test = fields()
    model = et.InfiniteEnsemble(NET, augmentation=D4, label_action=label_action, time=3.0).fit(x, y)
    orbit = np.moveaxis(D4.orbit(x_test), 0, 1)
    mean, covariance = model.predict(orbit.reshape(16, 3, 3, 1), return_cov=True)
    joint_mean, joint = mean.reshape(2, 8, 3, 3, 2), covariance.reshape(2, 8, 3, 3, 2, 8, 3, 3)
    assert not gap(model.predict_orbit_means(x_test), joint_mean) > 1e-10
    draws = model.sample_orbits(x_test[:1], 1000, key=jax.random.key(2))
    assert draws.shape == (1000, 1, 8, 3, 3, 2)
    spread = np.sqrt(np.einsum("gijgij->gij", joint[0, :, :, :, 0]) / 1000)
    assert not np.max(np.abs(draws.mean(0)[0] - joint_mean[0]) / spread[..., None]) > 4.5


def test_groups_that_do_not_fit_the_positions_are_refused_in_words():
    x, y, _ = fields()
    with pytest.raises(ShapeError, match=r"expected one that moves the positions on which the network ends"):
        et.InfiniteEnsemble(Pooled(), augmentation=TORUS, time=1.0).fit(x, y[:, :2, :2])
    with pytest.raises(ShapeError, match="needs an augmentation and no label_action"):
        et.InfiniteEnsemble(NET, augmentation=C4, label_action=C4).fit(x, np.stack([y] * 4))
    with pytest.raises(ShapeError, match="expected 4 of them first"):
        et.InfiniteEnsemble(NET, augmentation=C4).fit(x, np.stack([y] * 3))


class Pooled(et.nn.Sequential):
    """A network whose positions are fewer than its inputs'."""

    def __init__(self):
        super().__init__(et.nn.Conv(2, (3, 3), stride=2))
