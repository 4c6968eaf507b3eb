"""Augmentation solved at the size of the data is training on all N|G| samples, for any group, action and labels."""

import logging

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensembles.irrep_cases import C8, CASES, D4, Q8, TIMES, check, data, mlp, on_orbits, on_regular, seeds
from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import NotPositiveDefiniteError
from examples import examples
from oracles import literal_augmentation
from oracles.literal_augmentation import copies_of_labels
from oracles.literal_network import LiteralNetwork

C3 = groups.cyclic(3)
_c, _s = np.cos(2 * np.pi / 3), np.sin(2 * np.pi / 3)
turned = actions.linear(C3, np.stack([np.linalg.matrix_power(np.array([[_c, -_s], [_s, _c]]), k) for k in range(3)]))
GROUPS = [C8, D4, Q8, groups.symmetric(3), groups.direct_product(Q8, C3), groups.cyclic(5), groups.tetrahedral()]
GROUPS += [groups.cyclic(1), groups.wallpaper(4, False, (3, 3))]  # irreps of dimensions 1, 2 and 4
LABELS = ["invariant", "equivariant"]
labels_of = st.sampled_from(LABELS)


def problem(group, labels, seed, symmetric=False, agree=True):
    """(augmentation, label action, x, y, labels of all copies, x_test); where `symmetric`, a subgroup fixes x_1, x_2
    is on its orbit, and where `agree` labels are equal where inputs are."""
    action, rng = on_regular(group), np.random.default_rng(seed)
    x, x_test = rng.normal(size=(3, group.order)), rng.normal(size=(2, group.order))
    label_action = on_regular(group) if labels == "equivariant" else None
    y = rng.normal(size=(3, 2 if labels == "invariant" else group.order))
    if symmetric:
        H, moved = group.generated_subgroup(rng.integers(0, group.order, 1)).elements, int(rng.integers(group.order))
        x[1] = action.orbit(x[1:2], H)[:, 0].mean(axis=0)
        x[2] = action(moved, x[1:2])[0]
        if not agree:
            pass
        elif label_action is not None:
            y[1] = label_action.orbit(y[1:2], H)[:, 0].mean(axis=0)
            y[2] = label_action(moved, y[1:2])[0]
        else:
            y[2] = y[1]
    return action, label_action, x, y, copies_of_labels(group, label_action, y), x_test


@given(
    group=st.sampled_from(GROUPS),
    labels=labels_of,
    seed=seeds,
    time=st.sampled_from([0.0, 0.3, 20.0, np.inf]),
    ridge=st.sampled_from([0.0, 0.2]),
    kernel=st.sampled_from(["ntk", "nngp"]),
    symmetric=st.booleans(),
)
def test_any_group_and_any_labels(group, labels, seed, time, ridge, kernel, symmetric):
    action, label_action, x, y, copies, x_test = problem(group, labels, seed, symmetric, np.isinf(time))
    how = {"time": time, "ridge": ridge, "kernel": kernel}
    model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, **how).fit(x, y)
    assert (model.solver_ == "orbit-averaged N×N") == (labels == "invariant")
    check(model, action, x, copies, x_test, atol=1e-8, orbits=False, **how)


@given(seeds, st.sampled_from([D4, Q8, C8]), labels_of, st.integers(0, 12), st.sampled_from([0.0, 0.3]))
@settings(max_examples=8)
def test_in_discrete_steps(seed, group, labels, steps, ridge):
    action, label_action, x, y, copies, x_test = problem(group, labels, seed)
    rate = 1.9 * group.order * 3 / literal_augmentation.largest_eigenvalue(mlp, action, x, "ntk", ridge)
    how = {"dynamics": "discrete", "learning_rate": rate, "time": steps, "ridge": ridge, "kernel": "ntk"}
    model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, **how).fit(x, y)
    bound = model.max_learning_rate_ * 0.95 / rate  # of invariant labels that of the invariant part
    assert bound > 1 - 1e-10 if labels == "invariant" else bound == pytest.approx(1, rel=1e-10)
    check(model, action, x, copies, x_test, orbits=False, **how)


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    ("name", "time", "labels"),
    [(name, TIMES[(i + j) % len(TIMES)], kind) for i, name in enumerate(CASES) for j in (0, 2) for kind in LABELS],
)
def test_images_points_and_permutations(name, time, labels):
    action, _, label_action = CASES[name]
    x, y, x_test = data(name, LABELS.index(labels))
    y = y if labels == "equivariant" else y[:, :2]
    how = {"kernel": "ntk", "ridge": 0.1 if labels == "equivariant" else 0.0}
    copies = copies_of_labels(action.group, label_action if labels == "equivariant" else None, y)
    of_labels = {"label_action": label_action} if labels == "equivariant" else {}
    model = InfiniteEnsemble(mlp, augmentation=action, time=time, **of_labels, **how).fit(x, y)
    assert model.covariance_solver_.startswith(f"irreps of {action.group.name}: 5 blocks, largest ")
    check(model, action, x, copies, x_test, time=time, orbits=labels != "equivariant", **how)


@pytest.mark.quick(2)
@pytest.mark.parametrize("time", [1.0, np.inf])
@pytest.mark.parametrize("name", ["C8", "D4", "O"])
def test_ill_conditioned_kernels(name, time):
    """Near-equal samples: eigenvalues over seven orders of magnitude."""
    action, _, label_action = CASES[name]
    x, y, x_test = data(name, 5)
    x[1] = x[0] + 1e-6 * x[1]
    assert np.linalg.cond(mlp.kernel(action.orbit(x).reshape(-1, *x.shape[1:])).ntk) > 1e7
    model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=time).fit(x, y)
    copies = copies_of_labels(action.group, label_action, y)
    check(model, action, x, copies, x_test, kernel="ntk", time=time, ridge=0.0, atol=1e-8, orbits=False)


def test_a_convolutional_network_under_translations_becomes_the_pooled_one():
    """Flatten and augmentation by all translations against global average pooling, trained as long."""
    rng = np.random.default_rng(0)
    x, y, x_test = rng.normal(size=(5, 3, 4, 2)), rng.normal(size=(5, 2)), rng.normal(size=(3, 3, 4, 2))
    features = (nn.Conv(4, (3, 3), W_std=1.4, b_std=0.1), nn.Relu(), nn.Conv(4, (2, 2)), nn.Relu())
    flat = nn.Sequential(*features, nn.Flatten(), nn.Dense(2))
    pooled = nn.Sequential(*features, nn.GlobalAvgPool(), nn.Dense(2))
    times = [0.0, 1.0, 50.0, np.inf]
    model = InfiniteEnsemble(flat, augmentation=actions.translations((3, 4))).fit(x, y)
    expected = InfiniteEnsemble(pooled).fit(x, y).predict(x_test, time=times)
    assert model.solver_ == "orbit-averaged N×N"
    np.testing.assert_allclose(model.predict(x_test, time=times), expected, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_of_which_an_odd_network_learns_nothing(dtype):
    flip = actions.linear(groups.cyclic(2), np.stack([np.eye(3), -np.eye(3)]))
    odd = nn.Sequential(nn.Dense(1, W_std=1.5), nn.Erf(), nn.Dense(1))
    rng = np.random.default_rng(0)
    x, y, x_test = rng.normal(size=(9, 3)).astype(dtype), rng.normal(size=9), rng.normal(size=(4, 3)).astype(dtype)
    model = InfiniteEnsemble(odd, augmentation=flip, time=10.0).fit(x, y)
    np.testing.assert_allclose(model.predict(x_test), 0, atol=1e-5 if dtype == np.float32 else 1e-13)
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite to working precision"):
        model.predict(x_test, time=np.inf)


def test_the_covariance_is_solved_when_first_wanted(caplog):
    action, _, _ = CASES["D4"]
    x, y, x_test = data("D4", 0)
    with caplog.at_level(logging.INFO, "equitangents"):
        model = InfiniteEnsemble(mlp, augmentation=action, time=1.0).fit(x, y)
        model.predict(x_test)
        assert "covariances" not in caplog.text
        model.predict(x_test, return_std=True)
        model.predict(x_test, return_cov=True)
    assert caplog.text.count("covariances by irreps of") == 1


class TestLaws:
    @given(seeds, st.sampled_from(sorted(CASES)), st.sampled_from([0.2, 10.0, np.inf]))
    @examples(5, random=15)
    def test_mean_and_covariance_are_equivariant_on_and_off_the_data(self, seed, name, time):
        action, _, label_action = CASES[name]
        x, y, x_test = data(name, seed)
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=time).fit(x, y)
        g = seed % action.group.order
        for points in (x, x_test, 100 * x_test):
            mean, covariance = model.predict(points, return_cov=True)
            moved, moved_covariance = model.predict(action(g, points), return_cov=True)
            size, scale = np.abs(mean).max(), max(1, np.abs(covariance).max())
            np.testing.assert_allclose(moved / size, label_action(g, mean) / size, atol=1e-10)
            np.testing.assert_allclose(moved_covariance / scale, covariance / scale, atol=1e-10)

    @pytest.mark.quick(1)
    @pytest.mark.parametrize("symmetric", [False, True])
    @pytest.mark.parametrize("name", ["C8", "D4", "Q8"])  # complex, real and quaternionic irreps
    def test_samples_on_orbits_have_the_joint_covariance(self, name, symmetric):
        action, _, label_action = CASES[name]
        x, y, x_test = data(name, 0)
        if symmetric:  # no data in any but the trivial irrep
            x = action.orbit(x).mean(axis=0)
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=2.0).fit(x, y)
        mean, covariance = on_orbits(model, action, x_test)
        n, points = 4000, 16
        draws = model.sample_orbits(x_test, n, key=jax.random.key(0))
        assert draws.shape == (n, 2, 8, 8)
        centred = (draws - mean).reshape(n, points, 8)
        covariance = covariance.reshape(points, points)
        measured = np.einsum("npk,nqk->pq", centred, centred) / (8 * n)
        error = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / (8 * n))
        assert (np.abs(measured - covariance) < 4.5 * error).all()
        assert (np.abs(centred.mean(axis=0)) < 4.5 * np.sqrt(np.diag(covariance) / n)[:, None]).all()
        across = np.einsum("np,np->p", centred[..., 0], centred[..., 1]) / n
        assert (np.abs(across) < 4.5 * np.diag(covariance) / np.sqrt(n)).all()


class TestTheExplicitProblem:
    """Of kernels that the action changes, of actions that resample, and of some elements, weighted or not."""

    SKEWED = LiteralNetwork.relu_mlp(1, feature_weights=tuple(np.linspace(0.5, 1.5, 9)))

    @staticmethod
    def literal(net, action, elements, label_action, x, y, x_test, weights=None, **how):
        inputs = np.concatenate([action(g, x) for g in elements])
        targets = np.concatenate([y if label_action is None else label_action(g, y) for g in elements])
        each = None if weights is None else np.repeat(np.array(weights) / np.mean(weights), len(x))
        return literal_augmentation.train(net, inputs, targets, x_test, weights=each, **how)

    @pytest.mark.parametrize("fixed", [False, True])
    def test_of_a_kernel_that_the_action_changes_also_where_it_fixes_inputs(self, fixed):
        action, _, _ = CASES["D4"]
        x, y, x_test = data("D4", 0, n=6)
        if fixed:
            x[::2] = x[::2, :1, :1]
        how = {"time": 2.0, "ridge": 0.1}
        model = InfiniteEnsemble(self.SKEWED, augmentation=action, **how).fit(x, y)
        assert model.solver_.startswith("explicit N|G| (the kernel is not known to be invariant")
        mean, covariance = self.literal(self.SKEWED, action, range(8), None, x, y, x_test, kernel="ntk", **how)
        found = model.predict(x_test, return_cov=True)
        np.testing.assert_allclose(found[0], mean, atol=1e-11)
        np.testing.assert_allclose(found[1], covariance, atol=1e-11)
        points = np.moveaxis(action.orbit(x_test), 0, 1).reshape(-1, 3, 3, 1)
        orbits = model.predict_orbit_means(x_test)
        np.testing.assert_allclose(orbits, model.predict(points).reshape(2, 8, -1), atol=1e-12)
        draws = model.sample_orbits(x_test, 3, key=jax.random.key(0))
        expected = model.sample(points, 3, key=jax.random.key(0)).reshape(3, 2, 8, -1)
        np.testing.assert_allclose(draws, expected, atol=1e-9)

    @pytest.mark.parametrize("elements", [None, [0, 3]])
    def test_of_an_action_that_resamples(self, elements):
        rotations = actions.image_rotations(8)
        rng = np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 2)), rng.normal(size=(2, 4, 4, 1))
        augmentation = rotations if elements is None else actions.subset(rotations, elements)
        model = InfiniteEnsemble(mlp, augmentation=augmentation, time=2.0).fit(x, y)
        if elements is None:
            assert model.solver_ == "explicit N|G| (the augmentation is only approximately an action)"
        how = {"kernel": "ntk", "time": 2.0, "ridge": 0.0}
        mean, _ = self.literal(mlp, rotations, elements or range(8), None, x, y, x_test, **how)
        np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)

    @pytest.mark.parametrize(
        ("elements", "weights"), [([0, 5, 3], [1.0, 1.0, 1.0]), ([0, 5, 3], [0.5, 3.0, 1.0]), ([0, 6, 2, 4], None)]
    )
    @pytest.mark.parametrize(("kernel", "time"), [("ntk", 0.7), ("nngp", np.inf)])
    def test_of_some_elements_and_a_subgroup_as_one(self, elements, weights, kernel, time):
        action, _, label_action = CASES["D4"]
        x, y, x_test = data("D4", 0)
        some, how = actions.subset(action, elements, weights), {"kernel": kernel, "time": time, "ridge": 0.1}
        for turn in (None, label_action):
            mean, covariance = self.literal(mlp, action, elements, turn, x, y, x_test, weights, **how)
            model = InfiniteEnsemble(mlp, augmentation=some, label_action=turn, **how).fit(x, y)
            weighted = "" if weights is None or weights[1] == 1 else ", weighted"
            explicit = f"explicit N|G| (3 of 8 elements of D4{weighted})"
            assert model.solver_ == explicit if weights else "explicit" not in model.solver_
            np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
            np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1], covariance, atol=1e-11)

    def test_weights_are_how_often_an_element_is_drawn(self):
        action, _, _ = CASES["D4"]
        x, y, x_test = data("D4", 0)
        fit = lambda *subset: InfiniteEnsemble(mlp, augmentation=actions.subset(action, *subset), time=4.0).fit(x, y)
        drawn, weighted = fit([1, 6, 1, 1, 4]), fit([1, 6, 4], [3, 1, 1])
        np.testing.assert_allclose(drawn.predict(x_test), weighted.predict(x_test), atol=1e-12)
        np.testing.assert_allclose(*(m.predict(x_test, return_cov=True)[1] for m in (drawn, weighted)), atol=1e-12)


class TestFixedInputs:
    """Inputs that some elements leave alone: their copies coincide, and the explicit matrix is singular."""

    def test_labels_at_odds_with_the_symmetry_need_a_ridge_at_infinity(self):
        x, y, x_test = data("D4", 0)
        action, _, label_action = CASES["D4"]
        x[0] = x[0, 0, 0]  # fixed by everything
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=3.0).fit(x, y)
        with pytest.raises(NotPositiveDefiniteError, match=r"their labels are not.*ridge=") as caught:
            model.predict(x_test, time=np.inf)
        ridge = float(str(caught.value).split("ridge=")[1].split()[0])
        model.set_params(ridge=ridge, time=np.inf).fit(x, y).predict(x_test)
        x[1] = action(4, x[2:])[0]  # on one orbit, with two targets
        with pytest.raises(NotPositiveDefiniteError):
            InfiniteEnsemble(mlp, augmentation=action).fit(x, y)

    def test_when_everything_is_fixed_only_invariant_labels_are_learnt(self):
        x = np.ones((2, 3, 3, 1)) * np.array([1.0, 2.0])[:, None, None, None]
        action, _, label_action = CASES["D4"]
        y = np.random.default_rng(0).normal(size=(2, 8))
        labels = copies_of_labels(action.group, label_action, y)
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=1e9).fit(x, y)
        np.testing.assert_allclose(model.predict(x), labels.mean(axis=0), atol=1e-6)
        check(model.set_params(time=4.0).fit(x, y), action, x, labels, x + 1, kernel="ntk", time=4.0, ridge=0.0)

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(("time", "dynamics"), [(0.0, "flow"), (1.0, "discrete"), (50.0, "flow")])
    @pytest.mark.parametrize("inputs", [1, 3])
    def test_labels_that_contradict_each_other_on_fixed_inputs_leave_the_mean_at_zero(self, inputs, time, dynamics):
        """C3 fixes constant signals; labels that turn cancel in the mean over the copies of each."""
        x = np.ones((inputs, 3)) * np.arange(1.0, inputs + 1)[:, None]
        y, x_test = np.random.default_rng(inputs).normal(size=(inputs, 2)), np.random.default_rng(9).normal(size=(4, 3))
        how = {"time": time, "learning_rate": 0.05, "dynamics": dynamics}
        model = InfiniteEnsemble(mlp, augmentation=on_regular(C3), label_action=turned, **how).fit(x, y)
        np.testing.assert_array_equal(model.predict(x_test), 0.0)
        np.testing.assert_array_equal(model.predict_orbit_means(x_test), 0.0)
        labels = copies_of_labels(C3, turned, y)
        _, covariance = literal_augmentation.explicit(
            mlp, on_regular(C3), x, labels, x_test, kernel="ntk", ridge=0.0, **how
        )
        found = model.predict(x_test, return_cov=True)[1]
        np.testing.assert_allclose(found, covariance, atol=1e-11 * np.abs(covariance).max())
        assert model.sample(x_test, 5, key=jax.random.key(0)).shape == (5, 4, 2)
        assert model.sample_orbits(x_test, 5, key=jax.random.key(0)).shape == (5, 4, 3, 2)
