"""SO(3) and O(3) as actions: audits draw their elements, measures integrate, exact augmentation is refused."""

from __future__ import annotations

import copy

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.actions import rotations, sampled, subset
from equitangents.actions.compact import ContinuousRotations
from equitangents.errors import EquitangentsError, InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import icosahedral, o3, so3
from equitangents.nn import Dense, Erf, Relu, Sequential

TURNS = rotations(so3(3))
MLP = Sequential(Dense(8), Relu(), Dense(1))


def drawn(group, seed, count=2):
    return group.random(count, seed=seed)


class TestLaws:
    @given(st.integers(0, 1000), st.sampled_from([so3(2), o3(2)]), st.sampled_from([(4, 3), (2, 5, 3)]))
    @settings(max_examples=20, deadline=None)
    def test_it_is_a_representation(self, seed, group, shape):
        action = rotations(group)
        x = np.random.default_rng(seed).normal(size=shape)
        a, b = drawn(group, seed)
        np.testing.assert_allclose(action(a, action(b, x)), action(a @ b, x), atol=1e-12)
        np.testing.assert_array_equal(action(group.identity, x), x)
        np.testing.assert_allclose(
            action(a, x), np.array([(a @ v) for v in x.reshape(-1, 3)]).reshape(shape), atol=1e-12
        )

    def test_orbits_go_through_nodes_or_given_elements(self, rng):
        x = rng.standard_normal((2, 4, 3))
        orbit = TURNS.orbit(x)
        assert orbit.shape == (75, 2, 4, 3)
        np.testing.assert_allclose(orbit[17], TURNS(17, x), atol=1e-14)
        np.testing.assert_allclose(orbit[17], TURNS(TURNS.group.matrices[17], x), atol=1e-14)
        np.testing.assert_array_equal(TURNS.orbit(x, [3, 1]), orbit[[3, 1]])

    def test_arrays_keep_their_type(self, rng):
        x = rng.standard_normal((2, 3)).astype(np.float32)
        assert TURNS(0, x).dtype == np.float32
        assert isinstance(TURNS(0, x), np.ndarray)
        assert isinstance(TURNS(0, jnp.asarray(x)), type(jnp.asarray(x)))
        with et.precision.scope(np.float64):
            wide = jnp.asarray(rng.standard_normal((2, 3)))
        np.testing.assert_allclose(np.asarray(TURNS(5, wide)), TURNS(5, np.asarray(wide)), rtol=1e-14)

    def test_it_is_a_value(self):
        assert TURNS == rotations(so3(3)) != rotations(so3(4))
        assert hash(TURNS) == hash(rotations(so3(3)))
        assert copy.deepcopy(TURNS) is TURNS
        assert not isinstance(TURNS, et.actions.Action)

    @pytest.mark.parametrize(
        ("element", "error"),
        [
            (75, "g is 75; expected 0 to 74; or give a matrix"),
            (-1, "g is -1; expected 0 to 74; or give a matrix"),
            (2 * np.eye(3), "expected orthogonal matrices"),
            (-np.eye(3), "reflection"),
            (np.eye(2), "shape"),
            (np.full((3, 3), np.nan), "expected orthogonal matrices"),
        ],
    )
    def test_what_is_no_element_is_refused(self, element, error):
        with pytest.raises(InvalidArgumentError, match=error):
            TURNS(element, np.ones((2, 3)))

    def test_reflections_are_elements_of_o3(self):
        np.testing.assert_array_equal(rotations(o3(1))(-np.eye(3), np.ones((1, 3))), -np.ones((1, 3)))

    def test_signals_are_vectors_or_point_clouds(self):
        with pytest.raises(ShapeError, match=r"expected \(\.\.\., 3\)"):
            TURNS(0, np.ones((2, 4)))


class TestMeasures:
    """Over all rotations, f(x) = x_1 has mean 0 and mean square |x|²/3, g(x) = x_1² mean |x|²/3, square |x|⁴/5."""

    x = np.random.default_rng(0).normal(size=(6, 3))

    def test_spreads_are_haar_integrals(self):
        measure = et.metrics.relative_orbit_std(lambda x: x[:, 0] ** 2, TURNS, self.x)
        np.testing.assert_allclose(measure.values, np.sqrt(1 / 5 - 1 / 9) * 3, rtol=1e-10)

    def test_errors_of_invariance(self):
        measure = et.metrics.equivariance_error(lambda x: x[:, 0] ** 2, TURNS, self.x)
        random = np.abs((so3(1).random(40_000) @ self.x[0])[:, 0] ** 2 - self.x[0, 0] ** 2).mean() / self.x[0, 0] ** 2
        assert measure.errors.shape == (75, 6)
        np.testing.assert_allclose(measure.values[0], random, rtol=0.1)  # |.| is no polynomial
        np.testing.assert_allclose(measure.values, TURNS.weights @ measure.errors, rtol=1e-12)
        assert not np.allclose(measure.values, measure.errors.mean(axis=0), rtol=1e-3)

    def test_equivariant_functions_have_no_error(self):
        f = lambda x: x * np.linalg.norm(x, axis=-1, keepdims=True)
        assert et.metrics.equivariance_error(f, TURNS, self.x, output_action=TURNS).mean < 1e-12
        assert et.metrics.equivariance_error(f, TURNS, self.x).mean > 0.1

    def test_same_predictions_are_a_share_of_the_group(self):
        first = np.array([[1e-3, 0.0, 1.0]])
        measure = et.metrics.orbit_same_predictions(
            lambda x: np.stack([x[:, 2], -x[:, 2]], -1), rotations(so3(8)), first
        )
        assert measure.name == "orbit same predictions, share of the group"
        assert measure.values[0] == pytest.approx(0.5, abs=0.02)  # half of all rotations keep the upper half there


class TestAudit:
    x = np.random.default_rng(1).normal(size=(12, 5, 3)).astype(np.float32)

    def test_it_is_the_preset(self):
        f = lambda x: np.sort(np.linalg.norm(x, axis=2), axis=1)
        given, named = (et.audit(f, action, self.x, off_data=False) for action in (TURNS, "SO3"))
        assert given.verdict == named.verdict
        np.testing.assert_array_equal(given.errors, named.errors)
        assert given.errors.shape == (32, 12)

    @pytest.mark.slow
    @pytest.mark.parametrize("output", [TURNS, "vectors"])
    def test_outputs_turn_along(self, output):
        f = lambda x: x.mean(axis=1)
        turns_along = et.audit(f, TURNS, self.x, output_action=output, off_data=False)
        assert "equivariant" in turns_along.verdict
        broken = et.audit(lambda x: x.mean(axis=1) ** 2, TURNS, self.x, output_action=output, off_data=False)
        assert broken.verdict != turns_along.verdict

    def test_groups_must_agree(self):
        f = lambda x: x.mean(axis=1)
        for other in (rotations(o3(3)), rotations(icosahedral())):
            with pytest.raises(InvalidArgumentError, match="give actions of one group"):
                et.audit(f, TURNS, self.x, output_action=other, off_data=False)
            with pytest.raises(InvalidArgumentError, match="give actions of one group"):
                et.audit(f, other, self.x, output_action=TURNS, off_data=False)


class TestExactSums:
    """What is exact for finite groups says what to do."""

    @pytest.mark.parametrize(
        "use",
        [
            lambda: et.InfiniteEnsemble(MLP, augmentation=TURNS).fit(np.eye(3), np.zeros(3)),
            lambda: et.DeepEnsemble(MLP, augmentation=TURNS, members=2).fit(np.eye(3), np.zeros(3)),
            lambda: et.kernels.orbit_average(MLP, TURNS),
            lambda: et.InfiniteEnsemble(MLP).fit(np.eye(3), np.zeros(3)).orbit_statistics(TURNS, np.eye(3), [1]),
            lambda: et.actions.direct_sum(TURNS, TURNS),
            lambda: et.actions.tensor_product(TURNS, TURNS),
            lambda: et.actions.restrict(TURNS, icosahedral().subgroup([0])),
            lambda: et.actions.trivial(so3(2)),
            lambda: et.actions.linear(so3(2), np.zeros((18, 3, 3))),
        ],
    )
    def test_it_is_refused_with_a_remedy(self, use):
        with pytest.raises(InvalidTypeError, match=r"finite group.*icosahedral"):
            use()

    @pytest.mark.slow
    def test_nodes_and_random_elements_augment(self, rng):
        x, y = rng.standard_normal((4, 3)), rng.standard_normal(4)
        nodes, random = sampled(TURNS), sampled(TURNS, 12, seed=3)
        assert (len(nodes), len(random)) == (75, 12)
        assert nodes.weights.sum() == pytest.approx(1)
        assert not nodes.is_subgroup
        model = et.InfiniteEnsemble(MLP, augmentation=nodes, time=1.0).fit(x, y)
        assert model.solver_ == "explicit N|G| (75 elements of SO(3), weighted)"
        turned = np.concatenate([x @ R.T for R in so3(3).matrices])
        weights = np.repeat(so3(3).weights, 4) * 75
        kernel = MLP.kernel(turned).ntk
        root = np.sqrt(weights)
        values, vectors = np.linalg.eigh(root[:, None] * kernel * root)
        decay = vectors @ np.diag(-np.expm1(-values / 300) / values) @ vectors.T
        expected = (MLP.kernel(x, turned).ntk * root) @ decay @ (root * np.tile(y, 75))
        np.testing.assert_allclose(model.predict(x), expected, rtol=1e-6, atol=1e-8)
        et.DeepEnsemble(MLP, augmentation=random, members=2, epochs=2).fit(x, y)
        with pytest.raises(EquitangentsError, match=r"sampled\(action, count\)"):
            et.DeepEnsemble(MLP, augmentation=nodes, members=2, epochs=2).fit(x, y)

    def test_labels_turn_along(self, rng):
        x, y = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
        elements = sampled(TURNS, 5, seed=1)
        net = Sequential(Dense(8), Erf(), Dense(3))
        model = et.InfiniteEnsemble(net, augmentation=elements, label_action=TURNS, ridge=1e-3).fit(x, y)
        plain = et.InfiniteEnsemble(net, ridge=1e-3).fit(
            np.concatenate([x @ R.T for R in elements.elements]), np.concatenate([y @ R.T for R in elements.elements])
        )
        np.testing.assert_allclose(model.predict(x), plain.predict(x), rtol=1e-6, atol=1e-8)

    def test_random_elements_depend_on_the_seed(self):
        a, b, c = (sampled(TURNS, 4, seed=seed).elements for seed in (0, 0, 1))
        np.testing.assert_array_equal(a, b)
        assert not np.allclose(a, c)

    def test_bad_samples_are_refused(self):
        with pytest.raises(InvalidArgumentError, match="count is 0"):
            sampled(TURNS, 0)
        with pytest.raises(InvalidArgumentError, match="seed is -1"):
            sampled(TURNS, 3, seed=-1)
        with pytest.raises(InvalidTypeError, match="so3"):
            sampled(rotations(icosahedral()), 3)
        with pytest.raises(InvalidArgumentError, match="at least one element"):
            subset(TURNS, np.zeros((0, 3, 3)))

    def test_finite_subgroups_are_actions(self, rng):
        x = rng.standard_normal((2, 3))
        model = et.InfiniteEnsemble(MLP, augmentation=rotations(icosahedral()), time=1.0).fit(x, np.ones(2))
        assert model.solver_ == "orbit-averaged N×N"
        assert isinstance(rotations(icosahedral()), et.actions.Action)
        assert isinstance(TURNS, ContinuousRotations)
