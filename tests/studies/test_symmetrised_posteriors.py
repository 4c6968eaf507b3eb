"""How a group acts on a network's weights, and posteriors that it leaves as they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.extending import precision
from equitangents_studies.baselines.variational import divergence, drawn, towards_prior
from equitangents_studies.common.networks import mlp
from equitangents_studies.other_ensembles.study import Expanded, Symmetry

ACTION = et.actions.image_dihedral(4)  # D4, which is not commutative
ORDER = ACTION.group.order
SHAPE = (3, 3, 1)
SYMMETRY = Symmetry(ACTION, SHAPE)
NET, NARROW = (mlp(width, 2, flatten=True, b_std=0.3) for width in (2 * ORDER, 2))
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(4, *SHAPE)), RNG.normal(size=4)
ORBITS = np.asarray(ACTION.orbit(X))


@pytest.fixture(autouse=True)
def _double():
    with precision.scope(np.float64):
        yield


def weights(seed, net=NET):
    return net.init(jax.random.key(seed), SHAPE, "float64")


def posterior(seed):
    spread = jax.tree.map(lambda a: 0.3 * a - 1, weights(seed + 1))
    return {"mean": weights(seed), "log_scale": spread}


def moved(q, g, units):
    return {name: SYMMETRY.moved(part, g, units=units) for name, part in q.items()}


def same(first, second, rtol=1e-12):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12), first, second)


def outputs(params, x):
    return np.asarray(NET.apply(params, jnp.asarray(x)))


class TestWeights:
    @pytest.mark.slow
    @pytest.mark.parametrize("units", [False, True])
    def test_moved_are_the_network_at_inputs_moved_back_and_one_after_another_as_by_the_product(self, units):
        params = weights(0)
        for g in range(ORDER):
            once = SYMMETRY.moved(params, g, units=units)
            np.testing.assert_allclose(outputs(once, X), outputs(params, ORBITS[ACTION.group.inverse(g)]), rtol=1e-10)
            for h in range(ORDER):
                twice = SYMMETRY.moved(SYMMETRY.moved(params, h, units=units), g, units=units)
                same(twice, SYMMETRY.moved(params, ACTION.group.compose(g, h), units=units))

    @pytest.mark.slow
    @pytest.mark.parametrize("units", [False, True])
    def test_independent_gaussians_stay_so_and_as_far_from_the_prior(self, units):
        q, noise = posterior(0), weights(9)
        for g in range(ORDER):
            there, moved_noise = moved(q, g, units), SYMMETRY.moved(noise, g, units=units)
            same(SYMMETRY.moved(drawn(q, noise), g, units=units), drawn(there, moved_noise))
            assert float(divergence(there)) == pytest.approx(float(divergence(q)), rel=1e-12)

    def test_expanded_are_left_as_they_are_and_with_one_hidden_layer_are_the_orbit_average(self):
        params = weights(0, Expanded(NARROW, NET, SYMMETRY))
        assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, weights(0))
        for g in range(ORDER):
            same(SYMMETRY.moved(params, g, units=True), params)
        narrow, wide = (mlp(width, 1, flatten=True, b_std=0.3) for width in (2, 2 * ORDER))
        net = Expanded(narrow, wide, SYMMETRY)
        found = net.apply(weights(0, net), jnp.asarray(X))
        expected = np.mean([narrow.apply(weights(0, narrow), jnp.asarray(x)) for x in ORBITS], axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def log_density(q, at):
    each = jax.tree.map(lambda m, s, w: (-s - 0.5 * ((w - m) * jnp.exp(-s)) ** 2).sum(), q["mean"], q["log_scale"], at)
    return float(jax.tree.reduce(jnp.add, each))


class TestSymmetrised:
    @pytest.mark.slow
    @pytest.mark.parametrize(("way", "units"), [("averaged", False), ("projected", True)])
    def test_posteriors_are_left_as_they_are_and_change_no_more(self, way, units):
        change = SYMMETRY.ways[way]
        q = change(posterior(0))
        for g in range(ORDER):
            same(moved(q, g, units), q)
        same(change(q), q)

    def test_averaged_is_the_geometric_mean_of_densities(self):
        q = posterior(0)
        gaps = []
        for of in (SYMMETRY.averaged(q), *(moved(q, g, False) for g in range(ORDER))):
            gaps.append(log_density(of, weights(3)) - log_density(of, weights(4)))
        assert gaps[0] == pytest.approx(np.mean(gaps[1:]), rel=1e-10)

    def test_projected_weights_are_nearest(self):
        mean = SYMMETRY.projected(posterior(0))["mean"]
        others = SYMMETRY.projected(posterior(7))["mean"]
        across = jax.tree.map(lambda m, w, o: ((w - m) * o).sum(), mean, weights(0), others)
        assert abs(float(jax.tree.reduce(jnp.add, across))) < 1e-10

    @pytest.mark.parametrize(("way", "units"), [("averaged", False), ("projected", True)])
    def test_means_over_draws_in_all_orientations_are_invariant(self, way, units):
        q, noise = SYMMETRY.ways[way](posterior(0)), weights(9)
        draws = [drawn(q, SYMMETRY.moved(noise, g, units=units)) for g in range(ORDER)]
        means = [np.mean([outputs(w, x) for w in draws], axis=0) for x in ORBITS]
        np.testing.assert_allclose(means, np.tile(means[0], (ORDER, 1, 1)), rtol=1e-10)
        assert np.ptp([outputs(draws[0], x) for x in ORBITS], axis=0).min() > 1e-3


class TestTraining:
    """The gradient of −ELBO, noise drawn in all orientations, moves with q if the data are whole orbits."""

    @staticmethod
    def gradient(q, noise, x, y):
        loss = lambda q: ((NET.apply(drawn(q, noise), jnp.asarray(x))[:, 0] - y) ** 2).mean() / 2
        gradient = jax.jit(jax.grad(loss))(q)
        return towards_prior(0.1).update(gradient, None, q)[0]

    def over_noise(self, q, noise, x, y):
        found = [self.gradient(q, SYMMETRY.moved(noise, g, units=True), x, y) for g in range(ORDER)]
        return jax.tree.map(lambda *a: sum(a) / ORDER, *found)

    @pytest.mark.slow
    def test_it_does_not_without_augmentation(self):
        found = self.over_noise(SYMMETRY.projected(posterior(0)), weights(9), X, Y)["mean"]
        gaps = jax.tree.map(lambda a, b: jnp.abs(a - b).max(), SYMMETRY.moved(found, 1, units=True), found)
        assert float(jax.tree.reduce(jnp.maximum, gaps)) > 1e-3

    @pytest.mark.slow
    def test_over_all_orientations_of_the_noise_it_is_the_projected_gradient_of_one(self):
        """So that a symmetric posterior stays symmetric."""
        q, noise, rows = SYMMETRY.projected(posterior(0)), weights(9), ORBITS.reshape(-1, *SHAPE)
        one, over = self.gradient(q, noise, rows, np.tile(Y, ORDER)), self.over_noise(q, noise, rows, np.tile(Y, ORDER))
        same(over, SYMMETRY.projected(one), rtol=1e-9)
        for g in range(ORDER):
            same(moved(over, g, True), over, rtol=1e-9)
