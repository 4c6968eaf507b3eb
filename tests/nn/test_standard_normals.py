"""Initial parameters are the numbers that `jax.random.normal` draws in the same shape."""

import jax
import numpy as np
import pytest

from equitangents import nn
from equitangents.normals import standard_normal


@pytest.mark.parametrize(("shape", "dtype"), [((3, 2, 1, 5), "float32"), ((4, 3), "float64")])
def test_numbers_drawn_as_a_vector_are_those_of_the_shape_to_the_last_bit(shape, dtype):
    with jax.enable_x64(dtype == "float64"):
        found = np.asarray(standard_normal(jax.random.key(3), shape, dtype))
        np.testing.assert_array_equal(found, np.asarray(jax.random.normal(jax.random.key(3), shape, dtype)))
    assert found.dtype == dtype


def test_weights_and_biases_of_a_layer_have_keys_of_their_own():
    key = jax.random.key(0)
    params = nn.Sequential(nn.Dense(4, b_std=0.1)).init(key, (3,))
    w_key, b_key = jax.random.split(jax.random.split(key, 1)[0])
    np.testing.assert_array_equal(params[0]["w"], jax.random.normal(w_key, (3, 4)))
    np.testing.assert_array_equal(params[0]["b"], jax.random.normal(b_key, (4,)))
