"""Claims of the study `mean-field` on made-up networks, whose width, violation and distance are planted."""

import dataclasses
import math

import jax
import numpy as np
import pytest

from equitangents import actions
from equitangents_studies import mean_field

SETTINGS = mean_field.Settings(widths=(16, 64, 256), scales=(1.0, 2.0), members=200)
AT = [(n, scale) for n in SETTINGS.widths for scale in SETTINGS.scales_of(n)]


def results(*, apart=0.5, violation=0.5, bias=0.0, distance=0.5):
    """Networks as (200, 4, 30); at λ = 1 changes and differences of trainings fall as n to the minus powers given."""
    rng = np.random.default_rng(0)
    limit = np.broadcast_to(rng.standard_normal(30), (4, 30))
    outputs, averaged = {}, {}
    for n, scale in AT:
        power = 1.0 if scale == 1 else 0.0
        change = n ** (-violation * power) * rng.standard_normal((200, 4, 30))
        shared = bias * np.array([0.0, 1.0, 1.0, 1.0])[:, None]
        outputs[n, scale] = limit * (1 + distance * power) + change + shared
        averaged[n, scale] = outputs[n, scale] + n ** (-apart * power) * rng.standard_normal((200, 4, 30))
    return mean_field.Results(actions.image_rotations(4), outputs, averaged, limit)


def verdicts(**planted):
    return [c.outcome for c in mean_field.claims(SETTINGS, results(**planted))]


@pytest.mark.parametrize(
    ("planted", "missed"),
    [({}, ()), ({"apart": 0.1}, (0,)), ({"violation": 0.1}, (1,)), ({"bias": 1.0}, (1, 2)), ({"distance": 0.0}, (3,))],
)
def test_verdicts_follow_what_is_planted(planted, missed):
    assert verdicts(**planted) == ["fails" if i in missed else "holds" for i in range(4)]


def test_distances_are_relative_and_without_the_members_spread():
    found = results(distance=0.3).distance(256, 1.0)
    assert found.low < 0.3 < found.high
    assert found.value == pytest.approx(0.3, abs=0.02)


def test_every_scale_has_one_tangent_kernel_at_the_study_s_rates():
    """The learning rate n/λ² times the kernel of f = (λ/√n) h is that of h at rate 1."""
    x = np.random.default_rng(0).normal(size=(2, 2, 2, 1))
    plain = mean_field.network(1, 1.0)
    wanted = type(plain)(*plain.layers[:-1]).kernel(x).ntk
    for n, scale in ((9, 3.0), (16, 1.0)):
        np.testing.assert_allclose(n / scale**2 * mean_field.network(n, scale).kernel(x).ntk, wanted, rtol=1e-10)
    params = mean_field.network(9, 3.0).init(jax.random.key(0), (2, 2, 1), "float32")
    assert mean_field.network(9, 3.0).apply(params, x.astype(np.float32)).shape == (2, 1)


def test_the_scale_of_the_tangent_kernel_is_among_those_of_each_width_once():
    assert SETTINGS.scales_of(4) == [1.0, 2.0]
    assert SETTINGS.scales_of(16) == [1.0, 2.0, 4.0]
    assert math.sqrt(256) in dataclasses.replace(SETTINGS, scales=(1.0,)).scales_of(256)
