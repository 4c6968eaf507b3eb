"""Claims of the study `admissible` on made-up networks: with filters of 3×3 none, and with a planted violation."""

import jax
import numpy as np
import pytest

from equitangents import actions, nn
from equitangents_studies import admissible
from equitangents_studies.common.scores import powers_of_two

SETTINGS = admissible.Settings(members=60, train_images=10, test_images=40, foreign_images=40)
NAMES = ("test", "photographs")


def made(bias, rng):
    """(60, 4, 40, 10): an invariant function, noise of every member, and `bias` that all members share."""
    clear = 3 * np.eye(10)[rng.integers(0, 10, 40)]
    shared = np.concatenate([np.zeros((1, 40, 10)), rng.standard_normal((3, 40, 10))])
    return (clear + bias * shared + rng.standard_normal((60, 4, 40, 10))).astype(np.float32)


def results(symmetric, asymmetric, wide=0.0, random=0.0):
    rng, sizes = np.random.default_rng(0), tuple(powers_of_two(60))
    images = admissible.load_images(SETTINGS, None)
    bias = {support: asymmetric for support in admissible.SUPPORTS} | {"3×3": symmetric}
    outputs = {(s, name): made(bias[s], rng) for s in bias for name in NAMES}
    randomly = {("mini-batches", name): made(random, rng) for name in NAMES}
    mean = np.concatenate([np.ones((1, 40, 10)), np.full((3, 40, 10), 1 + wide)])
    every = lambda value: {(s, name): value for s in bias for name in NAMES}
    expected = np.full((len(sizes), 3), 3.5)
    return admissible.Results(
        images, actions.image_rotations(4), sizes, outputs, randomly, every(mean), every(expected)
    )


@pytest.mark.parametrize(
    ("numbers", "verdicts"),
    [
        ((0.0, 2.0, 0.0), ["holds", "holds", "holds", "holds", "holds"]),
        ((2.0, 0.0, 0.0), ["fails", "fails", "holds", "undecided", "holds"]),
        ((0.0, 2.0, 0.0, 1.0), ["holds", "holds", "fails", "holds", "holds"]),
        ((0.0, 2.0, 0.1), ["holds", "holds", "holds", "holds", "fails"]),
        ((0.0, 2.0, np.nan), ["holds", "holds", "holds", "holds", "undecided"]),
    ],
)
def test_verdicts_follow_what_is_planted(numbers, verdicts):
    assert [c.outcome for c in admissible.claims(SETTINGS, results(*numbers))] == verdicts


@pytest.mark.slow
def test_the_study_s_networks_are_what_their_names_say():
    for support in admissible.SUPPORTS:
        net = admissible.network(SETTINGS, 10, support, 4)
        assert bool(nn.is_admissible(net, "C4", (8, 8, 1))) is (support == admissible.SYMMETRIC)


@pytest.mark.slow
def test_training_differs_where_it_is_random_and_prediction_does_not():
    from equitangents_studies.common.noisy_cnn import NoisyCNN

    x = np.random.default_rng(0).normal(size=(5, 4, 4, 1)).astype(np.float32)
    for how in ({"dropout": 0.5}, {"normalised": True}):
        net = NoisyCNN(3, 2, 2, **how)
        params = net.init(jax.random.key(0), x, train=False)
        of = lambda key, net=net, params=params: net.apply(
            params, x, train=True, rngs={"dropout": jax.random.key(key)}, mutable=["batch_stats"]
        )[0]
        assert bool(np.abs(of(0) - of(1)).max() > 1e-3) is ("dropout" in how)
        assert np.abs(of(0) - net.apply(params, x, train=False)).max() > 1e-3
        assert ("batch_stats" in params) is ("normalised" in how)


def test_the_violation_is_the_relative_orbit_deviation_over_all_outputs():
    rng = np.random.default_rng(1)
    y = rng.standard_normal((4, 5, 3))
    literal = np.sqrt(((y - y.mean(0)) ** 2).mean(0).sum() / (y.mean(0) ** 2).sum())
    assert admissible._relative_std(y) == pytest.approx(literal, rel=1e-12)


def test_a_violation_that_is_not_a_number_is_not_0():
    y = np.ones((4, 5, 3))
    y[1, 2, 0] = np.nan
    assert np.isnan(admissible._relative_std(y))
