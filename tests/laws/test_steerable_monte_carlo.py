"""Steerable networks of finite width have their kernels on average: a joint verdict over all entries."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from laws.joint import assert_jointly
from oracles.group_elements import cloud

RINGS = {"radii": (0.0, 1.0), "width": 0.7}
INPUTS = {"SO(2)": "1x0+1x1", "O(2)": "1x0e+1x0o+1x1", "SO(3)": "2x0+1x1", "O(3)": "1x0e+1x1o"}


def draws(net, x, samples):
    """The outputs' products and the tangent kernel's matrices, (samples, 2, n, n, d, d), of random networks."""

    @jax.jit
    def one(key):
        params = net.init(key, x.shape[1:], "float64")
        outputs = lambda p: net.apply(p, x).reshape((len(x), -1))
        y = outputs(params)
        jacobian = jax.jacrev(outputs)(params)
        flat = jax.numpy.concatenate([leaf.reshape((*y.shape, -1)) for leaf in jax.tree.leaves(jacobian)], axis=-1)
        return jax.numpy.stack([jax.numpy.einsum("ia,jb->ijab", y, y), jax.numpy.einsum("iau,jbu->ijab", flat, flat)])

    with jax.enable_x64(True):
        return np.stack([np.asarray(one(k)) for k in jax.random.split(jax.random.key(1), samples)])


def wide_branches():
    """Networks that branch, with inputs."""
    hidden = "64x0e+64x1"
    conv = nn.SteerableConv(hidden, **RINGS, W_std=0.8, b_std=0.2)
    dense = nn.SteerableDense("48x0+48x1", W_std=0.8, b_std=0.2)
    sphere, signals = "48x0+48x1", np.random.default_rng(6).normal(size=(2, 4, 2))
    return {
        "residual, points": (
            cloud(INPUTS["O(2)"], "O(2)", seed=5),
            nn.PointCloud("O(2)", INPUTS["O(2)"]), nn.SteerableConv(hidden, **RINGS, W_std=1.3, b_std=0.4),
            nn.Residual(nn.NormNonlinearity(), conv), nn.SteerableConv("1x0e+1x1", **RINGS), nn.SteerablePool(),
        ),
        "parallel, points": (
            cloud(INPUTS["O(2)"], "O(2)", seed=5),
            nn.PointCloud("O(2)", INPUTS["O(2)"]), nn.SteerableConv(hidden, **RINGS, W_std=1.3, b_std=0.4),
            nn.Parallel(nn.NormNonlinearity(), conv), nn.Sum(),
            nn.SteerableConv("1x0e+1x1", **RINGS), nn.SteerablePool(),
        ),
        "field": (
            cloud(INPUTS["O(2)"], "O(2)", seed=5)[:1],
            nn.PointCloud("O(2)", INPUTS["O(2)"]), nn.SteerableConv(hidden, **RINGS, W_std=1.3, b_std=0.4),
            nn.NormNonlinearity(), nn.SteerableConv("1x0e+1x1", **RINGS), nn.PointFeatures(),
        ),
        "sphere": (
            signals, nn.SphereSignal(), nn.SteerableDense(sphere, W_std=1.3, b_std=0.4),
            nn.FourierNonlinearity(nn.Relu(), samples=3), nn.SteerableDense("1x0+1x1"),
        ),
        "residual, sphere": (
            signals, nn.SphereSignal(), nn.SteerableDense(sphere, W_std=1.3, b_std=0.4),
            nn.Residual(nn.FourierNonlinearity(nn.Relu(), samples=3), dense), nn.NormNonlinearity(),
            nn.SteerableDense("1x0+1x1"),
        ),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual, points", "parallel, points", "field", "sphere", "residual, sphere"])
def test_wide_networks_with_branches_and_on_the_sphere_have_these_kernels_on_average(name):
    x, *layers = wide_branches()[name]
    net = nn.Sequential(*layers)
    exact = field_between_outputs(net, x) if name == "field" else net.kernel(x)
    found = draws(net, x, 400)
    assert_jointly(found[:, 0], exact.nngp, factor=1.5, verdicts=10)
    assert_jointly(found[:, 1], exact.ntk, factor=1.2, verdicts=10)


def field_between_outputs(net, x):
    """The field of one input as kernels between outputs, (1, 1, P D, P D)."""
    field = net.kernel_field(x)
    return et.kernels.Kernels(field.nngp.swapaxes(1, 2), field.ntk.swapaxes(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "hidden", "nonlinearity"),
    [
        ("SO(2)", "128x0+64x1", nn.GatedNonlinearity(nn.Relu(), nn.Erf())),
        ("SO(2)", "64x0+64x1", nn.FourierNonlinearity(nn.Relu(), samples=6)),
        ("O(2)", "64x0e+64x1", nn.NormNonlinearity()),
        ("SO(2)", "64x0+64x1", nn.NormNonlinearity(jax.numpy.tanh, largest=20.0)),
        ("SO(3)", "128x0+64x1", nn.GatedNonlinearity(nn.Erf(), nn.Gelu())),
        ("SO(3)", "64x0+64x1", nn.FourierNonlinearity(nn.Erf(), samples=3)),
        ("O(3)", "64x0e+64x1o", nn.NormNonlinearity()),
    ],
)
def test_wide_networks_have_these_kernels_on_average(group, hidden, nonlinearity):
    features, outputs = INPUTS[group], "1x0e+1x1o" if group == "O(3)" else ("1x1")
    net = nn.Sequential(
        nn.PointCloud(group, features),
        nn.SteerableConv(hidden, **RINGS, W_std=1.3, b_std=0.4),
        nonlinearity,
        nn.SteerableConv(outputs, **RINGS),
        nn.SteerablePool(),
    )
    x = cloud(features, group, seed=5)
    exact = net.kernel(x)
    found = draws(net, x, 400)
    assert_jointly(found[:, 0], exact.nngp, factor=1.5, verdicts=14)
    assert_jointly(found[:, 1], exact.ntk, factor=1.2, verdicts=14)
