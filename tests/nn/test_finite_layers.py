"""Finite layers against sums written out, also where symmetric windows and one draw of parameters hide a mistake."""

import math

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.nn.layer import OnGroup, Signal
from equitangents.precision import standard_normal
from equitangents.sphere import wigner
from oracles.literal_kernels import grid_reads

KEY = jax.random.key(3)
SO3 = et.groups.so3(3)
S3 = et.groups.symmetric(3)
ON_S3 = et.actions.permutations(S3, S3.table)


def run(*layers, x):
    """Outputs in double precision, as one program, and the parameters of layers that have any."""
    net = nn.Sequential(*layers)
    params = net.init(KEY, x.shape[1:], dtype="float64")
    with jax.enable_x64(True):
        y = np.asarray(jax.jit(net.apply)(params, x))
    return y, [{k: np.asarray(v) for k, v in p.items()} for p in params if isinstance(p, dict)]


@pytest.mark.parametrize("make", [nn.Conv, nn.LocallyConnected])
@pytest.mark.parametrize(
    ("shape", "window", "stride", "padding"),
    [
        ((5,), (2,), (1,), "zero"),
        ((6, 5), (3, 2), (2, 1), "circular"),
        ((6, 5), (4, 3), (1, 3), "zero"),
        ((5, 6), (2, 3), (2, 2), "valid"),
        pytest.param((3, 4, 2), (2, 3, 1), (1, 2, 1), "circular", marks=pytest.mark.slow),
    ],
)
def test_convolution_is_the_sum_over_its_window(shape, window, stride, padding, make, rng):
    x = rng.standard_normal((2, *shape, 3))
    y, (params,) = run(make(4, window, stride, padding, W_std=1.3, b_std=0.7), x=x)
    out, reads = grid_reads(shape, window, stride, padding)
    seen = np.concatenate([x.reshape(2, -1, 3), np.zeros((2, 1, 3))], axis=1)[:, reads].reshape(2, len(reads), -1)
    of_each = () if make is nn.Conv else (len(reads),)
    w = params["w"].reshape(*of_each, -1, 4) * 1.3 / np.sqrt(3 * np.prod(window))
    expected = np.einsum("npa,pad->npd", seen, np.broadcast_to(w, (len(reads), *w.shape[-2:]))) + 0.7 * params["b"]
    np.testing.assert_allclose(y, expected.reshape(2, *out, 4), rtol=1e-12, atol=1e-12)


def test_means_sums_and_flattening(rng):
    x = rng.standard_normal((2, 5, 4, 3))
    np.testing.assert_allclose(run(nn.GlobalAvgPool(), x=x)[0], x.mean(axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(run(nn.Flatten(), x=x)[0], x.reshape(2, -1), rtol=1e-6)
    blocks = x[:, :4, :3].reshape(2, 2, 2, 1, 3, 3)
    np.testing.assert_allclose(run(nn.SumPool((2, 3)), x=x)[0], blocks.sum((2, 4)), rtol=1e-6)


def test_residual_adds_its_input(rng):
    x = rng.standard_normal((3, 4))
    y, _ = run(nn.Residual(nn.Dense(4), nn.Relu()), x=x)
    params = nn.Sequential(nn.Residual(nn.Dense(4), nn.Relu())).init(KEY, (4,), dtype="float64")
    inner = np.asarray(nn.Sequential(nn.Dense(4), nn.Relu()).apply(params[0], x))
    np.testing.assert_allclose(y, x + inner, rtol=1e-12)


def test_lift_and_group_convolution_are_sums_over_the_group(rng):
    table, x, profile = np.asarray(S3.table), rng.standard_normal((2, 6, 3)), np.array([1.0, 2.0, 3.0])
    y, (params,) = run(nn.Lift(ON_S3, 4, window=[0, 2, 5], weights=profile, W_std=1.2), x=x)
    weighted = params["w"] * np.sqrt(profile / profile.sum())[:, None, None] * 1.2 / np.sqrt(3)
    for g in range(6):
        total = sum(x[:, table[g, p]] @ w for p, w in zip([0, 2, 5], weighted, strict=True))
        np.testing.assert_allclose(y[:, g], total, rtol=1e-12)
    z, (first, params) = run(nn.Lift(ON_S3, 4), nn.GroupConv(5, window=[1, 4], W_std=0.8, b_std=0.3), x=x)
    lifted = np.stack([sum(x[:, at] @ w for at, w in zip(row, first["w"], strict=True)) for row in table], axis=1)
    for g in range(6):
        total = sum(lifted[:, S3.compose(g, h)] @ params["w"][s] for s, h in enumerate([1, 4]))
        np.testing.assert_allclose(z[:, g], total * 0.8 / np.sqrt(6 * 3 * 4 * 2) + 0.3 * params["b"], rtol=1e-11)


@pytest.mark.parametrize("width", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_boxes_of_even_width_reach_further_to_the_high_side(width, rng):
    x = rng.standard_normal((2, 5, 5, 3))
    y, (params,) = run(nn.Lift(et.groups.translations((5, 5)), 4, (1, width)), x=x)
    low = (width - 1) // 2
    expected = sum(np.roll(x, low - u, axis=2) @ params["w"][u] for u in range(width)) / np.sqrt(3 * width)
    np.testing.assert_allclose(y, expected.reshape(2, 25, 4), rtol=1e-11, atol=1e-12)


def test_windows_of_many_elements_and_channels_are_the_same_sum(rng):
    group = et.groups.translations((6, 6))
    x = rng.standard_normal((2, 6, 6, 30))  # 36 · 30 numbers in a window: more than are multiplied at once
    y, (params,) = run(nn.Lift(group, 2), x=x)
    first = sum(x[:, i, j] @ params["w"][6 * i + j] for i in range(6) for j in range(6)) / np.sqrt(36 * 30)
    np.testing.assert_allclose(y[:, group.identity], first, rtol=1e-10)


def test_rotations_of_a_window_are_numbered_after_reflections(rng):
    group = et.groups.wallpaper(rotations=4, reflections=True, shape=(3, 3))
    net = nn.Sequential(nn.Lift(group, 2), nn.GroupConv(3, (1, 1), rotations=[(2, 1), (1, 0)]))
    x = rng.standard_normal((2, 3, 3, 2))
    params = net.init(KEY, x.shape[1:], dtype="float64")
    lifted = np.asarray(nn.Sequential(net.layers[0]).apply(params[:1], x))
    chosen, w = [group.index(2, 1, (0, 0)), group.index(1, 0, (0, 0))], np.asarray(params[1]["w"])
    for g in (0, 13, group.order - 1):
        expected = sum(lifted[:, group.compose(g, h)] @ w[s] for s, h in enumerate(chosen)) / np.sqrt(2 * 2)
        np.testing.assert_allclose(np.asarray(net.apply(params, x))[:, g], expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("reflections", [False, True])
def test_finite_group_convolutional_networks_are_invariant(reflections, rng):
    group = et.groups.wallpaper(rotations=4, reflections=reflections, shape=(5, 5))
    layers = nn.Lift(group, 6, (3, 3)), nn.Relu(), nn.GroupConv(6, (2, 3)), nn.Relu(), nn.GroupPool(), nn.Dense(2)
    x = rng.standard_normal((2, 5, 5, 2))
    for g in (1, 30, group.order - 1):
        moved = et.actions.grid(group)(g, x)
        assert np.abs(moved - x).max() > 0.1
        np.testing.assert_allclose(run(*layers, x=moved)[0], run(*layers, x=x)[0], rtol=1e-10)


def test_pooling_over_cosets_keeps_the_network_equivariant(rng):
    inside = S3.subgroup([S3.identity, next(g for g in range(6) if g and S3.compose(g, g) == S3.identity)])
    x, cosets = rng.standard_normal((2, 6, 2)), inside.left_cosets
    y, moved = (
        [run(nn.Lift(ON_S3, 5), nn.Relu(), nn.GroupPool(inside), x=v)[0] for v in of]
        for of in ([x], [ON_S3(g, x) for g in range(6)])
    )
    for g in range(6):
        at = [cosets[S3.compose(S3.inverse(g), element)] for element in range(6)]
        np.testing.assert_allclose(moved[g][:, cosets], y[0][:, at], rtol=1e-10)


# Rotations --------------------------------------------------------------------------------------------------------

DIMENSION = np.repeat([1.0, 3.0], [1, 9])  # 2l + 1 of every entry of D^0 and D^1


def test_the_mean_over_rotations_keeps_degree_zero_alone(rng):
    x = rng.standard_normal((2, 9, 3))
    x[:, 0] = 0
    assert np.abs(run(nn.SphereLift(SO3, 4), x=x)[0]).max() > 0.1
    assert np.max(np.abs(run(nn.SphereLift(SO3, 4), nn.GroupPool(), x=x)[0])) <= 1e-12


def test_flattened_rotations_have_the_mean_square_of_the_haar_measure():
    """Which the coefficients have, too: Σ_mn c_m c_m' δ/(2l + 1) of each degree."""
    x, other = np.zeros((2, 1, 9, 1))
    x[0, 6, 0], other[0, 4:, 0] = 1.0, np.sqrt(0.2)  # of degree 2; the other one is as long, turned
    flat, (params,) = run(nn.SphereLift(SO3, 4), nn.Flatten(), x=x)
    turned, _ = run(nn.SphereLift(SO3, 4), nn.Flatten(), x=other)
    filters = params["w"][4:, 0] / np.sqrt(4 * np.pi)
    np.testing.assert_allclose((turned**2).sum(), (flat**2).sum(), rtol=1e-10)
    np.testing.assert_allclose((flat**2).sum() / SO3.order / (filters**2).sum(), 1 / 5, rtol=1e-10)


def functions(matrices):
    """(2l + 1) D^l_mn at rotations (..., 3, 3)."""
    flat = [d.reshape(-1, d.shape[-1] ** 2) for d in wigner(matrices.reshape(-1, 3, 3), 2)]
    return DIMENSION * np.concatenate(flat, axis=1).reshape(*matrices.shape[:-2], 10)


@pytest.mark.parametrize("make", [et.groups.so3, et.groups.o3])
def test_convolutions_on_rotations_are_the_mean_of_moved_signals_times_the_filter(make, rng):
    group, proper = make(2), et.groups.so3(2)
    conv = nn.GroupConv(2, W_std=1.3)
    params = {"w": rng.normal(size=(group.order // proper.order, 10, 3, 2)), "b": np.zeros(2)}
    filters = 1.3 / np.sqrt(3) * params["w"] / np.sqrt(DIMENSION)[:, None, None]
    R = proper.matrices
    moved, here = functions(R[:, None] @ R[None]), functions(R)

    def literal(F, G):
        signals, values = np.einsum("rsi,zic->zrsc", moved, F), np.einsum("si,icd->scd", here, G)
        return np.einsum("s,scd,zrsc->zrd", proper.weights, values, signals)

    coefficients = rng.normal(size=(len(filters), 2, 10, 3))  # of the parts that R -> -R keeps and turns over
    signals = np.einsum("ri,pzic->pzrc", here, coefficients)
    found = [literal(F, G) for F, G in zip(coefficients, filters, strict=True)]
    if group.order > proper.order:
        signals, found = ([np.concatenate([a + b, a - b], axis=1)] for a, b in (signals, found))
    y = jax.jit(lambda p, x: conv.apply(p, x, Signal(OnGroup(group), 3)))(params, signals[0])
    np.testing.assert_allclose(y, found[0], rtol=1e-4, atol=1e-4)


# Parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "dtype"), [((3, 2, 1, 5), "float32"), ((4, 3), "float64")])
def test_numbers_drawn_as_a_vector_are_those_of_the_shape_to_the_last_bit(shape, dtype):
    with jax.enable_x64(dtype == "float64"):
        found = np.asarray(standard_normal(jax.random.key(3), shape, dtype))
        np.testing.assert_array_equal(found, np.asarray(jax.random.normal(jax.random.key(3), shape, dtype)))
    assert found.dtype == dtype


def test_weights_and_biases_of_a_layer_have_keys_of_their_own():
    key = jax.random.key(0)
    params = nn.Sequential(nn.Dense(4, b_std=0.1)).init(key, (3,))
    w_key, b_key = jax.random.split(jax.random.split(key, 1)[0])
    np.testing.assert_array_equal(params[0]["w"], jax.random.normal(w_key, (3, 4)))
    np.testing.assert_array_equal(params[0]["b"], jax.random.normal(b_key, (4,)))


@pytest.mark.slow
def test_parameters_depend_on_the_key_alone_and_come_in_the_asked_precision():
    net = nn.Sequential(nn.Conv(3, (3, 3)), nn.Relu(), nn.Flatten(), nn.Dense(2, b_std=0.1))
    first, again = (net.init(jax.random.key(7), (4, 4, 1)) for _ in range(2))
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_array_equal(a, b)
    double = net.init(jax.random.key(7), (4, 4, 1), dtype="float64")
    assert {leaf.dtype for leaf in jax.tree.leaves(double)} == {np.dtype("float64")}
    assert net.output_shape((4, 4, 1)) == (2,)


@pytest.mark.slow
def test_members_of_an_ensemble_run_side_by_side(rng):
    net = nn.Sequential(nn.Conv(3, (3, 3)), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(2))
    keys, x = jax.random.split(KEY, 3), rng.standard_normal((5, 4, 4, 1)).astype(np.float32)
    members = jax.jit(jax.vmap(lambda key: net.init(key, (4, 4, 1))))(keys)
    together = jax.jit(jax.vmap(net.apply, in_axes=(0, None)))(members, x)
    one = jax.jit(lambda key: net.apply(net.init(key, (4, 4, 1)), x))
    for i in range(3):
        np.testing.assert_allclose(together[i], one(keys[i]), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (nn.Relu(), lambda u: max(u, 0.0)),
        (nn.LeakyRelu(0.2), lambda u: u if u > 0 else 0.2 * u),
        (nn.Abs(), abs),
        (nn.Erf(), math.erf),
        (nn.Gelu(), lambda u: u * (1 + math.erf(u / math.sqrt(2))) / 2),
        (nn.Sin(), math.sin),
        (nn.Cos(), math.cos),
    ],
    ids=["relu", "leaky", "abs", "erf", "gelu", "sin", "cos"],
)
def test_nonlinearities_are_their_formulas(layer, function):
    x = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(layer.function(x), [function(float(u)) for u in x], rtol=1e-5, atol=1e-6)
