"""Law: kernels of any function of parameters are products of its derivatives, whichever way they are computed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.functional import batch, ntk_vector_product

RNG = np.random.default_rng(0)
X, OTHER = RNG.normal(size=(4, 3)).astype(np.float32), RNG.normal(size=(2, 3)).astype(np.float32)
PARAMS = {"w": RNG.normal(size=(3, 5)).astype(np.float32), "v": RNG.normal(size=(5, 2)).astype(np.float32)}


def f(params, x):
    """Not a network of this package."""
    return jnp.tanh(x @ params["w"]) @ params["v"]


def literal(x1, x2):
    """∂f/∂w and ∂f/∂v by hand, (N, outputs, parameters)."""

    def jacobian(x):
        h = np.tanh(x @ PARAMS["w"])
        dw = np.einsum("na,nh,ho->noah", x, 1 - h**2, PARAMS["v"]).reshape(len(x), 2, -1)
        dv = np.einsum("nh,op->nohp", h, np.eye(2)).reshape(len(x), 2, -1)
        return np.concatenate([dw, dv], axis=2)

    return np.einsum("iou,jpu->ijop", jacobian(x1), jacobian(x2))


@pytest.mark.parametrize("implementation", ["jacobians", "vectors"])
def test_both_ways_give_the_product_of_derivatives(implementation):
    full = literal(X, OTHER)
    forms = {
        (): (full, ()),
        (-1,): (np.einsum("ijoo->ij", full) / 2, ()),
        "each": (np.einsum("ijoo->ijo", full), (-1,)),
    }
    for trace, (expected, diagonal) in forms.items():
        fn = et.empirical_ntk_fn(f, () if trace == "each" else trace, diagonal, implementation=implementation)
        assert np.allclose(fn(X, OTHER, PARAMS), expected, rtol=1e-5, atol=1e-5)


def test_products_with_vectors_hold_no_jacobian():
    v = RNG.normal(size=(2, 2)).astype(np.float32)
    expected = np.einsum("ijop,jp->io", literal(X, OTHER), v)
    assert np.allclose(ntk_vector_product(f, PARAMS, X, OTHER, v), expected, rtol=1e-5, atol=1e-5)


def test_a_linearisation_and_expansions_are_taylors():
    moved = {name: value + 0.1 for name, value in PARAMS.items()}
    step = jnp.float32(1e-2)

    def along(t):
        return f({n: p + t * (moved[n] - p) for n, p in PARAMS.items()}, X)

    slope = (along(step) - along(-step)) / (2 * step)
    assert np.allclose(et.linearize(f, PARAMS)(moved, X), f(PARAMS, X) + slope, atol=2e-3)
    errors = [np.abs(et.taylor_expand(f, PARAMS, n)(moved, X) - f(moved, X)).max() for n in range(4)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2] > 32 * errors[3]


def test_monte_carlo_of_stax_triples_comes_near_the_kernel():
    init_fn, apply_fn, kernel_fn = et.stax.serial(et.stax.Dense(256), et.stax.Relu(), et.stax.Dense(16))
    estimate = et.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), [2, 8])
    first, last = estimate(X, None, ("nngp", "ntk"))
    exact = kernel_fn(X, None, ("nngp", "ntk"))
    for name in ("nngp", "ntk"):
        error = [np.abs(getattr(k, name) - getattr(exact, name)).max() for k in (first, last)]
        assert error[1] <= 0.15 * np.abs(getattr(exact, name)).max()


def test_blocks_join_to_the_whole():
    _, _, kernel_fn = et.stax.serial(et.stax.Dense(4), et.stax.Relu(), et.stax.Dense(1))
    whole, parts = kernel_fn(X, OTHER, ("nngp", "ntk")), batch(kernel_fn, 3)(X, OTHER, ("nngp", "ntk"))
    assert np.allclose(parts.ntk, whole.ntk, rtol=1e-6)
    assert np.allclose(parts.nngp, whole.nngp, rtol=1e-6)


def test_outputs_of_another_shape_are_refused():
    with pytest.raises(et.errors.ShapeError, match="outputs"):
        et.empirical_ntk_fn(lambda p, x: f(p, x)[:, 0])(X, None, PARAMS)
    with pytest.raises(NotImplementedError, match="implementation"):
        et.empirical_ntk_fn(f, implementation=3)
