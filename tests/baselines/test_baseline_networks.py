"""What baselines build in holds for any weights: invariance to rounding, as many parameters as the plain network."""

import jax
import numpy as np
import pytest

from equitangents import baselines, nn
from equitangents_studies.baselines.networks import Canonicalised, cnn, count_multiplications, count_parameters
from equitangents_studies.baselines.turned_filters import TurnedFilters, ring_functions, turned_filters, turned_rings

X = np.random.default_rng(0).normal(size=(5, 8, 8, 2)).astype(np.float32)


def outputs_on_orbit(net, group, x=X):
    orbit = baselines.Problem(group, x.shape[1:], 3).action.orbit(x)
    random = jax.jit(lambda key, x: net.apply(net.init(key, x.shape[1:]), x))
    y = random(jax.random.key(1), orbit.reshape(-1, *x.shape[1:]))
    return np.asarray(y).reshape(*orbit.shape[:2], 3)


class TestGroupConvolutionalNetwork:
    @pytest.mark.slow
    @pytest.mark.parametrize("group", ["C4", pytest.param("D4", marks=pytest.mark.slow)])
    def test_it_is_invariant_where_pixels_move_to_pixels(self, group):
        y = outputs_on_orbit(TurnedFilters(group, 3, 3), group)
        assert np.std(y[0]) > 0.01
        np.testing.assert_allclose(y, np.broadcast_to(y[:1], y.shape), atol=1e-5)

    def test_steerable_filters_keep_quarter_turns_exact(self):
        y = outputs_on_orbit(TurnedFilters("C8", 2, 3), "C8")
        np.testing.assert_allclose(y[::2], np.broadcast_to(y[:1], y[::2].shape), atol=1e-5)

    @pytest.mark.parametrize("side", [4, 5])
    def test_filters_turn_as_functions_of_the_plane(self, side):
        found = turned_rings(side, 8)
        for g in range(8):
            for b, (R, m, phase) in enumerate(ring_functions(side)):
                image = found[g, :, b].reshape(side, side)
                np.testing.assert_allclose(found[(g + 2) % 8, :, b].reshape(side, side), np.rot90(image), atol=1e-12)
                at = [(j - (side - 1) / 2, (side - 1) / 2 - i) for i in range(side) for j in range(side)]
                literal = np.array(
                    [
                        np.exp(-((np.hypot(*p) - R) ** 2) / 0.72)
                        * (np.cos(m * (np.arctan2(p[1], p[0]) - phase - g * np.pi / 4)) if m and any(p) else m == 0)
                        for p in at
                    ]
                )
                along = (image.ravel() @ literal) / np.linalg.norm(image) / np.linalg.norm(literal)
                assert along == pytest.approx(1, abs=1e-12)

    @pytest.mark.slow
    def test_a_turn_by_45_degrees_costs_a_smooth_image_little(self):
        row, column = np.mgrid[:14, :14] - 6.5
        blob = np.exp(-((row - 2) ** 2 + (column + 1) ** 2) / 6) - np.exp(-((row + 2) ** 2 + column**2) / 5)
        y = outputs_on_orbit(TurnedFilters("C8", 5, 3), "C8", np.stack([blob, blob.T])[..., None].astype(np.float32))
        assert np.linalg.norm(y - y[:1]) <= 0.1 * np.linalg.norm(y)

    def test_it_has_about_as_many_parameters_as_the_plain_network(self):
        problem = baselines.Problem("C4", (14, 14, 1), 10)
        wanted = count_parameters(cnn(problem), problem.shape)
        found = count_parameters(turned_filters(problem, wanted), problem.shape)
        assert abs(found - wanted) <= 0.15 * wanted


class TestCanonicalisation:
    def test_the_classifier_sees_one_image_for_the_whole_orbit(self):
        flat = lambda outputs: nn.Sequential(nn.Flatten(), nn.Dense(4), nn.Relu(), nn.Dense(outputs))
        y = outputs_on_orbit(Canonicalised("D4", flat(1), flat(3)), "D4")
        np.testing.assert_allclose(y, np.broadcast_to(y[:1], y.shape), atol=1e-5)


def test_multiplications_are_those_of_every_further_image():
    net = nn.Sequential(nn.Conv(3, (2, 2), stride=2, padding="zero"), nn.Relu(), nn.Flatten(), nn.Dense(5))
    assert count_multiplications(net, (8, 8, 2)) == 16 * 4 * 2 * 3 + 16 * 3 * 5
    assert count_parameters(net, (8, 8, 2)) == 4 * 2 * 3 + 16 * 3 * 5
