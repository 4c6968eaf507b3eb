"""Augmented CNNs against group-convolutional ones: claims follow planted numbers."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents import actions
from equitangents.kernels import orbit_average
from equitangents_studies import augmented_cnn_to_gcnn as study
from equitangents_studies.common.augmented_pairs import KINDS

SETTINGS = study.CnnToGcnnSettings(widths=(4, 16), members=400, steps=(1,), times=(1.0, np.inf))
SETS = ("training", "test")


def results(floor, spread=0.1, distance=1e-12):
    """Outputs with means `floor(width)` apart in 30 values of size 1, and independent fluctuations."""
    rng = np.random.default_rng(0)
    images = study.load_images(study.CnnToGcnnSettings(foreign=()), None)
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
    return study.CnnToGcnnResults(images, SETS, (0, 1), **infinite, outputs=outputs)


def verdicts(found):
    return [claim.outcome for claim in study.claims(SETTINGS, found)]


@pytest.mark.slow
def test_all_claims_hold_of_a_distance_that_falls_with_members_to_a_small_floor():
    found = results(lambda width: 0.4 / width)
    assert verdicts(found) == ["holds"] * 5
    assert [found.limits(width, "test", 1).mean() for width in (4, 16)] == pytest.approx([0.01, 0.000625], abs=5e-4)
    assert found.mean_limit().value == pytest.approx((0.01 + 0.000625) / 2, rel=0.1)
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
    settings, x = study.CnnToGcnnSettings(group=group), rng.normal(size=(3, 4, 4, 2))
    action = {"C4": actions.image_rotations, "D4": actions.image_dihedral}[group](4)
    ours, mean = study.gcnn(settings, 1, 4, 1).kernel(x), orbit_average(study.cnn(settings, 1, 1), action).kernel(x)
    np.testing.assert_allclose(ours.ntk, mean.ntk, rtol=1e-10)
