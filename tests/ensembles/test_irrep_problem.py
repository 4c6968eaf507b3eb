"""Augmentation solved irrep by irrep against the explicit problem of N|G| samples."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensembles.irrep_cases import C8, CASES, D4, Q8, TIMES, check, data, mlp, on_regular, seeds
from equitangents import actions, groups
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import NotPositiveDefiniteError
from oracles import literal_augmentation

C3 = groups.cyclic(3)
_c, _s = np.cos(2 * np.pi / 3), np.sin(2 * np.pi / 3)
turned = actions.linear(C3, np.stack([np.linalg.matrix_power(np.array([[_c, -_s], [_s, _c]]), k) for k in range(3)]))


@pytest.mark.parametrize(
    ("name", "time"), [(name, TIMES[(i + j) % len(TIMES)]) for i, name in enumerate(CASES) for j in (0, 2)]
)
class TestAgainstTheExplicitProblem:
    @pytest.mark.quick(2)
    def test_invariant_labels(self, name, time):
        action, _, _ = CASES[name]
        x, y, x_test = data(name, 0)
        y = y[:, :2]
        labels = literal_augmentation.copies_of_labels(action.group, None, y)
        model = InfiniteEnsemble(mlp, augmentation=action, time=time).fit(x, y)
        assert model.covariance_solver_.startswith(f"irreps of {action.group.name}: 5 blocks, largest ")
        check(model, action, x, labels, x_test, kernel="ntk", time=time, ridge=0.0)

    @pytest.mark.quick(2)
    def test_equivariant_labels(self, name, time):
        action, _, label_action = CASES[name]
        x, y, x_test = data(name, 1)
        labels = literal_augmentation.copies_of_labels(action.group, label_action, y)
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, time=time, ridge=0.1).fit(x, y)
        check(model, action, x, labels, x_test, kernel="ntk", time=time, ridge=0.1, orbits=False)

    @pytest.mark.quick(2)
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
    p4 = groups.wallpaper(4, False, (6, 6))
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


GROUPS = [C8, D4, Q8, groups.symmetric(3), groups.direct_product(Q8, groups.cyclic(3)), groups.cyclic(5)]
GROUPS += [groups.tetrahedral(), groups.cyclic(1)]


@given(
    group=st.sampled_from(GROUPS),
    seed=seeds,
    time=st.sampled_from([0.3, 20.0, np.inf]),
    ridge=st.sampled_from([0.0, 0.2]),
    kernel=st.sampled_from(["ntk", "nngp"]),
    symmetric=st.booleans(),
)
@settings(max_examples=8)
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
@settings(max_examples=6)
def test_in_discrete_steps(seed, group, steps, ridge):
    action, rng = on_regular(group), np.random.default_rng(seed)
    x, x_test = rng.normal(size=(3, group.order)), rng.normal(size=(2, group.order))
    labels = rng.normal(size=(group.order, 3, 1))
    rate = 1.9 * group.order * 3 / literal_augmentation.largest_eigenvalue(mlp, action, x, "ntk", ridge)
    how = {"dynamics": "discrete", "learning_rate": rate, "time": steps, "ridge": ridge, "kernel": "ntk"}
    model = InfiniteEnsemble(mlp, augmentation=action, **how).fit(x, labels)
    assert model.max_learning_rate_ == pytest.approx(rate / 0.95, rel=1e-10)
    check(model, action, x, labels, x_test, orbits=False, **how)


@pytest.mark.quick(2)
@pytest.mark.parametrize("time", [1.0, np.inf])
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

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(("time", "dynamics"), [(0.0, "flow"), (1.0, "discrete"), (50.0, "flow")])
    @pytest.mark.parametrize("inputs", [1, 3])
    def test_labels_that_contradict_each_other_on_fixed_inputs_leave_the_mean_at_zero(self, inputs, time, dynamics):
        """C3 fixes constant signals; labels that turn cancel in the mean over the copies of each."""
        x = np.ones((inputs, 3)) * np.arange(1.0, inputs + 1)[:, None]
        y, x_test = np.random.default_rng(inputs).normal(size=(inputs, 2)), np.random.default_rng(9).normal(size=(4, 3))
        model = InfiniteEnsemble(
            mlp, augmentation=on_regular(C3), label_action=turned, time=time, dynamics=dynamics, learning_rate=0.05
        )
        model.fit(x, y)
        np.testing.assert_array_equal(model.predict(x_test), 0.0)
        np.testing.assert_array_equal(model.predict_orbit_means(x_test), 0.0)
        labels = literal_augmentation.copies_of_labels(C3, turned, y)
        how = dict(kernel="ntk", time=time, ridge=0.0, learning_rate=0.05, dynamics=dynamics)
        _, covariance = literal_augmentation.explicit(mlp, on_regular(C3), x, labels, x_test, **how)
        found = model.predict(x_test, return_cov=True)[1]
        np.testing.assert_allclose(found, covariance, atol=1e-11 * np.abs(covariance).max())
        assert model.sample(x_test, 5, key=jax.random.key(0)).shape == (5, 4, 2)
        assert model.sample_orbits(x_test, 5, key=jax.random.key(0)).shape == (5, 4, 3, 2)

    def test_beside_other_inputs_they_change_nothing_but_the_fixed_part(self):
        rng = np.random.default_rng(3)
        x, x_test = rng.normal(size=(3, 3)), rng.normal(size=(4, 3))
        x[1] = 1.0
        y = rng.normal(size=(3, 2))
        model = InfiniteEnsemble(mlp, augmentation=on_regular(C3), label_action=turned, time=5.0).fit(x, y)
        labels = literal_augmentation.copies_of_labels(C3, turned, y)
        check(model, on_regular(C3), x, labels, x_test, kernel="ntk", time=5.0, ridge=0.0)
