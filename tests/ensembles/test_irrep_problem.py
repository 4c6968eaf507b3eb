"""Augmentation solved irrep by irrep against the explicit problem of N|G| samples."""

import logging

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError, MemoryLimitError, NotPositiveDefiniteError, ShapeError
from oracles import literal_augmentation
from oracles.literal_network import LiteralNetwork

mlp = LiteralNetwork.relu_mlp(1)
TIMES = (0.0, 0.1, 1.0, 100.0, np.inf)
seeds = st.integers(0, 10**6)


def regular(group):
    """Permutation matrices of g·h on functions of h."""
    M = np.zeros((group.order, group.order, group.order))
    for g in group:
        M[g, group.table[g], range(group.order)] = 1
    return M


def on_regular(group):
    return actions.linear(group, regular(group))


C8, D4, Q8, S4, O = groups.cyclic(8), groups.dihedral(4), groups.quaternion(), groups.symmetric(4), groups.octahedral()
p4 = groups.wallpaper(4, False, (6, 6))
Q8xC3 = groups.direct_product(Q8, groups.cyclic(3))
four_classes = actions.labels(S4, np.array([S4.element(g) for g in S4]))
CASES = {  # action on inputs, shape of one input, action on labels
    "C8": (on_regular(C8), (8,), on_regular(C8)),
    "D4": (actions.image_dihedral(4), (3, 3, 1), on_regular(D4)),
    "Q8": (on_regular(Q8), (8,), on_regular(Q8)),
    "S4": (on_regular(S4), (24,), four_classes),
    "O": (actions.rotations(O), (4, 3), actions.rotations(O)),
}


def data(name, seed, n=3, m=2):
    _, shape, label_action = CASES[name]
    rng = np.random.default_rng(seed)
    outputs = label_action.matrices.shape[1]
    return rng.normal(size=(n, *shape)), rng.normal(size=(n, outputs)), rng.normal(size=(m, *shape))


def check(model, action, x, labels, x_test, *, atol=1e-11, orbits=True, **how):
    """Mean, std, covariance and the covariance of orbits against the literal problem."""
    mean, covariance = literal_augmentation.explicit(mlp, action, x, labels, x_test, **how)
    found, found_covariance = model.predict(x_test, return_cov=True)
    scale = max(1e-300, np.abs(mean).max())
    np.testing.assert_allclose(found / scale, mean / scale, atol=atol)
    size = np.abs(covariance).max() if how["time"] else np.abs(mlp.kernel(x_test).nngp).max()
    np.testing.assert_allclose(found_covariance / size, covariance / size, atol=atol)
    std = model.predict(x_test, return_std=True)[1]
    np.testing.assert_allclose(std**2 / size, np.diag(covariance) / size, atol=atol)
    if not orbits:
        return
    points = np.moveaxis(action.orbit(x_test), 0, 1).reshape(-1, *x_test.shape[1:])
    mean, covariance = model.predict(points, return_cov=True)
    m, order = len(x_test), action.group.order
    shape = (m, order, m, order)
    found, joint = model.predict_joint_orbits(x_test)
    np.testing.assert_allclose(found / scale, mean.reshape(m, order, -1) / scale, atol=atol)
    np.testing.assert_allclose(joint / size, covariance.reshape(shape) / size, atol=atol)
    np.testing.assert_allclose(model.predict_orbit_means(x_test) / scale, found / scale, atol=atol)
    found, each = model.predict_orbits(x_test)
    np.testing.assert_allclose(found / scale, mean.reshape(m, order, -1) / scale, atol=atol)
    own = covariance.reshape(shape)[np.arange(m), :, np.arange(m)]
    np.testing.assert_allclose(each / size, own / size, atol=atol)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("name", CASES)
class TestAgainstTheExplicitProblem:
    def test_invariant_labels(self, name, time):
        action, _, _ = CASES[name]
        x, y, x_test = data(name, 0)
        y = y[:, :2]
        labels = literal_augmentation.copies_of_labels(action.group, None, y)
        model = InfiniteEnsemble(mlp, augmentation=action, time=time).fit(x, y)
        assert model.covariance_solver_.startswith(f"irreps of {action.group.name}: 5 blocks, largest ")
        check(model, action, x, labels, x_test, kernel="ntk", time=time, ridge=0.0)

    def test_equivariant_labels(self, name, time):
        action, _, label_action = CASES[name]
        x, y, x_test = data(name, 1)
        labels = literal_augmentation.copies_of_labels(action.group, label_action, y)
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=time, ridge=0.1).fit(x, y)
        check(model, action, x, labels, x_test, kernel="ntk", time=time, ridge=0.1, orbits=False)

    def test_a_label_for_every_copy(self, name, time):
        action, _, _ = CASES[name]
        x, _, x_test = data(name, 2)
        labels = np.random.default_rng(3).normal(size=(action.group.order, len(x), 2))
        model = InfiniteEnsemble(mlp, augmentation=action, time=time, kernel="nngp", ridge=0.05).fit(x, labels)
        check(model, action, x, labels, x_test, kernel="nngp", time=time, ridge=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("time", TIMES)
def test_roto_translations(time):
    """C4 ⋉ ℤ_6², 144 elements, whose irreps have dimensions 1, 2 and 4."""
    grid = actions.grid(p4)
    rng = np.random.default_rng(0)
    x, x_test = rng.normal(size=(2, 6, 6, 1)), rng.normal(size=(2, 6, 6, 1))
    y = rng.normal(size=(2, 1))
    for kernel, ridge in (("ntk", 0.0), ("nngp", 0.1)):
        labels = literal_augmentation.copies_of_labels(p4, None, y)
        model = InfiniteEnsemble(mlp, augmentation=grid, time=time, kernel=kernel, ridge=ridge).fit(x, y)
        assert model.covariance_solver_ == "irreps of p4(6x6): 16 blocks, largest 4N"
        check(model, grid, x, labels, x_test, kernel=kernel, time=time, ridge=ridge, atol=1e-10)
    turn = actions.linear(p4, np.array([p4.point_matrices[g // 36] for g in p4]))
    y = rng.normal(size=(2, 2))
    model = InfiniteEnsemble(mlp, augmentation=grid, label_action=turn, time=time).fit(x, y)
    assert model.solver_ == "irreps of p4(6x6): 1 block, largest N"
    labels = literal_augmentation.copies_of_labels(p4, turn, y)
    check(model, grid, x, labels, x_test, kernel="ntk", time=time, ridge=0.0, atol=1e-10, orbits=False)


GROUPS = [C8, D4, Q8, groups.symmetric(3), Q8xC3, groups.cyclic(5), groups.tetrahedral(), groups.cyclic(1)]


@given(
    group=st.sampled_from(GROUPS),
    seed=seeds,
    time=st.sampled_from([0.3, 20.0, np.inf]),
    ridge=st.sampled_from([0.0, 0.2]),
    kernel=st.sampled_from(["ntk", "nngp"]),
    symmetric=st.booleans(),
)
def test_any_group_and_any_labels(group, seed, time, ridge, kernel, symmetric):
    """Labels for every copy, with samples on one orbit and samples that a subgroup fixes."""
    action, rng = on_regular(group), np.random.default_rng(seed)
    x, x_test = rng.normal(size=(3, group.order)), rng.normal(size=(2, group.order))
    labels = rng.normal(size=(group.order, 3, 1))
    if symmetric:
        H = group.generated_subgroup(rng.integers(0, group.order, 1)).elements
        x[1] = action.orbit(x[1:2], H)[:, 0].mean(axis=0)
        moved = int(rng.integers(group.order))
        x[2] = action(moved, x[1:2])[0]
        if np.isinf(time):  # labels that agree where inputs do
            labels[:, 1] = np.mean([labels[group.table[:, h], 1] for h in H], axis=0)
            labels[:, 2] = labels[group.table[:, moved], 1]
    model = InfiniteEnsemble(mlp, augmentation=action, time=time, ridge=ridge, kernel=kernel).fit(x, labels)
    check(model, action, x, labels, x_test, kernel=kernel, time=time, ridge=ridge, atol=1e-9, orbits=False)


@given(seeds, st.sampled_from([D4, Q8, C8]), st.integers(0, 12), st.sampled_from([0.0, 0.3]))
def test_in_discrete_steps(seed, group, steps, ridge):
    action, rng = on_regular(group), np.random.default_rng(seed)
    x, x_test = rng.normal(size=(3, group.order)), rng.normal(size=(2, group.order))
    labels = rng.normal(size=(group.order, 3, 1))
    rate = 1.9 * group.order * 3 / literal_augmentation.largest_eigenvalue(mlp, action, x, "ntk", ridge)
    how = {"dynamics": "discrete", "learning_rate": rate, "time": steps, "ridge": ridge, "kernel": "ntk"}
    model = InfiniteEnsemble(mlp, augmentation=action, **how).fit(x, labels)
    assert model.max_learning_rate_ == pytest.approx(rate / 0.95, rel=1e-10)
    check(model, action, x, labels, x_test, orbits=False, **how)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("name", ["C8", "D4", "O"])
def test_ill_conditioned_kernels(name, time):
    """Near-equal samples: eigenvalues over seven orders of magnitude."""
    action, _, label_action = CASES[name]
    x, y, x_test = data(name, 5)
    x[1] = x[0] + 1e-6 * x[1]
    theta = mlp.kernel(action.orbit(x).reshape(-1, *x.shape[1:])).ntk
    assert np.linalg.cond(theta) > 1e7
    labels = literal_augmentation.copies_of_labels(action.group, label_action, y)
    model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=time).fit(x, y)
    check(model, action, x, labels, x_test, kernel="ntk", time=time, ridge=0.0, atol=1e-8, orbits=False)


class TestIrrepsThatMatter:
    @pytest.mark.parametrize("n", [3, 20])
    def test_steps_are_stable_in_irreps_without_labels_too(self, n, monkeypatch):
        monkeypatch.setattr("equitangents.inference.irrep_process._FEW", 10)
        action, _, label_action = CASES["O"]
        x, y, _ = data("O", 0, n=n)
        largest = literal_augmentation.largest_eigenvalue(mlp, action, x, "ntk", 0.2)
        how = {"augmentation": action, "label_action": label_action, "ridge": 0.2}
        rate = InfiniteEnsemble(mlp, **how).fit(x, y).max_learning_rate_
        assert rate == pytest.approx(2 * 24 * n / largest, rel=1e-10)
        with pytest.raises(InvalidArgumentError, match="diverges above"):
            InfiniteEnsemble(mlp, dynamics="discrete", learning_rate=1.01 * rate, time=3, **how).fit(x, y)

    def test_only_those_that_hold_labels(self):
        x, y, _ = data("O", 0)
        turn = actions.rotations(O)
        model = InfiniteEnsemble(mlp, augmentation=turn, label_action=turn, time=1.0).fit(x, y)
        assert model.solver_ == "irreps of O: 1 block, largest 3N"
        assert model.covariance_solver_ == "irreps of O: 5 blocks, largest 3N"

    def test_labels_that_change_sign(self):
        signs = np.array([round(np.linalg.det(m)) for m in D4.irreps("real")[-1].matrices]).reshape(8, 1, 1)
        x, y, _ = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=actions.linear(D4, signs)).fit(x, y[:, 0])
        assert model.solver_ == "irreps of D4: 1 block, largest N"

    def test_labels_that_are_all_zero(self):
        x, y, x_test = data("D4", 0)
        action, _, label_action = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action).fit(x, 0 * y)
        np.testing.assert_array_equal(model.predict(x_test), 0)

    def test_spectra_of_the_mean_serve_the_covariance(self, monkeypatch):
        x, _, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, time=1.0).fit(
            x, np.random.default_rng(0).normal(size=(8, 3, 1))
        )
        monkeypatch.setattr("equitangents.inference.irrep_process.decompose", lambda *a, **k: pytest.fail("again"))
        model.predict(x_test, return_cov=True)


class TestKernels:
    def test_a_convolutional_network_under_the_symmetries_of_the_square(self):
        net = nn.Sequential(
            nn.Conv(4, (3, 3), W_std=1.4, b_std=0.1),
            nn.Relu(),
            nn.Conv(4, (3, 3)),
            nn.Relu(),
            nn.Flatten(),
            nn.Dense(1),
        )
        action, rng = actions.image_dihedral(4), np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(30, 4, 4, 2)), rng.normal(size=30), rng.normal(size=(5, 4, 4, 2))
        labels = literal_augmentation.copies_of_labels(D4, None, y[:, None])
        model = InfiniteEnsemble(net, augmentation=action, time=50.0, ridge=1e-3).fit(x, y)
        mean, covariance = literal_augmentation.explicit(
            net, action, x, labels, x_test, kernel="ntk", time=50.0, ridge=1e-3
        )
        found, found_covariance = model.predict(x_test, return_cov=True)
        np.testing.assert_allclose(found, mean[:, 0], atol=1e-11)
        np.testing.assert_allclose(found_covariance, covariance, atol=1e-11)

    def test_single_precision(self):
        x, y, x_test = (a.astype(np.float32) for a in data("D4", 0))
        action, _, label_action = CASES["D4"]
        how = {"augmentation": action, "label_action": label_action, "time": 5.0}
        expected = InfiniteEnsemble(mlp, **how).fit(x.astype(np.float64), y).predict(x_test.astype(np.float64))
        model = InfiniteEnsemble(mlp, **how).fit(x, y)
        assert model.solver_ == "irreps of D4: 5 blocks, largest 2N"
        np.testing.assert_allclose(model.predict(x_test), expected, atol=1e-5)

    def test_tiles_of_any_size(self, monkeypatch):
        x, y, x_test = data("Q8", 0, n=7, m=5)
        action, _, label_action = CASES["Q8"]
        how = {"augmentation": action, "label_action": label_action, "time": 5.0}
        model = InfiniteEnsemble(mlp, **how).fit(x, y)
        mean, covariance = model.predict(x_test, return_cov=True)
        std, orbits = model.predict(x_test, return_std=True)[1], model.predict_orbits(x_test)
        monkeypatch.setattr("equitangents.ensembles.irrep_problem._ROW_ENTRIES", 8 * 7 * 2)
        for name, value in (("_TILE_ENTRIES", 8 * 9), ("_INPUT_ENTRIES", 8 * 8 * 3), ("_SMALLEST_TILE", 2)):
            monkeypatch.setattr(f"equitangents.ensembles.kernel_transforms.{name}", value)
        model = InfiniteEnsemble(mlp, **how).fit(x, y)
        tiled, tiled_covariance = model.predict(x_test, return_cov=True)
        np.testing.assert_allclose(tiled, mean, atol=1e-12)
        np.testing.assert_allclose(tiled_covariance, covariance, atol=1e-12)
        np.testing.assert_allclose(model.predict(x_test, return_std=True)[1], std, atol=1e-12)
        for found, expected in zip(model.predict_orbits(x_test), orbits, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)


class TestFixedInputs:
    def test_labels_at_odds_with_the_symmetry_need_a_ridge_at_infinity(self):
        x, y, x_test = data("D4", 0)
        action, _, label_action = CASES["D4"]
        x[0] = x[0, 0, 0]  # fixed by everything
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=3.0).fit(x, y)
        with pytest.raises(NotPositiveDefiniteError, match=r"labels at odds with that.*ridge=") as caught:
            model.predict(x_test, time=np.inf)
        ridge = float(str(caught.value).split("ridge=")[1].split()[0])
        model.set_params(ridge=ridge, time=np.inf).fit(x, y).predict(x_test)

    def test_when_everything_is_fixed_only_invariant_labels_are_learnt(self):
        x = np.ones((2, 3, 3, 1)) * np.array([1.0, 2.0])[:, None, None, None]
        action, _, _ = CASES["D4"]
        labels = np.random.default_rng(0).normal(size=(8, 2, 1))
        model = InfiniteEnsemble(mlp, augmentation=action, time=1e9).fit(x, labels)
        np.testing.assert_allclose(model.predict(x), labels.mean(axis=0), atol=1e-6)
        check(model.set_params(time=4.0).fit(x, labels), action, x, labels, x + 1, kernel="ntk", time=4.0, ridge=0.0)


class TestLaws:
    @given(seeds, st.sampled_from(sorted(CASES)), st.sampled_from([0.2, 10.0, np.inf]))
    def test_mean_and_covariance_are_equivariant_on_and_off_the_data(self, seed, name, time):
        action, _, label_action = CASES[name]
        x, y, x_test = data(name, seed)
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=time).fit(x, y)
        g = seed % action.group.order
        for points in (x, x_test):
            mean, covariance = model.predict(points, return_cov=True)
            moved, moved_covariance = model.predict(action(g, points), return_cov=True)
            size = np.abs(mean).max()
            np.testing.assert_allclose(moved / size, label_action(g, mean) / size, atol=1e-10)
            np.testing.assert_allclose(moved_covariance, covariance, atol=1e-10)

    def test_samples_have_the_covariance(self):
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, time=2.0).fit(x, y[:, 0])
        covariance = model.predict(x_test, return_cov=True)[1]
        draws = model.sample(x_test, 4000, key=jax.random.key(0))
        error = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / 4000)
        assert (np.abs(np.cov(draws, rowvar=False) - covariance) < 4 * error).all()

    @pytest.mark.parametrize("symmetric", [False, True])
    @pytest.mark.parametrize("name", ["C8", "D4", "Q8"])  # complex, real and quaternionic irreps
    def test_samples_on_orbits_have_the_joint_covariance(self, name, symmetric):
        action, _, label_action = CASES[name]
        x, y, x_test = data(name, 0)
        if symmetric:  # no data in any but the trivial irrep
            x = action.orbit(x).mean(axis=0)
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=2.0).fit(x, y)
        mean, covariance = model.predict_joint_orbits(x_test)
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

    def test_samples_on_orbits_of_the_explicit_problem(self):
        skewed = LiteralNetwork.relu_mlp(1, feature_weights=tuple(np.linspace(0.5, 1.5, 9)))
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(skewed, augmentation=action, time=1.0).fit(x, y[:, 0])
        draws = model.sample_orbits(x_test, 3, key=jax.random.key(0))
        assert draws.shape == (3, 2, 8, 1)
        points = np.moveaxis(action.orbit(x_test), 0, 1).reshape(-1, 3, 3, 1)
        expected = model.sample(points, 3, key=jax.random.key(0)).reshape(3, 2, 8, 1)
        np.testing.assert_allclose(draws, expected, atol=1e-9)

    def test_times_share_one_fit(self):
        x, y, x_test = data("Q8", 0)
        action, _, label_action = CASES["Q8"]
        how = {"augmentation": action, "label_action": label_action}
        mean, covariance = InfiniteEnsemble(mlp, **how).fit(x, y).predict(x_test, time=TIMES, return_cov=True)
        for i, t in enumerate(TIMES):
            again = InfiniteEnsemble(mlp, time=t, **how).fit(x, y).predict(x_test, return_cov=True)
            np.testing.assert_allclose(mean[i], again[0], atol=1e-13)
            np.testing.assert_allclose(covariance[i], again[1], atol=1e-13)


class TestPartOfAnOrbit:
    def literal(self, action, elements, weights, label_action, x, y, x_test, **how):
        inputs = np.concatenate([action(g, x) for g in elements])
        targets = np.concatenate([y if label_action is None else label_action(g, y) for g in elements])
        each = np.repeat(np.array(weights) / np.mean(weights), len(x))
        return literal_augmentation.train(mlp, inputs, targets, x_test, weights=each, **how)

    @pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [0.5, 3.0, 1.0]])
    @pytest.mark.parametrize("kernel", ["ntk", "nngp"])
    @pytest.mark.parametrize("time", [0.7, np.inf])
    def test_some_elements(self, weights, kernel, time):
        action, _, label_action = CASES["D4"]
        x, y, x_test = data("D4", 0)
        some = actions.subset(action, [0, 5, 3], weights)
        how = {"kernel": kernel, "time": time, "ridge": 0.1}
        for turn in (None, label_action):
            mean, covariance = self.literal(action, [0, 5, 3], weights, turn, x, y, x_test, **how)
            model = InfiniteEnsemble(mlp, augmentation=some, label_action=turn, **how).fit(x, y)
            weighted = "" if weights[1] == 1 else ", weighted"
            assert model.solver_ == f"explicit N|G| (3 of 8 elements of D4{weighted})"
            np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
            np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1], covariance, atol=1e-11)

    def test_weights_are_how_often_an_element_is_drawn(self):
        action, _, _ = CASES["D4"]
        x, y, x_test = data("D4", 0)
        fit = lambda *subset: InfiniteEnsemble(mlp, augmentation=actions.subset(action, *subset), time=4.0).fit(x, y)
        drawn, weighted = fit([1, 6, 1, 1, 4]), fit([1, 6, 4], [3, 1, 1])
        np.testing.assert_allclose(drawn.predict(x_test), weighted.predict(x_test), atol=1e-12)
        np.testing.assert_allclose(*(m.predict(x_test, return_cov=True)[1] for m in (drawn, weighted)), atol=1e-12)

    def test_a_subgroup_is_solved_as_one(self):
        action, _, label_action = CASES["D4"]
        x, y, x_test = data("D4", 0)
        elements = [0, 6, 2, 4]
        labels = np.random.default_rng(1).normal(size=(4, 3, 2))
        how = {"kernel": "ntk", "time": 3.0, "ridge": 0.0}
        some = actions.subset(action, elements)
        for turn in (None, label_action):
            mean, covariance = self.literal(action, elements, np.ones(4), turn, x, y, x_test, **how)
            model = InfiniteEnsemble(mlp, augmentation=some, label_action=turn, time=3.0).fit(x, y)
            assert "explicit" not in model.solver_
            np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
            np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1], covariance, atol=1e-11)
        inputs = np.concatenate([action(g, x) for g in elements])
        mean, _ = literal_augmentation.train(mlp, inputs, labels.reshape(12, 2), x_test, **how)
        model = InfiniteEnsemble(mlp, augmentation=some, time=3.0).fit(x, labels)
        np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)

    def test_resampled_rotations(self):
        rotations = actions.image_rotations(8)
        rng = np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 1)), rng.normal(size=(2, 4, 4, 1))
        how = {"kernel": "ntk", "time": 2.0, "ridge": 0.0}
        mean, _ = self.literal(rotations, [0, 3], np.ones(2), None, x, y, x_test, **how)
        model = InfiniteEnsemble(mlp, augmentation=actions.subset(rotations, [0, 3]), time=2.0).fit(x, y)
        np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)


class TestBadInput:
    def test_labels_for_copies(self):
        x, _, _ = data("D4", 0)
        action, _, label_action = CASES["D4"]
        labels = np.zeros((8, 3, 2))
        with pytest.raises(ShapeError, match=r"y has shape \(7, 3, 2\).*expected \(8, 3, outputs\)"):
            InfiniteEnsemble(mlp, augmentation=action).fit(x, labels[:7])
        with pytest.raises(ShapeError, match="no label_action"):
            InfiniteEnsemble(mlp, augmentation=action, label_action=label_action).fit(x, labels)
        with pytest.raises(ShapeError, match="y has rank 3"):
            InfiniteEnsemble(mlp).fit(x, labels)

    def test_orbits_without_a_group(self):
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        for augmentation in (None, actions.subset(action, [0, 1])):
            model = InfiniteEnsemble(mlp, augmentation=augmentation, time=1.0).fit(x, y)
            with pytest.raises(InvalidArgumentError, match="orbits are those of the augmentation's group"):
                model.predict_orbits(x_test)

    def test_orbits_of_the_explicit_problem(self):
        skewed = LiteralNetwork.relu_mlp(1, feature_weights=tuple(np.linspace(0.5, 1.5, 9)))
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(skewed, augmentation=action, time=1.0).fit(x, y)
        points = np.moveaxis(action.orbit(x_test), 0, 1).reshape(-1, 3, 3, 1)
        mean, covariance = model.predict(points, return_cov=True)
        found, each = model.predict_orbits(x_test)
        np.testing.assert_allclose(found, mean.reshape(2, 8, -1), atol=1e-12)
        np.testing.assert_allclose(model.predict_orbit_means(x_test), found, atol=1e-12)
        np.testing.assert_allclose(each[1], covariance[8:, 8:], atol=1e-12)
        np.testing.assert_allclose(model.predict_joint_orbits(x_test)[1].reshape(16, 16), covariance, atol=1e-12)

    def test_what_is_too_large_is_refused_before_anything_is_computed(self, monkeypatch):
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, time=1.0, memory_limit=1000).fit(x, y)
        monkeypatch.setattr(LiteralNetwork, "kernel", lambda *a: pytest.fail("computed"))
        with pytest.raises(MemoryLimitError, match="or ask for the mean alone"):
            model.predict(x_test, return_std=True)
        monkeypatch.undo()
        model = InfiniteEnsemble(mlp, augmentation=action, time=1.0, memory_limit=40_000).fit(x, y)
        with pytest.raises(MemoryLimitError, match=r"joint covariance of 60 inputs.*ask for fewer inputs at once"):
            model.predict(np.ones((60, 3, 3, 1)), return_cov=True)


def test_the_log_forecasts_long_kernels(monkeypatch, caplog):
    monkeypatch.setattr("equitangents.ensembles.forecast._QUIET_SECONDS", 0.0)
    monkeypatch.setattr("equitangents.ensembles.kernel_transforms._SMALLEST_TILE", 1)
    x, y, _ = data("D4", 0)
    action, _, label_action = CASES["D4"]
    with caplog.at_level(logging.INFO, "equitangents"):
        InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=1.0).fit(x, y)
    assert "kernel of 3·8 augmented samples: 17 %, about 0 s left" in caplog.text
