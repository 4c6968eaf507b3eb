"""Equivariance, samples and times of augmentation solved irrep by irrep."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensembles.irrep_cases import CASES, data, mlp, on_orbits, seeds
from equitangents.ensembles import InfiniteEnsemble
from oracles.literal_network import LiteralNetwork


class TestLaws:
    @pytest.mark.slow
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
