"""Law: finite networks with branches, masks, graphs, attention and dropout have these kernels on average.

All entries are judged at once, and what is right is refused as rarely as by three standard errors (`laws.joint`). Few
samples suffice to tell a factor 1.3; that kernels are right to the last digits is what `test_structured_kernels` shows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from laws.joint import assert_jointly

N = et.nn
RNG = np.random.default_rng(8)
X = RNG.normal(size=(3, 5, 2)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [0, 1, 1, 1, 0]], bool)
GRAPHS = et.Graphs(X, RNG.integers(0, 2, (3, 5, 5)).astype(np.float32), MASK)
SCALE = {"W_std": 1.3, "b_std": 0.3}


def nets(w, out):
    def conv(window=3, channels=w):
        return N.Conv(channels, window, padding="zero", **SCALE)

    def end(*layers):
        return (*layers, N.Flatten(), N.Dense(out, **SCALE))

    first = (conv(), N.Relu())
    return {
        "branches": (
            X,
            (*first, N.Parallel([conv(), N.Relu()], [N.Scale(0.5)], conv(1)), N.Sum(), conv(), *end(N.Erf())),
        ),
        "concatenation": (X, (*first, N.Parallel([conv(), N.Relu()], N.Identity()), N.Concatenate(), *end())),
        "normalised": (X, (conv(), N.LayerNorm(), N.Relu(), N.LayerNorm(positions=True), N.SumPool(2), *end())),
        "attention": (et.Masked(X, MASK), (*first, N.Attention(w, heads=w // 4, b_std=0.3), *end(N.Relu()))),
        "root attention": (
            X,
            (*first, N.Attention(w, heads=w, key_channels=32, scaling="root", mechanism="identity"), *end()),
        ),
        "graphs": (
            GRAPHS,
            (N.Aggregate(), N.Dense(w, **SCALE), N.Relu(), N.Aggregate(), N.GlobalSumPool(), N.Dense(out, **SCALE)),
        ),
        "dropout": (X, (*first, N.Dropout(0.5), conv(), *end(N.Relu()))),
        "exponential": (X, (conv(), N.Exponential(), *end(conv(), N.Gaussian()))),
        "sign": (X, (conv(), N.Sign(), *end(conv(), N.Heaviside()))),
    }


NAMES = list(nets(8, 1))
# No NTK; or, at a width that a test can have, a term of order 1/width beyond three standard errors (it falls with the
# width: 1.29 ± 0.14 at 32 and 1.12 ± 0.10 at 128 for root attention).
WITHOUT = ("sign", "root attention", "exponential")


VERDICTS = 2 * len(NAMES) - len(WITHOUT)


def sampled(net, x, samples, ntk):
    """Outputs' products, or NTKs, (samples, N, N), over parameters and draws of dropout."""
    shape = x.shape[1:]

    def one(key):
        params = net.init(key, shape)
        drawn = jax.random.fold_in(key, 1)
        if not ntk:
            y = net.apply(params, x, key=drawn)
            return y @ y.T / y.shape[1]
        found = jax.jacrev(lambda p: net.apply(p, x, key=drawn))(params)
        flat = jnp.concatenate([leaf.reshape((*leaf.shape[:2], -1)) for leaf in jax.tree.leaves(found)], axis=2)
        return jnp.einsum("iou,jou->ij", flat, flat) / flat.shape[1]

    keys = jax.random.split(jax.random.key(3), samples)
    return np.asarray(jax.jit(lambda k: jax.lax.map(one, k))(keys), np.float64)


def check(draws, kernel):
    for factor in (1 / 1.3, 1.3):
        assert_jointly(draws, kernel, factor, VERDICTS)


@pytest.mark.parametrize("name", [n if n == "graphs" else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_outputs_have_the_nngp_for_a_covariance(name):
    x, layers = nets(96, 32)[name]
    net = N.Sequential(*layers)
    check(sampled(net, x, 200, ntk=False), net.kernel(x).nngp)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in WITHOUT])
def test_the_mean_tangent_kernel_is_the_ntk(name):
    x, layers = nets(96, 2)[name]
    net = N.Sequential(*layers)
    check(sampled(net, x, 60, ntk=True), net.kernel(x).ntk)
