"""Kernels of finite networks with several outputs: which output stands first, and means over them."""

import jax
import numpy as np

import equitangents as et
from equitangents.kernels.tangent import empirical_matrix

NET = et.nn.Sequential(et.nn.Dense(3), et.nn.Erf(), et.nn.Dense(3), et.nn.Erf(), et.nn.Dense(2))


def test_the_first_output_is_that_of_the_first_input(rng):
    x1, x2 = rng.normal(size=(2, 4)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    params, jacobian = NET.init(jax.random.key(0), (4,)), jax.jit(jax.jacrev(NET.apply))
    a, b = (
        np.concatenate(
            [np.asarray(p).reshape(len(x), 2, -1) for p in jax.tree.leaves(jacobian(params, x))],
            2,
        )
        for x in (x1, x2)
    )
    expected = np.einsum("iou,jpu->ijop", a, b)
    assert np.abs(expected - expected.swapaxes(2, 3)).max() > 0.01
    np.testing.assert_allclose(empirical_matrix(NET, params, x1, x2), expected, rtol=1e-4, atol=1e-5)


def test_monte_carlo_is_a_mean_over_outputs(rng):
    x = rng.normal(size=(2, 4)).astype(np.float32)
    key = jax.random.key(1)
    outputs = [np.asarray(NET.apply(NET.init(jax.random.fold_in(key, i), (4,)), x)) for i in range(3)]
    expected = np.mean([y @ y.T / 2 for y in outputs], axis=0)
    np.testing.assert_allclose(et.kernels.monte_carlo(NET, x, key=key, samples=3).nngp, expected, rtol=1e-4)
