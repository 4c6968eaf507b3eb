"""Rings: an orthogonal representation of SO(2), the literal trigonometric sum, and images read along circles."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from equitangents.actions import ring_rotations, rotate_rings, to_rings
from equitangents.errors import InvalidArgumentError, ShapeError
from oracles.invariance import invariance_error


def literally_turned(ring, angle):
    """f(φ − α) from the trigonometric polynomial through an odd number of samples."""
    count = len(ring)
    phi = 2 * np.pi * np.arange(count) / count
    turned = np.zeros(count)
    for m in range(-(count // 2), count // 2 + 1):
        c = np.mean(ring * np.exp(-1j * m * phi))
        turned += (c * np.exp(1j * m * (phi - angle))).real
    return turned


class TestRingRotations:
    @given(n=st.integers(1, 24), half=st.integers(0, 6), seed=st.integers(0, 99))
    def test_orthogonal_representation(self, n, half, seed):
        x = np.random.default_rng(seed).normal(size=(2, 3, 2 * half + 1, 2))
        action = ring_rotations(n)
        action.verify(x)
        assert action.exact
        np.testing.assert_allclose((action.orbit(x) ** 2).sum((2, 3, 4)), [(x**2).sum((1, 2, 3))] * n)

    @given(angle=st.floats(-7, 7), half=st.integers(0, 6), seed=st.integers(0, 99))
    def test_literally(self, angle, half, seed):
        ring = np.random.default_rng(seed).normal(size=2 * half + 1)
        found = rotate_rings(ring[None, None, :, None], [angle])[0, 0, 0, :, 0]
        np.testing.assert_allclose(found, literally_turned(ring, angle), atol=1e-12)

    def test_even_number_of_angles(self):
        x = np.random.default_rng(0).normal(size=(2, 1, 8, 1))
        np.testing.assert_allclose(ring_rotations(4)(1, x), np.roll(x, 2, axis=2), atol=1e-14)
        with pytest.raises(ShapeError, match="odd number of angles"):
            ring_rotations(3)(1, x)

    def test_all_ways_to_act_agree(self):
        x = np.random.default_rng(0).normal(size=(3, 2, 7, 1)).astype(np.float32)
        action, g = ring_rotations(6), np.array([5, 0, 2])
        one_by_one = np.concatenate([action(int(k), x[i : i + 1]) for i, k in enumerate(g)])
        assert one_by_one.dtype == np.float32
        np.testing.assert_allclose(action.orbit(x)[g, np.arange(3)], one_by_one, atol=1e-6)
        np.testing.assert_allclose(action.orbit(jnp.asarray(x))[4], action(4, x), atol=1e-5)

    def test_kernels_of_dense_networks_are_invariant(self):
        x = np.random.default_rng(0).normal(size=(4, 2, 7, 1))
        net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(4, b_std=0.1), et.nn.Relu(), et.nn.Dense(1))
        assert invariance_error(net, ring_rotations(5), x) < 1e-12


class TestToRings:
    def test_turned_images_are_turned_rings(self):
        x = np.random.default_rng(0).normal(size=(2, 8, 8, 1))
        turned = to_rings(et.actions.image_rotations(4)(1, x), 3, 16)
        np.testing.assert_allclose(turned, ring_rotations(16)(4, to_rings(x, 3, 16)), atol=1e-12)

    def test_reads_a_smooth_image_where_it_should(self):
        i, j = np.indices((33, 33)) / 16 - 1
        smooth = lambda i, j: np.exp(-(i**2)) * np.cos(2 * j) + i
        found = to_rings(smooth(i, j)[None, :, :, None], 4, 9)[0, :, :, 0]
        r, phi = (np.arange(4) + 0.5)[:, None] / 4, 2 * np.pi * np.arange(9) / 9
        np.testing.assert_allclose(found, smooth(r * np.cos(phi), r * np.sin(phi)), atol=2e-3)

    def test_bad_input(self):
        with pytest.raises(ShapeError, match="images"):
            to_rings(np.zeros((8, 8)), 2, 5)
        with pytest.raises(InvalidArgumentError, match="order"):
            to_rings(np.zeros((1, 8, 8, 1)), 2, 5, order=7)
