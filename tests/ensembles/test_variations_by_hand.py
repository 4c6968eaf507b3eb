"""Augmented data, variations of members and means over resamples, against sums written out."""

import jax
import numpy as np

import equitangents as et
from equitangents.ensembles.training.batches import augment
from equitangents.ensembles.training.variations import NTKPosterior, decay_to_start

ROT = et.actions.image_rotations(4)
NET = et.nn.Sequential(et.nn.Dense(3), et.nn.Erf(), et.nn.Dense(2))


def test_an_epoch_visits_all_pairs_or_each_sample_in_any_of_its_copies(rng):
    x, y = rng.normal(size=(3, 2, 2, 1)), rng.normal(size=(3, 1))
    full, random = (augment(ROT, None, mode, x, y, "float64") for mode in ("full", "random"))
    assert (full.samples, full.copies) == (12, 1)
    assert (random.samples, random.copies) == (3, 4)
    np.testing.assert_array_equal(full.x, np.concatenate([ROT(g, x) for g in range(4)]))


def test_noise_on_targets_has_the_variance_that_was_asked_for():
    drawn = NTKPosterior(noise=9.0).disturbance(jax.random.key(0), (2000, 2), "float64")
    assert 2.8 <= np.std(drawn) <= 3.2


def test_weights_are_held_to_where_they_began_by_the_noise_per_row():
    decay = decay_to_start(0.5)
    pulled, _ = decay.update({"w": np.array([1.0])}, {"w": np.array([2.0])}, {"w": np.array([6.0])})
    np.testing.assert_allclose(pulled["w"], [1 + 0.5 * (6 - 2)])
    base = NTKPosterior(noise=2.0).transformation(decay_to_start(0.0), 8)
    state = base.init({"w": np.zeros(1)})
    pulled, _ = base.update({"w": np.zeros(1)}, state, {"w": np.array([6.0])})
    np.testing.assert_allclose(pulled["w"], [2.0 / 8 * 6], rtol=1e-6)


def test_the_untrained_function_moves_all_layers_but_the_last(rng):
    x = rng.normal(size=(4, 3)).astype(np.float32)
    params, key = NET.init(jax.random.key(1), (3,)), jax.random.key(2)
    posterior = NTKPosterior()
    start = posterior.start(key, NET, params, (3,), "float32")
    direction = NET.init(jax.random.fold_in(key, 0), (3,))
    moved = lambda h: np.asarray(
        NET.apply((jax.tree.map(lambda p, d: p + h * d, params[0], direction[0]), *params[1:]), x)
    )
    expected = -(moved(1e-2) - moved(-1e-2)) / 2e-2
    np.testing.assert_allclose(posterior.baseline(NET, start, x), expected, rtol=0, atol=2e-3)


def test_resamples_add_the_variance_of_their_means(rng):
    means, covariances = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4, 4))
    covariances = covariances @ covariances.swapaxes(1, 2)

    class Resample:
        def __init__(self, b):
            self.b = b

        def predict(self, x, time, return_std=False, return_cov=False):
            covariance = covariances[self.b]
            return means[self.b], np.sqrt(np.diag(covariance)) if return_std else covariance

    model = et.ensembles.BaggedInfiniteEnsemble(et.InfiniteEnsemble(NET))
    model.ensembles_, model._one_column = [Resample(b) for b in range(3)], False
    _, std = model._predict(None, 1.0, True, False)
    _, covariance = model._predict(None, 1.0, False, True)
    centred = means - means.mean(axis=0)
    expected = covariances.mean(axis=0)[..., None] + np.mean([m[:, None] * m[None] for m in centred], axis=0)
    np.testing.assert_allclose(covariance, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(std**2, np.einsum("iik->ik", expected), rtol=1e-12)
