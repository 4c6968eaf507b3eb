"""Law: the kernels are what finite networks have on average, up to sampling error and a term of order 1/width.

Entries of one kernel matrix come from the same networks and are strongly correlated. So two figures are tested: the
kernel's overall factor against the entries' mean standard error (an upper bound of the factor's own standard error,
whatever the correlation), and the largest single deviation against a limit that holds for all entries together.
The criterion is sharp: it refuses the same kernel when that is 5 % larger or smaller.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import groups, kernels, nn, sphere
from laws.networks import small_group

n = et.nn


def agrees(mean, std_error, kernel, scale):
    """Whether the sample's factor lies within 3, and each entry within 4.5 standard errors of the kernel."""
    weight = kernel / scale**2 / np.sum((kernel / scale) ** 2)
    factor = np.sum(weight * (mean - kernel))
    bound = 3 * np.sum(np.abs(weight) * std_error)
    return abs(factor) <= bound and bool(np.all(np.abs(mean - kernel) <= 4.5 * std_error))


def assert_agrees(mean, std_error, kernel, scale):
    mean, std_error, kernel = (np.asarray(a, dtype=np.float64) for a in (mean, std_error, kernel))
    assert agrees(mean, std_error, kernel, scale), f"mean / kernel: {mean / kernel}, error {std_error / kernel}"
    for factor in (0.95, 1.05):
        assert not agrees(mean, std_error, factor * kernel, scale), f"too few samples to tell a factor {factor}"


def sampled_nngp(net, x, samples, seed):
    """The mean over outputs and samples of f(x) f(x′), with the standard error over samples."""

    def one(key):
        y = net.apply(net.init(key, x.shape[1:]), x)
        return y @ y.T / y.shape[1]

    values = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=16))(
        jax.random.split(jax.random.key(seed), samples)
    )
    values = np.asarray(values, dtype=np.float64)
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(samples)


def conv_net(width, out, *middle):
    scale = {"W_std": 1.4, "b_std": 0.3}
    return n.Sequential(n.Conv(width, (3,), **scale), n.Relu(), *middle, n.Flatten(), n.Dense(out, **scale))


def nets(width, out):
    scale = {"W_std": 1.3, "b_std": 0.3}
    group, table = small_group("S3")
    action = et.actions.permutations(group, table)

    def hidden(action, first, second, **more):
        conv = n.GroupConv(width, window=second, **more, **scale)
        return n.Lift(action, width, window=first, **more, **scale), n.Relu(), conv

    lift, weighted = (hidden(action, [0, 1, 4], [1, 2, 3], **more) for more in ({}, {"weights": [0.5, 0.1, 0.4]}))
    p4 = hidden(et.groups.wallpaper(rotations=4, reflections=False, shape=(2, 2)), (1, 2), (2, 1))
    conv = n.Conv(width, (2,), stride=2, padding="zero", **scale)
    return {
        "mlp": ((4,), n.Sequential(n.Dense(width, **scale), n.Erf(), n.Dense(width, **scale), n.Relu(), n.Dense(out))),
        "cnn, zero, stride": ((6, 1), conv_net(width, out, conv, n.Gelu())),
        "locally connected": ((3, 1), conv_net(width, out, n.LocallyConnected(width, (2,), **scale), n.Abs())),
        "pooling inside": ((6, 1), conv_net(width, out, n.AvgPool((2,)), n.Conv(width, (2,), **scale), n.Relu())),
        "residual of means": ((5, 1), conv_net(width, out, n.Residual(n.Conv(width, (2,), **scale), n.Relu()))),
        "residual": ((5, 1), conv_net(width, out, n.Conv(width, (2,)), n.Residual(n.Relu(), n.Conv(width, (3,))))),
        "S3, pooled": ((6, 2), n.Sequential(*lift, n.Erf(), n.GroupPool(), n.Dense(out, **scale))),
        "S3, flattened, weighted": ((6, 2), n.Sequential(*weighted, n.Relu(), n.Flatten(), n.Dense(out, **scale))),
        "p4": ((2, 2, 1), n.Sequential(*p4, n.Relu(), n.GroupPool(), n.Dense(out, **scale))),
    }


NAMES = list(nets(1, 1))


def _some(*often):
    """All networks, the others marked slow."""
    return [name if name in often else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


def inputs(shape, count=3):
    return np.random.default_rng(7).standard_normal((count, *shape)).astype(np.float32)


def scales(kernel):
    own = np.diag(np.asarray(kernel, dtype=np.float64))
    return np.sqrt(np.outer(own, own))


@pytest.mark.slow
@pytest.mark.parametrize("name", _some("locally connected"))
def test_outputs_have_the_nngp_for_a_covariance(name):
    # Weights of its own at every position are many numbers to draw.
    width, samples = (64, 512) if name == "locally connected" else (256, 400)
    shape, net = nets(width, 64)[name]
    x = inputs(shape)
    kernel = net.kernel(x).nngp
    assert_agrees(*sampled_nngp(net, x, samples, seed=1), kernel, scales(kernel))


@pytest.mark.slow
@pytest.mark.parametrize("name", _some("cnn, zero, stride"))
def test_gradients_have_the_ntk_for_a_mean(name):
    shape, net = nets(256, 1)[name]
    x = inputs(shape, 2)
    kernel = net.kernel(x).ntk
    sample = et.kernels.monte_carlo(net, x, x, key=jax.random.key(2), samples=100)
    assert_agrees(sample.ntk, sample.ntk_std_error, kernel, scales(kernel))


SAMPLES = 60


def harmonic_signals(n, bandlimit=2):
    c = np.random.default_rng(0).normal(size=(n, bandlimit**2, 2))
    return c * np.sqrt(4 * np.pi) / bandlimit


def assert_agrees_on_rotations(net, c, samples=SAMPLES):
    exact = net.kernel(c)
    estimate = kernels.monte_carlo(net, c, key=jax.random.key(1), samples=samples)
    for name in ("nngp", "ntk"):
        deviation = np.abs(getattr(estimate, name) - getattr(exact, name)) / getattr(estimate, f"{name}_std_error")
        assert deviation.max() <= 3, (name, deviation)


@pytest.mark.parametrize(
    ("group", "depth", "readout"),
    [
        (groups.so3(3), 1, nn.GroupPool()),
        pytest.param(groups.tetrahedral(), 2, nn.GroupPool(), marks=pytest.mark.slow),
        pytest.param(groups.so3(4), 2, nn.GroupPool(), marks=pytest.mark.slow),
        pytest.param(groups.o3(3), 2, nn.GroupPool(), marks=pytest.mark.slow),
        # A finite network cuts degrees at its group's bandlimit; at 3 the cut alone costs this one 5 % of its NTK.
        pytest.param(groups.o3(5), 2, nn.Flatten(), marks=pytest.mark.slow),
    ],
)
def test_random_networks_have_the_kernels_of_the_infinite_one(group, depth, readout):
    width = 48
    layers = [nn.SphereLift(group, width, W_std=1.3, b_std=0.2, tolerance=1e-3), nn.Erf()]
    for _ in range(1, depth):
        layers += [nn.GroupConv(width, W_std=1.2, b_std=0.1), nn.Erf()]
    assert_agrees_on_rotations(
        nn.Sequential(*layers, readout, nn.Dense(1 if readout == nn.Flatten() else 8)), harmonic_signals(2)
    )


@pytest.mark.parametrize("group", [pytest.param(groups.so3(5), marks=pytest.mark.slow), groups.octahedral()])
def test_finite_networks_are_invariant_as_far_as_they_are_sampled(group):
    # Nonlinearities leave every bandlimit: what a finite network samples is invariant up to that.
    c = harmonic_signals(2)
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
    c = harmonic_signals(2, 3)
    net = nn.Sequential(nn.SphereLift(group, 4), nn.GroupConv(4), nn.GroupConv(4), nn.GroupPool(), nn.Dense(2))
    params = net.init(jax.random.key(0), c.shape[1:], dtype="float64")
    R, run = group.random(1, seed=4)[0], jax.jit(net.apply)
    with jax.enable_x64(True):
        still, turned = run(params, c), run(params, sphere.rotate(c, R))
    assert np.allclose(still, turned, atol=1e-12)
