"""Resizing, grey values, and inputs out of distribution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equitangents_studies.data as data
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents_studies.data.images import area_weights


class TestResize:
    @given(st.integers(1, 20), st.integers(1, 20))
    def test_rows_sum_to_one_and_columns_are_even(self, size_in, size_out):
        weights = area_weights(size_in, size_out)
        np.testing.assert_allclose(weights.sum(1), 1)
        np.testing.assert_allclose(weights.sum(0), size_out / size_in)

    def test_whole_factor_is_a_block_mean(self):
        x = np.random.default_rng(0).random((3, 12, 8, 2))
        expected = x.reshape(3, 4, 3, 4, 2, 2).mean(axis=(2, 4))
        np.testing.assert_allclose(data.resize(x, (4, 4)), expected, atol=1e-12)

    def test_commutes_with_quarter_turns(self):
        x = np.random.default_rng(0).random((3, 13, 13, 1))
        turned = np.rot90(x, axes=(1, 2))
        np.testing.assert_allclose(data.resize(turned, (5, 5)), np.rot90(data.resize(x, (5, 5)), axes=(1, 2)))

    def test_wrong_rank(self):
        with pytest.raises(ShapeError):
            data.resize(np.zeros((3, 3)), (2, 2))


class TestConform:
    def test_colour_to_grey(self):
        x = np.random.default_rng(0).random((2, 4, 4, 3))
        expected = 0.299 * x[..., 0] + 0.587 * x[..., 1] + 0.114 * x[..., 2]
        np.testing.assert_allclose(data.conform(x, (4, 4, 1))[..., 0], expected)

    def test_grey_to_colour(self):
        x = np.random.default_rng(0).random((2, 4, 4, 1))
        np.testing.assert_array_equal(data.conform(x, (4, 4, 3)), np.repeat(x, 3, axis=-1))

    def test_wrong_channels(self):
        with pytest.raises(InvalidArgumentError):
            data.conform(np.zeros((2, 4, 4, 1)), (4, 4, 2))


class TestOutOfDistribution:
    def test_noise_is_normal_and_seeded(self):
        x = data.gaussian_noise(200, (8, 8, 1), seed=3, mean=0.5, std=2.0)
        assert x.dtype == np.float32
        assert abs(x.mean() - 0.5) < 0.1
        assert abs(x.std() - 2.0) < 0.1
        np.testing.assert_array_equal(x, data.gaussian_noise(200, (8, 8, 1), seed=3, mean=0.5, std=2.0))

    def test_patches_are_varied_images(self):
        x = data.photo_patches(40, (8, 8, 1), seed=0)
        assert x.shape == (40, 8, 8, 1)
        assert x.min() >= 0
        assert x.max() <= 1
        assert (x.std(axis=(1, 2, 3)) > 0.02).all()
        assert len(np.unique(x.reshape(40, -1), axis=0)) == 40
        np.testing.assert_array_equal(x, data.photo_patches(40, (8, 8, 1), seed=0))

    def test_patches_in_colour_at_another_size(self):
        assert data.photo_patches(3, (28, 28, 3)).shape == (3, 28, 28, 3)

    def test_bad_arguments(self):
        with pytest.raises(InvalidArgumentError, match="square"):
            data.photo_patches(3, (8, 9, 1))
        with pytest.raises(InvalidArgumentError, match="at most"):
            data.photo_patches(3, (1000, 1000, 1))
        with pytest.raises(InvalidArgumentError, match="count is 0"):
            data.gaussian_noise(0, (8, 8, 1))
