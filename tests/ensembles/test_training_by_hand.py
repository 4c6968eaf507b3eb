"""What an epoch visits, and losses of one sample, against sums written out: literal training loops share both."""

import jax
import numpy as np

from equitangents.ensembles.training.batches import Batches
from equitangents.ensembles.training.descent import cross_entropy, squared_error
from equitangents.ensembles.training.variations import Bootstrap, variation_key


def drawn(batches, seed=0):
    rows, weights = (np.asarray(a) for a in batches.draw(jax.random.key(seed)))
    assert rows.shape == weights.shape == (batches.steps, batches.blocks, batches.rows)
    return rows, weights


def test_an_epoch_visits_each_sample_once_and_padding_counts_nothing():
    for samples, size, rows in ((7, 3, 3), (7, 4, 2), (5, 5, 5), (4, 3, 2)):
        index, weight = drawn(Batches(samples, size, rows))
        assert set(np.unique(weight)) <= {0, 1}
        assert sorted(index[weight == 1].tolist()) == list(range(samples))


def test_copies_of_sample_i_are_the_rows_i_plus_multiples_of_the_samples():
    batches = Batches(5, 5, 5, copies=3, shuffle=False)
    copies = np.stack([drawn(batches, seed)[0].ravel() - np.arange(5) for seed in range(12)])
    assert sorted(np.unique(copies).tolist()) == [0, 5, 10]


def test_resamples_are_drawn_from_all_samples():
    rows = np.stack([np.asarray(Bootstrap().rows(variation_key(0, i), 4, 1)) for i in range(12)])
    assert sorted(np.unique(rows).tolist()) == [0, 1, 2, 3]


def test_losses_of_a_sample_are_their_sums(rng):
    f, y = rng.normal(size=(2, 3, 4))
    np.testing.assert_allclose(
        squared_error(f, y), [sum((a - b) ** 2) / 2 for a, b in zip(f, y, strict=True)], rtol=1e-5
    )
    y = np.abs(y) / np.abs(y).sum(axis=1, keepdims=True)
    expected = [np.log(np.exp(a).sum()) - a @ b for a, b in zip(f, y, strict=True)]
    np.testing.assert_allclose(cross_entropy(f, y), expected, rtol=1e-5)
