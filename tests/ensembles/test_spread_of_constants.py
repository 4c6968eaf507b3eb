"""What does not vary along an orbit has the spread 0, exactly; a spread about nothing is infinite."""

import numpy as np

from equitangents.metrics.on_orbits import relative_spread, spread


def test_constants_have_no_spread(rng):
    z = np.broadcast_to(rng.normal(size=(5, 3, 1, 2)), (5, 3, 4, 2))
    for constant in (z, 0 * z, 1e150 * z):
        assert np.array_equal(spread(constant), np.zeros((5, 3)))
        assert np.array_equal(relative_spread(constant), np.zeros((5, 3)))


def test_a_spread_is_the_norm_of_the_standard_deviations(rng):
    z = rng.normal(size=(5, 3, 4, 2))
    expected = np.linalg.norm(z.std(axis=2), axis=-1)
    np.testing.assert_allclose(spread(z), expected)
    np.testing.assert_allclose(relative_spread(z), expected / np.linalg.norm(z.mean(axis=2), axis=-1))
    assert np.all(relative_spread(np.stack([z, -z], axis=2).reshape(5, 3, 8, 2)[:, :, [0, 4]]) == np.inf)
