"""The normalised exponential in the CPU engine: its closed form, and the reference engine wherever fields go."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents.nn import Dense, Exponential, Sequential


def by_hand(x, gammas, w, b):
    """NNGP and NTK of dense layers with K' = √(q q') exp(γ (cos θ - 1)) between them."""
    k = w * x @ x.T / x.shape[1] + b
    theta = k.copy()
    for gamma in gammas:
        r = np.sqrt(np.outer(np.diag(k), np.diag(k)))
        factor = np.exp(gamma * (k / r - 1))
        k, theta = r * factor, theta * gamma * factor
        k = w * k + b
        theta = k + w * theta
    return k, theta


@pytest.mark.parametrize(("dtype", "allowed"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_dense_layers_have_the_closed_form(rng, dtype, allowed):
    x = rng.standard_normal((7, 6)).astype(dtype)
    x[3], x[4], x[5] = x[2], -x[2], 1e-3 * x[2]
    layers = [part for gamma in (1.0, 0.3, 2.5) for part in (Dense(1, W_std=1.2, b_std=0.2), Exponential(gamma))]
    found = Sequential(*layers, Dense(1, W_std=1.2, b_std=0.2)).kernel(x, engine="cpu")
    nngp, ntk = by_hand(x.astype(float), (1.0, 0.3, 2.5), 1.44, 0.04)
    for ours, exact in ((found.nngp, nngp), (found.ntk, ntk)):
        scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
        assert np.max(np.abs(ours - exact) / scale) <= allowed


def test_inputs_of_zeros_are_at_right_angles(rng):
    x = rng.standard_normal((3, 5))
    x[1] = 0
    found = Sequential(Dense(1), Exponential(), Dense(1)).kernel(x, engine="cpu")
    assert np.array_equal(found.nngp[1], np.zeros(3))
    assert np.isfinite(found.ntk).all()
