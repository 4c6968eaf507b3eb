"""Pieces of the studies of augmentation against literal computations."""

import jax
import numpy as np
import pytest
from scipy.stats import special_ortho_group

import equitangents as et
from equitangents_studies import ising, mlp_to_gcnn
from equitangents_studies.common.infinite import predicted_parts, squares_of_means
from equitangents_studies.common.networks import mlp, same_weights
from equitangents_studies.common.rotation_bound import (
    coarseness,
    covering_angle,
    gradient_norms,
    representation,
    to_nearest,
)
from equitangents_studies.finite_width import leading_exponent, order_claim
from equitangents_studies.mlp_to_gcnn import FrozenKernel, SymmetrisedKernel, draw
from equitangents_studies.sampling import STRATEGIES, importance, sample, trained_means
from oracles.invariance import invariance_error


class TestSameWeights:
    @pytest.mark.slow
    @pytest.mark.parametrize("group", ["C4", "D4"])
    def test_the_network_with_the_same_weights_is_the_orbit_mean_and_its_kernel_is_symmetrised(self, group):
        settings = mlp_to_gcnn.MlpToGcnnSettings(hidden_layers=3, group=group)
        action, net = mlp_to_gcnn.image_action(settings), mlp_to_gcnn.plain(settings, 5)
        params = draw(net, (64, 1), 0, 0)
        x = np.random.default_rng(0).normal(size=(3, 64, 1))
        pooled = mlp_to_gcnn.gcnn(settings, action, 5, [action.group.identity])
        mean = np.mean([net.apply(params, action(g, x)) for g in range(action.group.order)], axis=0)
        np.testing.assert_allclose(pooled.apply(same_weights(params), x), mean, atol=1e-12)
        assert invariance_error(SymmetrisedKernel(net, params, action), action, x) < 1e-12
        assert invariance_error(FrozenKernel(net, params), action, x) > 1e-2


class TestRotationBound:
    def test_coarseness_of_the_circle(self):
        plane = et.groups.so2().irreps(2)[1]
        matrices = representation(et.actions.represented(et.groups.cyclic(12), plane), (2,))
        for k in (1, 2, 3, 4, 6):
            # the farthest of 12 angles from a multiple of 360°/k; harmonics of degree 1 turn by the angle itself
            farthest = max(min(g % (12 // k), 12 // k - g % (12 // k)) for g in range(12)) * np.pi / 6
            assert coarseness(matrices, k) == pytest.approx(2 * np.sin(farthest / 2))

    def test_gradients_of_a_known_function(self):
        rng = np.random.default_rng(0)
        M, x = rng.normal(size=(6, 3)), rng.normal(size=(4, 2, 3))
        found = gradient_norms(lambda z: np.sin(z.reshape(len(z), -1)) @ M, x)
        flat = np.cos(x.reshape(4, 6))
        expected = [np.linalg.norm(np.diag(row) @ M, ord=2) for row in flat]
        np.testing.assert_allclose(found, expected, rtol=1e-7)


class TestSampledGroups:
    order, n = 6, 4

    @pytest.mark.parametrize("strategy", list(STRATEGIES))
    def test_every_input_gets_its_budget(self, strategy):
        rng = np.random.default_rng(0)
        p = importance(rng.random((self.order, self.n)))
        np.testing.assert_allclose(p.sum(axis=0), 1)
        chosen = sample(strategy, 2, p, rng)
        assert len(set(chosen.rows)) == len(chosen.rows)
        if strategy != "important":
            assert np.bincount(chosen.rows % self.n, weights=chosen.weights).tolist() == [2] * self.n
        if strategy == "subgroup":
            assert set(chosen.rows // self.n) == {0, 3}

    @pytest.mark.slow
    def test_importance_sampling_is_unbiased(self):
        rng = np.random.default_rng(0)
        p = importance(rng.random((self.order, self.n)) ** 4)
        total = np.zeros(self.order * self.n)
        for _ in range(4000):
            chosen = sample("important", 3, p, rng)
            total[chosen.rows] += chosen.weights
        np.testing.assert_allclose(total / 4000, 3 / self.order, rtol=0.15)

    def test_training_with_weights_is_training_on_copies(self):
        rng = np.random.default_rng(0)
        net, x, y = mlp(1, 1), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
        points, copies = rng.normal(size=(4, 3)), np.array([1, 3, 1, 2, 1])
        times = np.array([0.5, 20.0, np.inf])
        repeated = et.InfiniteEnsemble(net).fit(np.repeat(x, copies, axis=0), np.repeat(y, copies, axis=0))
        gram, cross = (np.asarray(net.kernel(a, x).ntk) for a in (x, points))
        found = trained_means(gram, cross, y, copies.astype(float), 8, times)
        np.testing.assert_allclose(found, repeated.predict(points, time=times), atol=1e-9)


class TestOrbitSpread:
    def test_closed_form_against_draws(self):
        rng = np.random.default_rng(0)
        action = et.actions.image_rotations(4)
        x, y = rng.normal(size=(3, 3, 3, 1)), rng.normal(size=3)
        model = et.InfiniteEnsemble(mlp(1, 1, flatten=True), time=1.0).fit(x, y)
        a, b = predicted_parts(model, action, x, np.array([1.0]))
        draws = model.sample(np.concatenate([action(g, x) for g in range(4)]), 20000, key=jax.random.key(0))
        d = draws.reshape(-1, 4, 3)[:, 1:] - draws.reshape(-1, 4, 3)[:, :1]
        assert a[0] == pytest.approx(d.var(axis=0).mean(), rel=0.05)
        assert b[0] == pytest.approx((d.mean(axis=0) ** 2).mean(), rel=0.1)

    def test_squares_of_means_literally(self):
        d = np.random.default_rng(0).normal(size=(9, 5))
        found = squares_of_means(d, (1, 2, 4))
        assert found.shape == (2, 3)
        pairs = [((d[i] + d[i + 1]) / 2) ** 2 for i in (4, 6)]
        assert found[1, 1] == pytest.approx(np.mean(pairs))
        assert found[0, 2] == pytest.approx((d[:4].mean(axis=0) ** 2).mean())


class TestLeadingExponent:
    widths = np.array([16.0, 32.0, 64.0, 128.0, 256.0])

    def test_a_second_order_that_a_single_power_would_mix_in(self):
        means = -20 / self.widths + 150 / self.widths**2
        estimate = leading_exponent(self.widths, means, np.full(5, 0.003))
        assert estimate.value == pytest.approx(-1, abs=0.01)
        assert -1.2 < estimate.low < -1 < estimate.high < -0.8
        single = np.polyfit(np.log(self.widths), np.log(-means), 1)[0]
        assert single > -0.85

    @pytest.mark.parametrize(("power", "expected"), [(1.0, "holds"), (0.5, "fails")])
    def test_verdicts(self, power, expected):
        fit = leading_exponent(self.widths, 3 / self.widths**power, np.full(5, 1e-4))
        assert order_claim({"spins": fit}, "MLPs", "after 10 steps").outcome == expected
        any_fits = leading_exponent(self.widths, -20 / self.widths, np.full(5, 10.0))
        assert np.isnan(any_fits.value)


class TestCoveringAngle:
    @pytest.mark.parametrize(
        ("group", "degrees"),
        # centres of the cells of the 24-cell, of its compound with the dual, and of the 600-cell
        [(et.groups.tetrahedral, 90.0), (et.groups.octahedral, 62.7994), (et.groups.icosahedral, 44.4775)],
    )
    def test_of_the_solids(self, group, degrees):
        matrices = group().matrices
        assert np.degrees(covering_angle(matrices)) == pytest.approx(degrees, abs=1e-3)
        turns = special_ortho_group.rvs(3, size=3000, random_state=0)
        traces = np.einsum("rii->r", to_nearest(matrices, turns))
        angles = np.degrees(np.arccos(np.clip((traces - 1) / 2, -1, 1)))
        assert 0.85 * degrees < angles.max() <= degrees + 1e-6


class TestIsingForEveryNumberOfMembers:
    def test_sizes_are_every_number_and_then_a_few(self):
        few = ising.predicted_sizes(ising.IsingSettings(groups=(1, 5, 32), members=64))
        assert few.tolist() == list(range(1, 33))
        many = ising.predicted_sizes(ising.IsingSettings(groups=(1, 70, 500), members=1000))
        assert set(range(1, 65)) | {70, 500} <= set(many.tolist())
        assert len(many) < 100
