"""Augmented CNNs against group-convolutional ones, and filters of other shapes: claims follow planted numbers."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from equitangents import actions, nn
from equitangents.kernels import orbit_average
from equitangents_studies import admissible
from equitangents_studies import augmented_cnn_to_gcnn as study
from equitangents_studies.common.augmented_pairs import KINDS
from equitangents_studies.common.scores import powers_of_two

SETTINGS = study.Settings(widths=(4, 16), members=400, steps=(1,), times=(1.0, np.inf))
SETS = ("training", "test")


def results(floor, spread=0.1, distance=1e-12):
    """Outputs with means `floor(width)` apart in 30 values of size 1, and independent fluctuations."""
    rng = np.random.default_rng(0)
    images = study.load_images(study.Settings(foreign=()), None)
    outputs = {}
    for width in SETTINGS.widths:
        for k, kind in enumerate(KINDS):
            draw = lambda k=k, width=width: 1 + k * floor(width) + spread * rng.normal(size=(2, 400, 30))
            outputs |= {(kind, width, name): draw() for name in SETS}
    infinite = {
        "distance": np.full((2, 2), distance),
        "without_augmentation": np.full((2, 2), 0.5),
        "kernel_distance": np.zeros(2),
    }
    return study.Results(images, SETS, (0, 1), **infinite, outputs=outputs)


def verdicts(found):
    return [claim.outcome for claim in study.claims(SETTINGS, found)]


@pytest.mark.slow
def test_all_claims_hold_of_a_distance_that_falls_with_members_to_a_small_floor():
    found = results(lambda width: 0.4 / width)
    assert verdicts(found) == ["holds"] * 5
    assert [found.floors(width, "test", 1).mean() for width in (4, 16)] == pytest.approx([0.01, 0.000625], abs=5e-4)
    assert found.mean_floor().value == pytest.approx((0.01 + 0.000625) / 2, rel=0.1)
    assert found.mean_exponent().value == pytest.approx(-0.5, abs=0.05)
    assert found.members_exponent(4, "test", 1).value == pytest.approx(-0.5, abs=0.1)
    assert found.share(4, "test", 1).value == pytest.approx(0.01, rel=0.1)


def test_a_floor_that_stays_fails():
    found = verdicts(results(lambda width: 0.5 + width / 100))
    assert found[3:] == ["fails", "fails"]


@pytest.mark.slow
def test_equal_means_leave_nothing_and_a_floor_about_the_bound_is_undecided():
    assert verdicts(results(lambda width: 0.0))[3] == "holds"
    assert verdicts(results(lambda width: 0.1))[3] == "undecided"


@pytest.mark.quick(1)
@pytest.mark.parametrize(("distance", "verdict"), [(1e-3, "fails"), (np.nan, "undecided")])
def test_means_that_differ_at_infinite_width_do_not_hold(distance, verdict):
    assert verdicts(results(lambda width: 0.0, distance=distance))[0] == verdict


@pytest.mark.parametrize("group", ["C4", "D4"])
def test_the_group_convolutions_have_the_orbit_mean_of_the_cnns_kernel(group, rng):
    settings, x = study.Settings(group=group), rng.normal(size=(3, 4, 4, 2))
    action = {"C4": actions.image_rotations, "D4": actions.image_dihedral}[group](4)
    ours, mean = study.gcnn(settings, 1, 4, 1).kernel(x), orbit_average(study.cnn(settings, 1, 1), action).kernel(x)
    np.testing.assert_allclose(ours.ntk, mean.ntk, rtol=1e-10)


ADMISSIBLE = admissible.Settings(members=60, train_images=10, test_images=40, foreign_images=40)
NAMES = ("test", "photographs")


def made(bias, rng):
    """(60, 4, 40, 10): an invariant function, noise of every member, and `bias` that all members share."""
    clear = 3 * np.eye(10)[rng.integers(0, 10, 40)]
    shared = np.concatenate([np.zeros((1, 40, 10)), rng.standard_normal((3, 40, 10))])
    return (clear + bias * shared + rng.standard_normal((60, 4, 40, 10))).astype(np.float32)


def admissible_results(symmetric, asymmetric, wide=0.0, random=0.0):
    rng, sizes = np.random.default_rng(0), tuple(powers_of_two(60))
    images = admissible.load_images(ADMISSIBLE, None)
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
    assert [c.outcome for c in admissible.claims(ADMISSIBLE, admissible_results(*numbers))] == verdicts


@pytest.mark.slow
def test_the_study_s_networks_are_what_their_names_say():
    for support in admissible.SUPPORTS:
        net = admissible.network(ADMISSIBLE, 10, support, 4)
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
