"""Rotations and reflections of images against np.rot90, explicit coordinates and scipy.ndimage."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions
from equitangents.actions import splines
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from examples import examples


def images(H, W, channels=1, seed=0):
    return np.random.default_rng(seed).normal(size=(2, H, W, channels))


class TestExactTurns:
    @given(st.sampled_from([1, 2, 4]), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
    def test_is_rot90(self, n, H, W, seed):
        x = images(H, H if n == 4 else W, 2, seed)
        rot = actions.image_rotations(n)
        assert rot.exact
        assert rot.group.order == n
        for g in range(n):
            assert np.array_equal(rot(g, x), np.rot90(x, g * 4 // n, axes=(1, 2)))

    @given(st.sampled_from([1, 2, 4]), st.integers(1, 5), st.integers(1, 5))
    def test_dihedral_reflects_first(self, n, H, W):
        x = images(H, H if n == 4 else W)
        action = actions.image_dihedral(n)
        for g in action.group:
            k, f = action.group.element(g)
            assert np.array_equal(action(g, x), np.rot90(x[:, :, ::-1] if f else x, k * 4 // n, axes=(1, 2)))


class TestResampledTurns:
    @given(st.integers(1, 5), st.sampled_from([3, 8, 12, 5]), st.integers(2, 9), st.data())
    def test_is_what_scipy_computes(self, order, n, size, data):
        g = data.draw(st.integers(0, n - 1).filter(lambda g: 4 * g % n))
        x = images(size, size, 2, seed=size)
        angle, centre = 2 * np.pi * g / n, (size - 1) / 2
        # output (i, j) reads the input at the point turned clockwise
        M = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        offset = centre - M @ [centre, centre]
        # a margin in the comparison only: SciPy drops points that rounding puts outside the image
        points = np.einsum("ij,jkl->ikl", M, np.indices((size, size)).astype(float)) + offset[:, None, None]
        on_border = (np.abs(np.abs(points - centre) - centre) < 1e-9).any(axis=0)
        expected = np.stack(
            [
                [scipy.ndimage.affine_transform(x[b, :, :, c], M, offset, order=order) for c in range(2)]
                for b in range(2)
            ]
        ).transpose(0, 2, 3, 1)
        turned = actions.image_rotations(n, order=order)(g, x)
        np.testing.assert_allclose(turned[:, ~on_border], expected[:, ~on_border], atol=1e-12)

    @examples(3, random=6)
    @given(st.integers(0, 5), st.sampled_from([8, 12, 3]), st.integers(2, 6), st.sampled_from([None, "circle"]))
    def test_jax_has_the_same_numbers(self, order, n, size, mask):
        x = images(size, size)
        rot = actions.image_rotations(n, order=order, mask=mask)
        with jax.enable_x64(True):
            orbit = jax.jit(rot.orbit)(jnp.asarray(x))
            assert orbit.dtype == np.float64
        np.testing.assert_allclose(orbit, rot.orbit(x), atol=1e-13)
        np.testing.assert_allclose(jax.jit(lambda x: rot(1, x))(x.astype("f4")), rot(1, x), atol=1e-4)

    @pytest.mark.parametrize("n", [8, 12, 16])
    def test_quarter_turns_among_them_are_exact(self, n):
        x = images(5, 5)
        for k in range(4):
            assert np.array_equal(actions.image_rotations(n)(k * n // 4, x), np.rot90(x, k, axes=(1, 2)))

    def test_order_zero_takes_pixels(self):
        x = images(7, 7)
        assert set(actions.image_rotations(8, order=0)(1, x).ravel()) <= {0.0, *x.ravel()}

    def test_is_not_exact_and_measures_it(self):
        i, j = np.indices((17, 17)) - 8.0
        x = np.exp(-(i**2 + (j - 1) ** 2) / 4)[None, :, :, None]
        lost = [actions.image_rotations(8, order=order).resampling_error(x) for order in (1, 3, 5)]
        assert not actions.image_rotations(8).exact
        assert "resampled" in repr(actions.image_rotations(8))
        assert lost[1].shape == (8, 1)
        assert lost[0].max() > 10 * lost[1].max() > 50 * lost[2].max()
        np.testing.assert_allclose(lost[1][::2], 0, atol=1e-15)
        forth_and_back = actions.image_rotations(8)(7, actions.image_rotations(8)(1, x))
        assert lost[1][1, 0] == pytest.approx(np.linalg.norm(forth_and_back - x) / np.linalg.norm(x))


class TestMask:
    @pytest.mark.parametrize("size", [1, 2, 5, 8])
    def test_every_element_shows_the_same_pixels(self, size):
        rot = actions.image_rotations(8, mask="circle")
        shown = rot.orbit(np.ones((1, size, size, 1)))[:, 0, :, :, 0] != 0
        for i, j in np.ndindex(size, size):
            inside = np.hypot(i - (size - 1) / 2, j - (size - 1) / 2) <= (size - 1) / 2 + 1e-12
            assert (shown[:, i, j] == inside).all()

    def test_composes_exactly_for_quarter_turns(self):
        x, rot = images(6, 6), actions.image_rotations(4, mask="circle")
        assert not rot.exact
        for g in range(4):
            for h in range(4):
                assert np.array_equal(rot(g, rot(h, x)), rot((g + h) % 4, x))


@pytest.mark.parametrize("mask", [None, "circle"])
def test_resampled_reflections_come_before_turns(mask):
    x = np.random.default_rng(3).normal(size=(2, 7, 7, 2))
    action, turns = actions.image_dihedral(8, mask=mask), actions.image_rotations(8, mask=mask)
    assert (action.group.order, action.exact, action.angle(9)) == (16, False, None)
    orbit = np.asarray(action.orbit(x))
    for k in range(8):
        np.testing.assert_allclose(orbit[k], turns(k, x), atol=1e-12)
        np.testing.assert_allclose(orbit[8 + k], turns(k, x[:, :, ::-1]), atol=1e-12)
    np.testing.assert_allclose(action.in_numpy()(11, x), orbit[11], atol=1e-12)


class TestBadInput:
    def test_constructors(self):
        with pytest.raises(InvalidArgumentError, match="n is 0"):
            actions.image_rotations(0)
        with pytest.raises(InvalidTypeError, match="n is '4'"):
            actions.image_rotations("4")
        with pytest.raises(InvalidArgumentError, match="order is 6; expected a spline order from 0 to 5"):
            actions.image_rotations(8, order=6)
        with pytest.raises(InvalidArgumentError, match="mask is 'square'"):
            actions.image_rotations(8, mask="square")
        with pytest.raises(InvalidArgumentError, match="n is 0"):
            actions.image_dihedral(0)

    @pytest.mark.parametrize(
        "action", [actions.image_rotations(4), actions.image_rotations(8), actions.image_dihedral(8)]
    )
    def test_images(self, action):
        with pytest.raises(ShapeError, match=r"x has images of shape .*; expected square images"):
            action(1, np.zeros((1, 4, 5, 1)))
        with pytest.raises(ShapeError, match="x has rank 3"):
            action(1, np.zeros((4, 4, 1)))
        with pytest.raises(InvalidTypeError, match="x has dtype complex128"):
            action(1, np.zeros((1, 4, 4, 1), complex))


def test_halfway_between_two_points_the_second_is_read_whatever_the_rounding():
    halves = np.arange(7) + 0.5
    for moved in (halves, np.nextafter(halves, -1), np.nextafter(halves, 9), halves - 1e-12):
        index, weights = splines.taps(0, moved, 9)
        np.testing.assert_array_equal(index[0], np.arange(7) + 1)
        np.testing.assert_array_equal(weights, 1)
