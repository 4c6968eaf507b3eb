"""Random finite networks on rotations have the kernels of the infinite ones."""

import jax
import numpy as np
import pytest

from equitangents import groups, kernels, nn, sphere

SAMPLES = 60


def signals(n, bandlimit=2):
    c = np.random.default_rng(0).normal(size=(n, bandlimit**2, 2))
    return c * np.sqrt(4 * np.pi) / bandlimit


def bump(t):
    return np.exp(2 * (t - 1))


def agrees(net, c, samples=SAMPLES):
    exact = net.kernel(c)
    estimate = kernels.monte_carlo(net, c, key=jax.random.key(1), samples=samples)
    for name in ("nngp", "ntk"):
        deviation = np.abs(getattr(estimate, name) - getattr(exact, name)) / getattr(estimate, f"{name}_std_error")
        assert deviation.max() <= 3, (name, deviation)


@pytest.mark.parametrize(
    ("group", "windows", "readout"),
    [
        (groups.so3(3), ("full",), nn.GroupPool()),
        pytest.param(groups.tetrahedral(), ("full", "full"), nn.GroupPool(), marks=pytest.mark.slow),
        pytest.param(groups.so3(4), ("full", "full"), nn.GroupPool(), marks=pytest.mark.slow),
        pytest.param(groups.so3(4), (bump, bump), nn.GroupPool(), marks=pytest.mark.slow),
        pytest.param(groups.so3(4), (bump, bump), nn.Flatten(), marks=pytest.mark.slow),
        pytest.param(groups.so3(4), (bump, "full"), nn.GroupPool(), marks=pytest.mark.slow),
        pytest.param(groups.o3(3), ("full", "full"), nn.GroupPool(), marks=pytest.mark.slow),
        # A finite network cuts degrees at its group's bandlimit; at 3 the cut alone costs this one 5 % of its NTK.
        pytest.param(groups.o3(5), (bump, bump), nn.Flatten(), marks=pytest.mark.slow),
    ],
)
def test_random_networks_have_the_kernels_of_the_infinite_one(group, windows, readout):
    width = 48
    layers = [nn.SphereLift(group, width, window=windows[0], W_std=1.3, b_std=0.2, tolerance=1e-3), nn.Erf()]
    for window in windows[1:]:
        layers += [nn.GroupConv(width, window=window, W_std=1.2, b_std=0.1), nn.Erf()]
    agrees(nn.Sequential(*layers, readout, nn.Dense(1 if readout == nn.Flatten() else 8)), signals(2))


@pytest.mark.parametrize("group", [pytest.param(groups.so3(5), marks=pytest.mark.slow), groups.octahedral()])
def test_finite_networks_are_invariant_as_far_as_they_are_sampled(group):
    # Nonlinearities leave every bandlimit: what a finite network samples is invariant up to that.
    c = signals(2)
    net = nn.Sequential(
        nn.SphereLift(group, 8, W_std=0.7), nn.Erf(), nn.GroupConv(8, W_std=0.7), nn.Erf(), nn.GroupPool(), nn.Dense(3)
    )
    params = net.init(jax.random.key(0), c.shape[1:], dtype="float64")
    finite = isinstance(group, groups.MatrixGroup)
    R = group.matrices[5] if finite else group.random(1, seed=4)[0]
    run = jax.jit(net.apply)
    with jax.enable_x64(True):
        still, turned = run(params, c), run(params, sphere.rotate(c, R))
    assert np.abs(still - turned).max() <= (1e-12 if finite else 2e-3) * np.abs(still).max()


@pytest.mark.parametrize("group", [groups.so3(3), pytest.param(groups.o3(3), marks=pytest.mark.slow)])
def test_linear_networks_are_invariant_exactly(group):
    c = signals(2, 3)
    net = nn.Sequential(
        nn.SphereLift(group, 4, window=bump), nn.GroupConv(4, window=bump), nn.GroupConv(4), nn.GroupPool(), nn.Dense(2)
    )
    params = net.init(jax.random.key(0), c.shape[1:], dtype="float64")
    R, run = group.random(1, seed=4)[0], jax.jit(net.apply)
    with jax.enable_x64(True):
        still, turned = run(params, c), run(params, sphere.rotate(c, R))
    assert np.allclose(still, turned, atol=1e-12)
