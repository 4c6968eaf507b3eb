"""Closed duals in the CPU engine: what they make of a kernel, and the reference engine wherever fields go."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from equitangents import nn
from equitangents.errors import InvalidArgumentError
from equitangents.stax import own_layers
from kernels.comparison import check_cpu, largest

SMOOTH = {
    "rbf": nn.Rbf(0.4),
    "exp": nn.Exp(0.5, 0.6),
    "gaussian": nn.Gaussian(1.2, -0.6),
    "gabor": own_layers.Gabor(),
    "wave": own_layers.Wave(0.7),
    "raised": own_layers.Raised(nn.Erf(), -0.4),
    "constant": nn.Monomial(0),
    "square": nn.Monomial(2),
    "cubic": nn.Polynomial((0.3, -1.0, 0.2, 0.1)),
    "hermite": nn.Hermite(6),
    "exponential": nn.Exponential(1.3),
    "normalised": nn.LayerNorm(eps=0.1),
    "rectified square": nn.RectifiedMonomial(2),
    "rectified cube": nn.RectifiedMonomial(3),
    "rectified fifth": nn.RectifiedMonomial(5),
}
STEPS = {"sign": nn.Sign(), "step": nn.Heaviside()}
W, B = 1.3, 0.2


def inputs():
    x = np.random.default_rng(3).standard_normal((7, 6))
    x[3], x[4], x[5] = x[2], -x[2], x[2] + 1e-7 * x[1]
    return x


def dual_of(layer):
    return layer.dual if hasattr(layer, "dual") else layer.lower(_Gaussian())[0].activation


class _Gaussian:
    gaussian = True


@pytest.fixture(scope="module")
def expected():
    """(E φφ', E φ'φ') of every dual, from the covariance of the first layer, in one program."""
    x = inputs()
    k = W * x @ x.T / x.shape[1] + B
    q = np.diag(k)

    d = W * np.mean((x[:, None] - x) ** 2, axis=-1)  # angles of near-equal inputs are its roots

    def every(k, q):
        found = {name: dual_of(layer).covariance(k, q[:, None], q) for name, layer in SMOOTH.items()}
        for name, layer in STEPS.items():
            own = layer.dual.moments(q)[0]
            found[name] = (own[:, None] + own - layer.dual.pair(d, q[:, None], q)[0]) / 2, k
        return found

    with jax.enable_x64(True):
        return k, jax.tree.map(np.asarray, jax.jit(every)(k, q))


def _layers(layer):
    return nn.Dense(1, W_std=math.sqrt(W), b_std=math.sqrt(B)), layer, nn.Dense(1, W_std=0.8, b_std=0.5)


@pytest.mark.parametrize(("dtype", "allowed"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_dense_layers_have_the_closed_forms(expected, dtype, allowed):
    k, duals = expected
    for name, layer in SMOOTH.items():
        found = nn.Sequential(*_layers(layer)).kernel(inputs().astype(dtype), engine="cpu")
        value, slope = duals[name]
        nngp = 0.64 * value + 0.25
        ntk = nngp + 0.64 * k * slope
        for ours, exact in ((found.nngp, nngp), (found.ntk, ntk)):
            own = np.diag(exact)
            assert largest(ours, exact, own, own) <= allowed, name


def test_steps_have_an_nngp(expected):
    for name, layer in STEPS.items():
        found = nn.Sequential(*_layers(layer)).kernel(inputs(), engine="cpu").nngp
        assert np.max(np.abs(found - (0.64 * expected[1][name][0] + 0.25))) <= 1e-14


@pytest.mark.parametrize("layer", [nn.RectifiedMonomial(2), nn.Exponential()], ids=["rectified", "exponential"])
def test_zero_inputs_have_zero_kernels(layer):
    x = np.array([[0.0, 0.0], [1.0, 2.0]])
    found = nn.Sequential(nn.Dense(1, b_std=0), layer, nn.Dense(1, b_std=0)).kernel(x, engine="cpu")
    assert not found.nngp[0].any()
    assert not found.ntk[0].any() or isinstance(layer, nn.Exponential)
    assert np.isfinite(found.ntk).all()


def test_polynomials_beyond_the_engine_s_degree_have_no_layer():
    with pytest.raises(InvalidArgumentError, match="21"):
        nn.RectifiedMonomial(21)


def test_the_standard_parametrisation_weighs_the_kernel_before_the_layer(rng):
    """Θ = n K + [σ_b > 0] + σ_w² Θ, where K is that before the layer, also where b² is much larger than σ_w² K."""
    x = rng.standard_normal((5, 6))
    dense = [nn.Dense(n, W_std=1.3, b_std=b, parametrisation="standard") for n, b in ((8, 0.2), (1, 30.0))]
    found = nn.Sequential(dense[0], nn.Relu(), dense[1]).kernel(x, engine="cpu")
    before = x @ x.T / 6
    k = 1.69 * before + 0.04
    theta = 6 * before + 1
    r = np.sqrt(np.outer(np.diag(k), np.diag(k)))
    angle = np.arccos(np.clip(k / r, -1, 1))
    np.fill_diagonal(angle, 0)
    value = r * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    theta = theta * (np.pi - angle) / (2 * np.pi)
    exact = 8 * value + 1 + 1.69 * theta
    assert np.max(np.abs(found.nngp - (1.69 * value + 900))) <= 1e-12 * 900
    assert np.max(np.abs(found.ntk - exact)) <= 1e-12 * np.max(exact)


CONV = nn.Conv(1, 3, padding="zero", W_std=1.1, b_std=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_they_are_those_of_the_reference_engine_across_windows_branches_and_pools(rng, name):
    phi = (SMOOTH[name],)
    x = rng.standard_normal((5, 4, 6, 5))
    x[3], x[4] = x[2], -x[2]
    branch = (CONV, *phi, nn.Residual(CONV, *phi), CONV)
    # Powers of powers multiply relative errors by their degrees.
    steep = {"hermite": 1e-11, "rectified fifth": 1e-12}
    net = nn.Sequential(*branch, nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
    found, exact = (net.kernel(x, engine=engine) for engine in ("cpu", "reference"))
    for ours, theirs in ((found.nngp, exact.nngp), (found.ntk, exact.ntk)):
        assert largest(ours, theirs, np.diag(theirs), np.diag(theirs)) <= steep.get(name, 1e-12)
    if name in ("hermite", "exp"):
        return
    check_cpu(nn.Sequential(CONV, *phi, nn.AvgPool(2), CONV, *phi, nn.Flatten(), nn.Dense(1)), x)
