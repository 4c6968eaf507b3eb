"""Kernels on rotations: against brute force, and by the laws that they obey."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import groups, nn, sphere
from equitangents.kernels.rotations import Accuracy, choose, closed_nodes
from oracles import literal_rotations as literal

SO3 = groups.so3
SLOW = pytest.mark.slow
PHI = {"erf": nn.Erf(), "relu": nn.Relu(), "sin": nn.Sin()}


def signals(seed, n, bandlimit, channels=2):
    c = np.random.default_rng(seed).normal(size=(n, bandlimit**2, channels))
    return c * np.sqrt(4 * np.pi) / bandlimit


def network(layers, group=None, readout=None, last=(1.1, 0.2), **accuracy):
    """`layers`: (W_std, b_std, name of the nonlinearity)."""
    found = []
    for i, (W, b, name) in enumerate(layers):
        lift = lambda W, b: nn.SphereLift(group or SO3(16), 4, W_std=W, b_std=b, **accuracy)
        found += [nn.GroupConv(4, W_std=W, b_std=b) if i else lift(W, b), PHI[name]]
    return nn.Sequential(*found, readout or nn.GroupPool(), nn.Dense(1, W_std=last[0], b_std=last[1]))


TWO = ((1.3, 0.1, "erf"), (1.2, 0.3, "erf"))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("bandlimit", "layers", "tolerance", "fine"),
    [
        (2, TWO, 1e-6, 14),
        pytest.param(2, ((1.2, 0.3, "relu"),), 1e-4, 20, marks=SLOW),
        pytest.param(3, ((1.0, 0.2, "erf"), (1.1, 0.1, "sin"), (1.0, 0.0, "erf")), 1e-5, 12, marks=SLOW),
        (5, ((1.0, 0.2, "erf"),), 1e-3, 8),
        pytest.param(8, ((0.7, 0.0, "erf"), (0.7, 0.2, "erf")), 1e-3, 11, marks=SLOW),
    ],
)
def test_full_windows_are_those_of_brute_force(bandlimit, layers, tolerance, fine):
    c = signals(0, 2, bandlimit)
    found = network(layers, tolerance=tolerance).kernel(c)
    rotations, weights = literal.rotation_rule(fine)
    assert found.error_estimate <= tolerance
    scale = {name: np.sqrt(np.diag(getattr(found, name))) for name in ("nngp", "ntk")}
    for i, j in ((0, 1), (1, 1)):
        exact = literal.kernels(c[i], c[j], layers, rotations, weights, (1.1, 0.2))
        for name, value in zip(("nngp", "ntk"), exact, strict=True):
            error = abs(getattr(found, name)[i, j] - value) / (scale[name][i] * scale[name][j])
            assert error <= 2 * tolerance


@pytest.mark.parametrize("name", ["erf", pytest.param("relu", marks=SLOW)])
def test_kernels_are_invariant_under_100_rotations(name):
    c = signals(3, 2, 4)
    layers = ((1.1, 0.2, name), (1.1, 0.1, name))
    net = network(layers, tolerance=1e-4)
    still = net.kernel(c)
    turned = sphere.rotate(c, SO3(1).random(100, seed=2)).reshape(-1, *c.shape[1:])
    for name_of in ("nngp", "ntk"):
        K = getattr(still, name_of)
        moved = getattr(net.kernel(c, turned), name_of).reshape(2, 100, 2)
        scale = np.sqrt(np.outer(np.diag(K), np.diag(K)))
        assert (np.abs(moved - K[:, None]) / scale[:, None]).max() <= 1e-4


def mlp_of(layers):
    """The network of vectors with the same layers."""
    dense = (layer for W, b, phi in layers for layer in (nn.Dense(1, W_std=W, b_std=b), PHI[phi]))
    return nn.Sequential(*dense, nn.Dense(1, W_std=1.1, b_std=0.2))


@given(st.integers(1, 4), st.integers(0, 1000), st.sampled_from(["erf", "relu"]))
@settings(max_examples=2)
def test_full_windows_average_the_kernel_of_an_mlp(bandlimit, seed, name):
    c = signals(seed, 3, bandlimit, 1)
    layers = ((1.2, 0.3, name), (0.9, 0.2, name))
    found = network(layers, tolerance=1e-4).kernel(c[:1], c[1:])
    x = c[..., 0] * np.sqrt(bandlimit**2 / (4 * np.pi))  # whose mean square is the mean square of the signal
    rotations, weights = literal.rotation_rule(14)
    turned = sphere.rotate(x[1:, :, None], rotations)[..., 0].reshape(-1, bandlimit**2)
    base = mlp_of(layers).kernel(x[:1], turned)
    for k in ("nngp", "ntk"):
        average = weights @ getattr(base, k).reshape(len(rotations), 2)
        assert np.allclose(getattr(found, k)[0], average, rtol=0, atol=3e-4 * np.abs(getattr(base, k)).max())


@given(st.integers(1, 4), st.integers(0, 1000))
@settings(max_examples=2)
def test_flattening_gives_the_mlp_itself(bandlimit, seed):
    c = signals(seed, 3, bandlimit, 1)
    found = network(TWO, readout=nn.Flatten()).kernel(c)
    exact = mlp_of(TWO).kernel(c[..., 0] * np.sqrt(bandlimit**2 / (4 * np.pi)))
    assert np.allclose(found.ntk, exact.ntk, rtol=1e-12)
    assert np.allclose(found.nngp, exact.nngp, rtol=1e-12)
    assert found.error_estimate is None


def test_finite_groups_average_over_their_elements():
    c = signals(5, 3, 3)
    G = groups.octahedral()
    pooled, flat = (network(TWO, group=G, readout=r()) for r in (nn.GroupPool, nn.Flatten))
    average = sum(flat.kernel(c, sphere.rotate(c, R)).ntk for R in G.matrices) / G.order
    found = pooled.kernel(c)
    assert np.allclose(found.ntk, average, rtol=1e-12)
    assert np.allclose(pooled.kernel(c, sphere.rotate(c, G.matrices[7])).ntk, found.ntk, rtol=1e-12)


def test_o3_is_the_parity_average_of_so3():
    c = signals(6, 3, 4)
    mirrored = sphere.rotate(c, -np.eye(3))
    rotations, full = (network(TWO, group=g(4), resolution=8) for g in (SO3, groups.o3))
    average = (rotations.kernel(c, c).ntk + rotations.kernel(c, mirrored).ntk) / 2
    assert np.allclose(full.kernel(c, c).ntk, average, rtol=1e-12)
    assert np.allclose(full.kernel(c, mirrored).ntk, average, rtol=1e-12)


@pytest.mark.parametrize("group", [SO3(3), groups.o3(3), groups.octahedral()], ids=["SO(3)", "O(3)", "octahedral"])
def test_rotations_are_closed_under_inversion_and_their_means_are_those_of_the_group(group):
    turns, weights = closed_nodes(group, 3)
    assert np.sum(weights) == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(np.einsum("n,nij->ij", weights, turns), 0, atol=1e-12)
    products = np.einsum("n,nij,nkl->ikjl", weights, turns, turns)
    np.testing.assert_allclose(products, np.multiply.outer(np.eye(3), np.eye(3)) / 3, atol=1e-12)
    gaps = np.abs(turns.mT[:, None] - turns).max(axis=(2, 3))
    assert np.max(gaps.min(axis=1)) <= 1e-12
    np.testing.assert_allclose(weights[gaps.argmin(axis=1)], weights, rtol=1e-12)


def test_a_resolution_that_is_set_has_the_error_of_one_two_thirds_as_fine():
    values = lambda r: (np.full(2, 1 - 1 / r), np.full(2, 2.0))
    found = choose(Accuracy(1e-3, resolution=6), (), values, 1, 0.0)
    assert found.error == pytest.approx((1 / 4 - 1 / 6) / (1 - 1 / 6))
    assert choose(Accuracy(1e-3, resolution=1), (), lambda r: values(2 * r), 1, 0.0).error == pytest.approx(3 / 7)


def test_layers_after_pooling():
    c = signals(7, 3, 2)
    tail = (nn.Dense(1, W_std=1.3, b_std=0.2), nn.Relu(), nn.Dense(1))
    head = (nn.SphereLift(SO3(2), 4, W_std=1.2, b_std=0.3, resolution=8), nn.Erf(), nn.GroupPool())
    found = nn.Sequential(*head, *tail).kernel(c)
    pooled = nn.Sequential(*head, nn.Dense(1)).kernel(c)  # which adds K to Θ
    K, theta = pooled.nngp, pooled.ntk - pooled.nngp
    K, theta = 1.69 * K + 0.04, 1.69 * K + 0.04 + 1.69 * theta
    root = np.sqrt(np.outer(np.diag(K), np.diag(K)))
    angle = np.arccos(np.clip(K / root, -1, 1))
    K_after = root * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    theta = K_after + theta * (np.pi - angle) / (2 * np.pi)
    off = ~np.eye(3, dtype=bool)
    assert np.allclose(found.nngp, K_after, rtol=1e-6)
    assert np.allclose(found.ntk[off], theta[off], rtol=1e-4)
    assert np.allclose(
        np.diag(found.ntk), np.diag(K_after + (pooled.ntk - pooled.nngp + pooled.nngp) * 0.845 + 0.02), rtol=1e-5
    )


def test_single_precision_and_signals_without_directions():
    c = signals(9, 4, 4)
    c[2:, 1:] = 0  # constant functions
    net = network(((1.3, 0.1, "relu"), (1.2, 0.3, "relu")), resolution=8)
    exact, single = net.kernel(c), net.kernel(c.astype(np.float32))
    assert single.ntk.dtype == np.float32
    assert np.allclose(single.ntk, exact.ntk, rtol=1e-5)
    flat = network(((1.3, 0.1, "relu"), (1.2, 0.3, "relu")), readout=nn.Flatten()).kernel(c)
    assert np.allclose(exact.ntk[2:, 2:], flat.ntk[2:, 2:], rtol=1e-12)


def test_a_tolerance_below_single_precision_is_said():
    c = signals(9, 2, 3).astype(np.float32)
    found = network(((1.3, 0.1, "relu"),), tolerance=1e-7).kernel(c)
    assert found.error_estimate > 1e-7
    assert "below the precision's own" in found.notes[0]


def test_jax_arrays_and_compiled_functions_give_the_same():
    c = signals(10, 4, 3)
    net = network(TWO, resolution=6)
    exact = net.kernel(c, c)
    with jax.enable_x64(True):
        x = jnp.asarray(c)
        assert isinstance(net.kernel(x).ntk, jax.Array)
        traced = jax.jit(lambda x: net.kernel(x, x).ntk)(x)
        own = jax.jit(lambda x: net.kernel_diagonal(x).ntk)(x)
    assert np.allclose(traced, exact.ntk, rtol=1e-10)
    assert np.allclose(own, np.diag(exact.ntk), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("same", [False, True])
def test_first_and_second_derivatives(same):
    c = signals(11, 2, 2)
    net = network(TWO[:1], resolution=3)
    directions = np.random.default_rng(0).normal(size=(2, *c.shape[1:]))

    def k(s, t):
        first, second = x[0] + s * directions[0], x[int(not same)] + t * directions[int(not same)]
        return net.kernel(first[None], second[None]).ntk[0, 0]

    with jax.enable_x64(True):
        x = jnp.asarray(c)
        slope, mixed = map(float, jax.jit(lambda t: jax.jvp(lambda t: jax.grad(k)(0.0, t), (t,), (1.0,)))(0.0))
        f = jax.jit(k)
        e = 1e-3
        assert slope == pytest.approx(float((f(e, 0.0) - f(-e, 0.0)) / (2 * e)), rel=1e-5)
        difference = float((f(e, e) - f(e, -e) - f(-e, e) + f(-e, -e)) / (4 * e * e))
    assert mixed == pytest.approx(difference, rel=1e-4)


@SLOW
def test_the_error_estimate_is_honest_and_says_the_resolution():
    c = signals(13, 3, 4)
    layers = ((1.2, 0.1, "relu"), (1.2, 0.1, "relu"))
    exact = network(layers, resolution=40).kernel(c)
    for tolerance in (1e-2, 1e-3, 1e-4):
        found = network(layers, tolerance=tolerance).kernel(c)
        error = np.abs(found.ntk - exact.ntk) / np.sqrt(np.outer(np.diag(exact.ntk), np.diag(exact.ntk)))
        assert error.max() <= 1.5 * found.error_estimate
        assert found.error_estimate <= tolerance
        assert found.resolution >= 2
    assert network(layers, resolution=2).kernel(c).error_estimate > 1e-2


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("nonlinearity", "after"),
    [
        pytest.param(nn.Erf(), (), id="Erf-"),
        pytest.param(nn.Relu(), (), id="ReLU-"),
        pytest.param(nn.Erf(), (nn.Relu(), nn.Dense(1)), id="Erf-ReLU after the mean", marks=SLOW),
        pytest.param(nn.Relu(), (nn.Relu(), nn.Dense(1)), id="ReLU-ReLU after the mean"),
    ],
)
def test_the_error_estimate_holds_however_the_signals_lie_to_the_grid(nonlinearity, after):
    for seed in range(12):
        c = np.random.default_rng(seed).normal(size=(2, 9, 1))
        turned = np.concatenate([c, *sphere.rotate(c, SO3(1).random(6, seed=seed))])
        head = (nn.SphereLift(SO3(3), 4, W_std=1.2, b_std=0.1, tolerance=1e-3), nonlinearity, nn.GroupPool())
        found = nn.Sequential(*head, nn.Dense(8), *after).kernel(turned)
        copies = found.ntk.reshape(7, 2, 7, 2)
        root = np.sqrt(np.diag(copies.mean(axis=(0, 2))))
        error = np.abs(copies - copies.mean(axis=(0, 2), keepdims=True)) / (root[:, None, None] * root)
        assert error.max() <= 1.5 * found.error_estimate


def test_the_error_estimate_is_that_of_the_hardest_signals_not_of_the_largest():
    c = np.zeros((8, 16, 1))
    c[:, 0] = 20  # constants are exact on any grid
    c[3:5] = 0.5 * signals(1, 2, 4, 1)
    layers = ((1.2, 0.1, "erf"),)
    found, exact = (network(layers, **a).kernel(c) for a in ({"tolerance": 1e-3}, {"resolution": 20}))
    root = np.sqrt(np.diag(exact.ntk))
    assert (np.abs(found.ntk - exact.ntk) / root / root[:, None]).max() <= 1.5 * found.error_estimate


def test_signals_that_are_not_known_yet_are_stood_in_for():
    net = network(TWO, tolerance=1e-3)
    found = []

    def f(x):
        k = net.kernel(x)
        found.append(k)
        return k.ntk

    jax.jit(f)(jnp.asarray(signals(0, 2, 2), jnp.float32))
    assert "random signals" in found[0].notes[0]
    assert found[0].resolution


@SLOW
def test_a_tolerance_out_of_reach_is_said(caplog):
    c = signals(14, 1, 3) * 30
    found = network(((30.0, 0.0, "erf"),), tolerance=1e-6).kernel(c)
    assert "not reached" in found.notes[0]
    assert found.error_estimate > 1e-6
    assert "not reached" in caplog.text
