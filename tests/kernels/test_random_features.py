"""Random features: kernels from them tend to the exact ones, are semi-definite, and depend on the input alone."""

import importlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, NetworkError
from equitangents.kernels.random_features import random_features

library = importlib.import_module("equitangents.kernels.random_features")

GAIN = 2**0.5
P2, P4 = (et.groups.wallpaper(n, False, (3, 3)) for n in (2, 4))
ROTATIONS = et.actions.image_rotations(4)
CONV, RELU, DENSE = nn.Conv(1, (3, 3), W_std=GAIN, b_std=0.2), nn.Relu(), nn.Dense(1)
FLAT, MEAN = (nn.Flatten(), DENSE), (nn.GlobalAvgPool(), nn.Dense(1, b_std=0.1))
STANDARD = {"parametrisation": "standard"}
BRANCHES = nn.Parallel((RELU, DENSE), (nn.Cos(), nn.Dense(1, GAIN)))
LIFT = nn.Lift(P4, 1, (3, 3), W_std=GAIN)
LAYERS = {
    "mlp": ((5,), nn.Dense(1, GAIN, 0.3), RELU, nn.Dense(1, GAIN), nn.LeakyRelu(0.3), DENSE),
    "standard": ((5,), nn.Dense(9, GAIN, 0.3, **STANDARD), nn.Erf(), nn.Dense(1, **STANDARD)),
    "flat": ((4, 4, 1), *FLAT, RELU, DENSE),
    "pooled": ((4, 4, 2), CONV, RELU, CONV, nn.Gelu(), *MEAN),
    "pools between": ((6, 6, 1), CONV, RELU, nn.AvgPool(2), CONV, nn.Abs(), nn.AvgPool(2, 1), CONV, *FLAT),
    "flat, strided, zeros": ((5, 5, 2), nn.Conv(1, 3, stride=2, padding="zero"), nn.Sin(), CONV, RELU, *FLAT),
    "residual": ((4, 4, 1), CONV, RELU, nn.Residual(CONV, RELU), CONV, nn.GlobalAvgPool()),
    "normalised": ((4,), DENSE, nn.Residual(RELU, nn.Dense(1, GAIN)), nn.LayerNorm(), RELU, DENSE),
    "branches": ((4,), DENSE, BRANCHES, nn.Sum(), RELU, DENSE),
    "group, folded": ((3, 3, 2), LIFT, RELU, nn.GroupConv(1, (3, 3)), RELU, nn.GroupPool()),
    "group": ((3, 3, 1), nn.Lift(P4, 1, [0, 1]), RELU, nn.GroupConv(1, [0, 3, 4]), nn.GroupPool(), DENSE),
    "own function": ((3,), DENSE, nn.Elementwise(jnp.tanh), DENSE),
    "own weights": ((4, 4, 1), nn.LocallyConnected(1, 3), RELU, *FLAT),
}
NETWORKS = {name: (nn.Sequential(*layers), shape) for name, (shape, *layers) in LAYERS.items()}
SMALL = ("mlp", "pooled")


def _errors(net, x, features, seeds):
    """K̂ - K and Θ̂ - Θ over the largest kernel value, (seeds, 2, N, N)."""
    exact = net.kernel(x)
    found = [random_features(net, features, seed).kernel(x) for seed in range(seeds)]
    error = lambda f, k: (getattr(f, k) - getattr(exact, k)) / np.abs(getattr(exact, k)).max()
    return np.array([[error(f, k) for k in ("nngp", "ntk")] for f in found])


def _consistent(name, rng, features, seeds):
    net, shape = NETWORKS[name]
    x = rng.standard_normal((4, *shape))
    errors = _errors(net, x, features, seeds)
    # entries of one draw err together, and few draws say little of one entry: its spread is at least that of all
    own = errors.std(axis=0, ddof=1)
    mean, spread = errors.mean(axis=0), np.sqrt((own**2).mean(axis=(1, 2), keepdims=True))
    limit = 5 * np.maximum(own, spread) / seeds**0.5 + 4 / features  # and the mean's own bias, about 1/features
    assert np.all(np.abs(mean) <= limit), (np.abs(mean) / limit).max()
    # of the tangent kernel as of 8 features a channel, where the network has more of them
    channels = library._width(features, "ntk", library._most_positions(net.lower(shape)[1]))
    assert np.all(spread.ravel() <= 6 / np.sqrt([features, min(features, 8 * channels)]))


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", SMALL)
def test_kernels_from_features_agree_with_the_exact_ones_within_their_spread(name, rng):
    _consistent(name, rng, 256, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_from_many_features_agree_with_the_exact_ones(name, rng):
    _consistent(name, rng, 2048, 32)


def _rate(name, rng, sizes, seeds):
    net, shape = NETWORKS[name]
    x = rng.standard_normal((4, *shape))
    exact = net.kernel(x).ntk
    made = [[np.asarray(random_features(net, m, seed).transform(x)) for seed in range(seeds)] for m in sizes]
    each = [np.sqrt(np.mean([(f @ f.T - exact) ** 2 for f in of_size])) for of_size in made]
    return np.polyfit(np.log(sizes), np.log(each), 1)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "few"), [("mlp", 1024), ("pooled", 2048), ("pools between", 4096)])
def test_errors_fall_as_one_over_the_root_of_the_number(name, few, rng):
    # networks of 128 and 1,024 channels for images: of fewer the next order, 1/channels, is seen
    assert -0.65 <= _rate(name, rng, [few, 8 * few], 48) <= -0.35


def test_what_features_give_is_semidefinite_symmetric_and_one_thing(rng):
    net, shape = NETWORKS["mlp"]
    x = rng.standard_normal((9, *shape))
    made = random_features(net, 100, seed=3)
    k, rectangle, diagonal = made.kernel(x), made.kernel(x[:4], x), made.kernel_diagonal(x)
    for name in ("nngp", "ntk"):
        whole = getattr(k, name)
        assert np.linalg.eigvalsh(whole)[0] >= -1e-12 * np.trace(whole)
        np.testing.assert_allclose(getattr(rectangle, name), whole[:4], rtol=1e-12)
        np.testing.assert_allclose(getattr(diagonal, name), np.diagonal(whole), rtol=1e-12)
        features = made.transform(x, name)
        assert features.shape == (9, 100)
        np.testing.assert_allclose(features @ features.T, whole, rtol=1e-12)


@pytest.mark.quick(1)
@pytest.mark.parametrize(("name", "dtype"), [("mlp", np.float32), ("pooled", np.float64)])
def test_features_of_an_input_do_not_depend_on_the_others(name, dtype, rng):
    net, shape = NETWORKS[name]
    x = rng.standard_normal((70, *shape)).astype(dtype)
    made = random_features(net, 128)
    whole = made.transform(x)
    assert whole.dtype == dtype
    parts = np.concatenate([made.transform(x[:1]), made.transform(x[1:67]), made.transform(x[67:])])
    np.testing.assert_array_equal(whole, parts)


_ELSEWHERE = """
import numpy as np, equitangents as et
net = et.nn.Sequential(et.nn.Dense(1, 1.4), et.nn.Relu(), et.nn.Dense(1))
print(et.kernels.random_features(net, 64, 5).transform(np.arange(6.0).reshape(2, 3)).tobytes().hex())
"""


@pytest.mark.slow
def test_features_are_the_same_in_another_process():
    net = nn.Sequential(nn.Dense(1, 1.4), nn.Relu(), nn.Dense(1))
    ours = random_features(net, 64, 5).transform(np.arange(6.0).reshape(2, 3))
    run = subprocess.run([sys.executable, "-c", _ELSEWHERE], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(np.frombuffer(bytes.fromhex(run.stdout.strip())).reshape(ours.shape), ours, rtol=1e-12)


@pytest.mark.slow
def test_both_precisions_jax_arrays_and_traced_ones_agree(rng):
    net, shape = NETWORKS["pooled"]
    x = rng.standard_normal((3, *shape))
    made = random_features(net, 128)
    double, single = made.transform(x), made.transform(x.astype(np.float32))
    np.testing.assert_allclose(single, double, atol=2e-5 * np.abs(double).max())
    given = jnp.asarray(x, jnp.float32)
    assert isinstance(made.transform(given), jax.Array)
    np.testing.assert_array_equal(made.transform(given), single)
    traced = jax.jit(lambda v: made.kernel(v).ntk)(given)
    np.testing.assert_allclose(traced, single @ single.T, rtol=1e-4)


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["flat", "pooled", "pools between"])
def test_features_of_an_orbit_average_are_means_over_the_orbit(name, rng):
    net, shape = NETWORKS[name]
    x = rng.standard_normal((3, *shape))
    average = random_features(et.kernels.orbit_average(net, ROTATIONS), 128)
    literal = np.mean([random_features(net, 128).transform(ROTATIONS(g, x)) for g in range(4)], axis=0)
    np.testing.assert_allclose(average.transform(x), literal, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(average.transform(ROTATIONS(1, x)), literal, rtol=1e-10, atol=1e-12)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("group", "net"),
    [
        (P2, nn.Sequential(nn.Lift(P2, 1, (3, 3)), RELU, nn.GroupPool())),
        (P4, NETWORKS["group"][0]),
        (P4, NETWORKS["group, folded"][0]),
    ],
    ids=["folded in two", "group", "folded in four"],
)
def test_features_of_a_group_network_are_invariant(group, net, rng):
    action, made = et.actions.grid(group), random_features(net, 64)
    x = rng.standard_normal((2, 3, 3, 1))
    for g in range(0, group.order, 7):
        np.testing.assert_allclose(made.transform(action(g, x)), made.transform(x), rtol=1e-9, atol=1e-12)


def test_a_network_without_a_tangent_kernel_has_features_of_the_other(rng):
    net = nn.Sequential(nn.Dense(1), nn.Sign(), nn.Dense(1))
    x = rng.standard_normal((3, 4))
    made = random_features(net, 4096)
    np.testing.assert_allclose(made.kernel(x).nngp, net.kernel(x).nngp, atol=0.1)
    for refused in (lambda: made.transform(x), lambda: made.kernel(x).ntk):
        with pytest.raises(NetworkError, match="jump"):
            refused()


def test_bad_input_is_refused_in_words(rng):
    net, shape = NETWORKS["mlp"]
    x = rng.standard_normal((3, *shape))
    with pytest.raises(InvalidArgumentError, match="features"):
        random_features(net, 0)
    with pytest.raises(et.errors.EquitangentsError, match="seed"):
        random_features(net, 8, seed=-1)
    with pytest.raises(InvalidTypeError, match="net is"):
        random_features(object())
    with pytest.raises(InvalidArgumentError, match="'ntk' or 'nngp'"):
        random_features(net, 8).transform(x, "both")
    sphere = nn.Sequential(nn.SphereLift(et.groups.so3(2), 1), nn.Relu(), nn.GroupPool(), nn.Dense(1))
    with pytest.raises(NetworkError, match="SphereLift"):
        random_features(sphere, 8).transform(rng.standard_normal((2, 16, 1)))
    dropped = nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dropout(0.5), nn.Dense(1))
    with pytest.raises(NetworkError, match="as it holds dropout"):
        random_features(dropped, 8).transform(x)
    with pytest.raises(MemoryLimitError, match="fewer"):
        random_features(net, 10**10).transform(x)


BENT = (nn.Residual(nn.Dense(6, W_std=1.5), nn.Relu()),)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("block", "covered"),
    [
        (BENT, False),
        ((nn.Parallel([nn.Residual(nn.Dense(6), nn.Abs())], nn.Identity()), nn.Concatenate()), False),
        ((nn.Parallel([nn.Dense(3), nn.Abs()], nn.Dense(3)), nn.Concatenate(), *BENT), False),
        ((nn.Residual(nn.Dense(6, W_std=1.5), nn.Erf()),), True),
        ((nn.Dense(6), *BENT), True),
        ((nn.Parallel([nn.Dense(6), nn.Relu()], nn.Identity()), nn.Concatenate()), True),
        ((nn.Conv(2, 1), nn.Relu(), nn.Flatten(), *BENT), False),
        ((nn.Conv(2, 1), nn.Relu(), nn.Flatten(), nn.Residual(nn.Dense(6, W_std=1.5), nn.Erf())), True),
    ],
)
def test_sums_that_read_means_that_features_lack_are_refused_and_others_right(block, covered, rng):
    x = rng.normal(size=(3, 3, 2) if isinstance(block[0], nn.Conv) else (3, 6)) + 1.0
    net = nn.Sequential(*block, nn.Dense(1))
    made = random_features(net, 8192)
    if covered:
        for kind in ("nngp", "ntk"):
            exact = getattr(net.kernel(x), kind)
            assert np.abs(getattr(made.kernel(x), kind) - exact).max() <= 0.06 * np.abs(exact).max()
    else:
        with pytest.raises(NetworkError, match="begin the network with a Dense or Conv layer"):
            made.transform(x)


def test_memory_is_planned_for_the_layer_with_the_most_positions():
    pooled = nn.Sequential(
        nn.Conv(3, 3, 2, "zero"), nn.Relu(), nn.AvgPool(2), nn.Conv(3, 1), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1)
    )
    assert library._most_positions(pooled.lower((8, 8, 1))[1]) == 64
    assert library._most_positions(NETWORKS["group"][0].lower((3, 3, 1))[1]) == P4.order


def test_every_number_of_channels_is_the_product_of_two_factors_as_near_as_can_be():
    for width in range(1, 200):
        assert library.factors(width) == max((d, width // d) for d in range(1, 15) if width % d == 0 and d * d <= width)
