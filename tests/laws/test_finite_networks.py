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
    lift = [n.Lift(action, width, window=[0, 1, 4], **scale), n.Relu(), n.GroupConv(width, window=[1, 2, 3], **scale)]
    plane = et.groups.wallpaper(rotations=4, reflections=False, shape=(2, 2))
    profile = [0.5, 0.1, 0.4]
    return {
        "mlp": ((4,), n.Sequential(n.Dense(width, **scale), n.Erf(), n.Dense(width, **scale), n.Relu(), n.Dense(out))),
        "cnn, zero, stride": (
            (6, 1),
            conv_net(width, out, n.Conv(width, (2,), stride=2, padding="zero", **scale), n.Gelu()),
        ),
        "locally connected": ((3, 1), conv_net(width, out, n.LocallyConnected(width, (2,), **scale), n.Abs())),
        "pooling inside": ((6, 1), conv_net(width, out, n.AvgPool((2,)), n.Conv(width, (2,), **scale), n.Relu())),
        "residual of means": ((5, 1), conv_net(width, out, n.Residual(n.Conv(width, (2,), **scale), n.Relu()))),
        "residual": ((5, 1), conv_net(width, out, n.Conv(width, (2,)), n.Residual(n.Relu(), n.Conv(width, (3,))))),
        "S3, pooled": ((6, 2), n.Sequential(*lift, n.Erf(), n.GroupPool(), n.Dense(out, **scale))),
        "S3, flattened, weighted": (
            (6, 2),
            n.Sequential(
                n.Lift(action, width, window=[0, 1, 4], weights=profile, **scale),
                n.Relu(),
                n.GroupConv(width, window=[1, 2, 3], weights=profile, **scale),
                n.Relu(),
                n.Flatten(),
                n.Dense(out, **scale),
            ),
        ),
        "p4": (
            (2, 2, 1),
            n.Sequential(
                n.Lift(plane, width, window=(1, 2), **scale),
                n.Relu(),
                n.GroupConv(width, window=(2, 1), **scale),
                n.Relu(),
                n.GroupPool(),
                n.Dense(out, **scale),
            ),
        ),
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


def test_the_empirical_ntk_is_a_product_of_gradients():
    shape = (4, 2)
    net = n.Sequential(n.Conv(4, (2,), b_std=0.3), n.Erf(), n.Flatten(), n.Dense(3))
    x1, x2 = inputs(shape), inputs(shape, 5)[3:]
    params = net.init(jax.random.key(3), shape)
    jacobian = jax.jit(jax.jacrev(net.apply))
    flat = [
        np.concatenate([np.asarray(leaf).reshape(len(x), 3, -1) for leaf in jax.tree.leaves(jacobian(params, x))], -1)
        for x in (x1, x2)
    ]
    expected = np.einsum("iop,jop->ij", *flat) / 3
    np.testing.assert_allclose(et.kernels.empirical(net, params, x1, x2), expected, rtol=1e-4, atol=1e-5)


def test_the_criterion_is_sharp():
    # 200 networks whose kernels have 10 % spread and a common factor: fine as they are, refused when 5 % off.
    rng = np.random.default_rng(8)
    kernel = np.array([[2.0, 0.4], [0.4, 1.0]])
    samples = kernel * (1 + 0.1 * rng.standard_normal((200, 1, 1)))
    assert_agrees(samples.mean(0), samples.std(0) / np.sqrt(200), kernel, scales(kernel))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["S3, pooled", "p4"])
def test_group_convolutional_networks_of_width_256(name):
    shape, net = nets(256, 1)[name]
    x = inputs(shape, 4)
    sample = et.kernels.monte_carlo(net, x, x, key=jax.random.key(4), samples=200)
    kernel = net.kernel(x)
    assert_agrees(sample.ntk, sample.ntk_std_error, kernel.ntk, scales(kernel.ntk))
    # One output a network: 200 samples tell the covariance to 10 %, so that only agreement can be asked.
    scale = scales(kernel.nngp)
    assert agrees(np.asarray(sample.nngp), np.asarray(sample.nngp_std_error), np.asarray(kernel.nngp), scale)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_difference_falls_with_the_width(name):
    shape, _ = nets(1, 1)[name]
    x = inputs(shape)
    errors = []
    for width in (8, 512):
        net = nets(width, 64)[name][1]
        kernel = np.asarray(net.kernel(x).nngp)
        one = jax.jit(lambda key, net=net: net.apply(net.init(key, x.shape[1:]), x))
        y = np.stack([one(key) for key in jax.random.split(jax.random.key(5), 100)])
        spread = np.einsum("smo,sno->smn", y, y) / y.shape[-1] - kernel
        errors.append(np.sqrt(np.mean((spread / scales(kernel)) ** 2)))
    assert errors[1] < 0.75 * errors[0]
