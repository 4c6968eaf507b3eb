"""What an audit reads along orbits: outputs carried back, the worst of several outputs, maps that are no actions."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et

QUIET = {"off_data": False, "data_test": None, "resamples": 50, "layers": False}
CLOUDS = np.random.default_rng(0).normal(size=(12, 4, 3))
IMAGES = np.random.default_rng(1).normal(size=(8, 4, 4, 1))


def test_the_error_is_that_of_the_worst_output() -> None:
    fine, broken = (lambda x: x.sum((1, 2)) + 20), (lambda x: x[:, 0, 0] + 20)
    both = et.audit(lambda x: (fine(x), broken(x)), "C4", IMAGES, **QUIET)
    alone = et.audit(broken, "C4", IMAGES, **QUIET)
    np.testing.assert_allclose(both.errors, alone.errors, rtol=1e-12)
    assert both.verdict == "broken"
    first, second = (output.error.mean for output in both.contract.outputs)
    assert first < 1e-9
    assert second == pytest.approx(alone.error.estimate.mean)


@pytest.mark.parametrize("map_", [lambda R, x: 0 * x, lambda R, x: x * [1.0, 1.0, 0.0]], ids=["nothing", "a plane"])
def test_maps_that_respect_products_but_change_everything_are_no_actions(map_) -> None:
    with pytest.raises(et.errors.NotAnActionError, match=r"is off by .*; expected ρ\(e\) x = x"):
        et.audit(lambda x: x.sum((1, 2)), "SO3", CLOUDS, inputs=et.audit.Custom(map_), **QUIET)
