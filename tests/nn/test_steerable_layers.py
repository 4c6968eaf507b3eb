"""Steerable layers: what they refuse, masks, precision, derivatives, and what ensembles make of them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import errors, nn
from equitangents.kernels.runs import steerable
from equitangents.steerable import Features, GaussianSum
from equitangents.steerable.gaussian_sum import mean_square
from equitangents.steerable.harmonics import samples

CONV = nn.SteerableConv("4x0+2x1", radii=(0.0, 1.0))
NET = nn.Sequential(
    nn.PointCloud("SO(2)"), CONV, nn.GatedNonlinearity(nn.Erf()), nn.SteerablePool(), nn.SteerableDense("1x0")
)


def begun(first, shape, *layers):
    return lambda: nn.Sequential(first, *layers).signals(shape)


def points(*layers):
    return begun(nn.PointCloud("SO(2)", "1x0"), (5, 3), *layers)


def whole(*layers):
    return points(nn.SteerablePool(), *layers)


def sphere(coefficients, *layers):
    return begun(nn.SphereSignal(), (coefficients, 1), *layers)


CLOUD, GATED, NORM = nn.PointCloud("SO(2)"), nn.GatedNonlinearity(), nn.NormNonlinearity()
EMPTY, MASKED = np.zeros((1, 5, 2)), et.Masked(np.zeros((1, 4, 1)), np.arange(4)[None] > 0)
ON_SPHERE = nn.Sequential(nn.SphereSignal(), nn.SteerableDense("1x0"))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (points(nn.Relu()), "signal is 5 points with features 1x0 of SO\\(2\\); read it by SteerableConv"),
        (points(CONV, nn.Dense(3)), "signal is 5 points with features 4x0\\+2x1"),
        (points(NORM), "a nonlinearity needs a linear layer before it"),
        (points(nn.SteerableConv("1x0+2x1"), GATED), "expected a number for each gate"),
        (points(CONV, nn.FourierNonlinearity()), "expected equally many copies of each irrep; 4x0\\+4x1"),
        (points(nn.SteerableConv("2x0+2x1"), nn.FourierNonlinearity(samples=2)), "samples is 2; expected 3"),
        (points(nn.SteerableDense("1x1")), "features is \\['1'\\]; expected features to which an equivariant kernel"),
        (whole(CONV), "SteerableConv reads points; use SteerableDense"),
        (whole(nn.SteerablePool()), "these are features of a whole input"),
        (begun(CONV, (5, 3)), "begin the network with PointCloud, PlaneImage, SphereSignal or"),
        (begun(CLOUD, (5, 3)), "signal has channels, 3; expected 2"),
        (begun(CLOUD, (5, 5, 2)), "PointCloud reads points \\(N, P, channels\\)"),
        (begun(nn.PlaneImage("O(2)"), (5, 2)), "PlaneImage reads images"),
        (begun(nn.PlaneImage("O(2)", "1x1"), (5, 5, 3)), "signal has channels, 3; expected 2"),
        (lambda: nn.PlaneImage("SO(3)"), "group is 'SO\\(3\\)'; expected 'SO\\(2\\)' or 'O\\(2\\)'"),
        (sphere(4, CONV), "SteerableConv reads points; use SteerableDense"),
        (sphere(4, nn.SphereLift(et.groups.so3(2), 4)), "signal is a whole input with features 1x0\\+1x1"),
        (sphere(5), "signal has length 5; expected B² coefficients"),
        (sphere(196), "signal has bandlimit 14; expected 1 to 13"),
        (begun(nn.SphereSignal(), (2, 2, 1)), "SphereSignal reads harmonic coefficients"),
        (lambda: nn.SphereSignal("SO(2)"), "group is 'SO\\(2\\)'; expected 'SO\\(3\\)' or 'O\\(3\\)'"),
        (begun(nn.FeatureVector("SO(3)", "1x1"), (4,)), "signal has channels, 4; expected 3"),
        (begun(nn.FeatureVector("SO(3)", "1x1"), (3, 3)), "FeatureVector reads vectors"),
        (points(nn.Residual(nn.SteerableConv("1x0"))), "a sum with the input has no"),
        (whole(nn.Parallel(nn.Identity(), nn.SteerableDense("1x0")), nn.Sum()), "input has no infinitely wide limit"),
        (points(CONV, nn.Residual(GATED, nn.SteerableDense("2x0"))), "gives shape '5 points with features 2x0 of SO"),
        (points(CONV, nn.Parallel(NORM, [CONV, NORM]), nn.Sum()), "two summands of steerable features end in a"),
        (points(CONV, NORM, nn.Residual(CONV, NORM)), "two summands of steerable features end in a nonlinearity"),
        (points(CONV, NORM, nn.PointFeatures()), "PointFeatures needs a linear layer before it"),
        (whole(nn.PointFeatures()), "PointFeatures ends a network on points"),
        (points(CONV, nn.PointFeatures(), CONV), "expected no layer after it"),
        (points(CONV, nn.Parallel(CONV, CONV), nn.Concatenate()), "join them with Sum"),
        (points(CONV, nn.Residual(nn.Dense(3))), "signal is 5 points with features 4x0\\+2x1"),
        (lambda: nn.Sequential(CLOUD, CONV, nn.PointFeatures()).kernel(EMPTY[:, :1]), "ask for kernel_field"),
        (lambda: nn.Sequential(CLOUD, CONV).kernel(EMPTY), "or ask for kernel_field"),
        (
            lambda: nn.Sequential(CLOUD, CONV).kernel_field(EMPTY),
            r"expected positions of .* or points before PointFeatures",
        ),
        (lambda: NET.kernel_field(EMPTY), r"use kernel\(\) in place of kernel_field\(\)"),
        (lambda: nn.Sequential(*NET.layers[:4]).kernel(EMPTY), "of steerable features needs a linear layer after it"),
        (lambda: ON_SPHERE.kernel(MASKED), "expected layers that take masks"),
    ],
)
def test_layers_that_do_not_fit_are_refused(call, says):
    with pytest.raises(errors.NetworkError, match=says):
        call()


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: nn.PointCloud("SU(2)"), errors.InvalidArgumentError, "group is 'SU\\(2\\)'"),
        (lambda: nn.PointCloud(3), errors.InvalidTypeError, "group is 3; expected 'SO"),
        (lambda: nn.SteerableConv("1x0", radii=()), errors.InvalidArgumentError, "expected different radii"),
        (lambda: nn.SteerableConv("1x0", radii=1.0), errors.InvalidTypeError, "radii is 1.0; expected several"),
        (lambda: nn.SteerableConv("1x0", width=0.0), errors.InvalidArgumentError, "width is 0.0"),
        (lambda: nn.GatedNonlinearity(jnp.tanh), errors.InvalidTypeError, "expected a nonlinearity of equitangents.nn"),
        (lambda: nn.FourierNonlinearity(nn.Relu), errors.InvalidTypeError, "function is"),
        (lambda: nn.NormNonlinearity(3.0), errors.InvalidTypeError, "expected a GaussianSum or a function"),
        (lambda: nn.NormNonlinearity(tolerance=0.0), errors.InvalidArgumentError, "tolerance is 0.0"),
        (lambda: nn.NormNonlinearity(np.tanh), errors.InvalidTypeError, "a function of arrays of JAX"),
        (lambda: nn.NormNonlinearity(math.tanh), errors.InvalidTypeError, "a function of arrays of JAX"),
        (lambda: GaussianSum("a", (1.0,)), errors.InvalidTypeError, "coefficients is 'a'; expected numbers"),
        (lambda: GaussianSum((1.0,), (0.0, 1.0)), errors.ShapeError, "rates has length 2; expected 1"),
        (lambda: GaussianSum((1.0,), (-1.0,)), errors.InvalidArgumentError, "at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(call, kind, says):
    with pytest.raises(kind, match=says):
        call()


def test_linear_networks_have_the_kernels_of_mean_features():
    x = np.random.default_rng(0).normal(size=(3, 5, 6))
    mean = x[..., 2:].mean(axis=1)
    begin = nn.PointCloud("SO(2)", "2x0+1x1"), nn.SteerablePool()
    numbers = nn.Sequential(*begin, nn.SteerableDense("3x0", W_std=2.0, b_std=0.5)).kernel(x)
    expected = 4 * mean[:, :2] @ mean[:, :2].T / 2 + 0.25
    np.testing.assert_allclose(numbers.nngp, expected, rtol=1e-13)
    np.testing.assert_allclose(numbers.ntk, expected, rtol=1e-13)
    np.testing.assert_array_equal(numbers.ntk, numbers.ntk.T)
    u, quarter = mean[:, 2:], np.array([[0.0, -1.0], [1.0, 0.0]])
    outer = np.einsum("ia,jb->ijab", u, u)
    turning = nn.Sequential(*begin, nn.SteerableDense("1x1"))
    vectors = turning.kernel(x)
    np.testing.assert_allclose(vectors.nngp, (outer + quarter @ outer @ quarter.T) / 2, atol=1e-14)
    assert (vectors.nngp == vectors.nngp.transpose(1, 0, 3, 2)).all()
    with jax.enable_x64(True):
        traced = jax.jit(lambda a: turning.kernel(a, a[:2]).nngp)(jnp.asarray(x))
    np.testing.assert_allclose(traced, vectors.nngp[:, :2], atol=1e-14)


def test_groups_are_named_or_given_as_objects():
    assert nn.PointCloud(et.groups.so3(2)) == nn.PointCloud("SO(3)")
    assert nn.PointCloud(et.groups.so2(), "1x1").features.dimension == 2


def test_vectors_near_zero_are_multiplied_by_the_slope_of_the_function_of_their_norm():
    layer = nn.NormNonlinearity(lambda r: jnp.tanh(0.3 * r), largest=2.0)
    signal = nn.Sequential(nn.PointCloud("SO(2)", "1x1"), nn.SteerableDense("1x1")).signals((1, 4))[-1]
    moved = lambda v: layer.apply((), jnp.concatenate([jnp.zeros(2), v])[None, None], signal)[0, 0, 2:]
    for v in (jnp.zeros(2), jnp.array([1e-3, -2e-3])):
        assert np.allclose(jax.jit(jax.jacobian(moved))(v), 0.3 * np.eye(2), atol=1e-4)


@pytest.mark.parametrize(("group", "features"), [("SO(2)", "2x0+2x1+2x2"), ("O(3)", "2x0e+2x1o")])
def test_functions_of_a_signal_are_taken_of_the_sum_of_its_degrees(group, features, rng):
    """x leaves it as it is; the mean of its square is the sum of the mean squares of its degrees."""
    features = Features(features, group)
    values = {kind: rng.normal(size=(2, kind.dimension)) for kind in features.irreps}
    with jax.enable_x64(True):
        same, square = (nn.FourierNonlinearity(nn.Monomial(n)).moved(features, values) for n in (1, 2))
    for kind in values:
        np.testing.assert_allclose(same[kind], values[kind], atol=1e-13)
    np.testing.assert_allclose(square[features.irreps[0]][:, 0], sum((v**2).sum(1) for v in values.values()))


def test_pairs_that_run_at_once_take_no_more_than_is_planned():
    program = NET.lowered(np.zeros((1, 5, 2), np.float32))[1]
    for points in (1, 10, 100, 1000):
        pairs = steerable._at_once(program, points, 10**6)
        assert pairs * steerable._pair_bytes(program, points) <= steerable.working_bytes(program, points)


def test_fits_are_refused_where_vectors_are_so_short_that_their_error_counts():
    (op,) = nn.NormNonlinearity(lambda r: r**3 / (1 + r**2), tolerance=1e-5).lower(None)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    z, w = np.polynomial.hermite_e.hermegauss(80)
    for size, refused in ((1.0, False), (1e-4, True)):
        v = size**2 * turn @ np.diag([1.0, 0.3]) @ turn.T
        norm = size * np.hypot(z[:, None], np.sqrt(0.3) * z)
        exact = np.average(norm**6 / (1 + norm**2) ** 2, weights=w[:, None] * w)
        found = mean_square(op.coefficients, op.rates, v)
        assert (abs(found / exact - 1) > 10 * 2e-5) == refused
        stack = np.stack([v, np.zeros((2, 2))])
        if refused:
            with pytest.raises(errors.InvalidArgumentError, match=r"norm of 0\.00011.*; .* a lower tolerance"):
                steerable._check_fit(op, "1", stack)
        else:
            steerable._check_fit(op, "1", stack)


@pytest.mark.slow
def test_functions_of_the_norm_are_fitted_or_refused():
    tanh = nn.NormNonlinearity(jnp.tanh)
    r = np.linspace(0, 12, 500)
    with jax.enable_x64(True):  # in single precision rounding is larger than the error of the fit
        found = np.asarray(tanh.gaussians(r))
    assert found.dtype == np.float64
    assert np.max(np.abs(found - np.tanh(r))) <= 2 * tanh.error <= 2e-6
    with pytest.raises(errors.InvalidArgumentError, match=r"is fitted with an error of .*"):
        nn.NormNonlinearity(lambda r: jax.nn.relu(r - 1))
    first, last = nn.SteerableConv("2x1", W_std=30.0), nn.SteerableConv("1x0")
    long = nn.Sequential(nn.PointCloud("SO(2)"), first, tanh, last, nn.SteerablePool())
    with pytest.raises(errors.InvalidArgumentError, match=r"largest is .* or more, for features"):
        long.kernel(np.random.default_rng(0).normal(size=(1, 3, 2)))


@pytest.mark.slow
def test_missing_points_leave_kernels_and_outputs_as_those_of_smaller_clouds():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 2))
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    net = nn.Sequential(
        nn.PointCloud("SO(2)"), nn.SteerableConv("2x0+2x1", b_std=0.5), nn.FourierNonlinearity(nn.Cos()),
        nn.SteerableConv("1x0+1x1", b_std=0.5), nn.SteerablePool(),
    )  # fmt: skip
    masked = net.kernel(et.Masked(x, mask))
    np.testing.assert_allclose(masked.ntk[0, 0], net.kernel(x[:1, :3]).ntk[0, 0], atol=1e-12)
    np.testing.assert_allclose(masked.ntk[1, 1], net.kernel(x[1:]).ntk[0, 0], atol=1e-12)
    other = x.copy()
    other[0, 3:] = 7.0
    np.testing.assert_array_equal(net.kernel(et.Masked(other, mask)).ntk, masked.ntk)
    params = net.init(jax.random.key(0), (5, 2), "float64")
    y = np.asarray(net.apply(params, et.Masked(x, mask)))
    np.testing.assert_allclose(y[0], np.asarray(net.apply(params, x[:1, :3]))[0], atol=1e-12)


def test_signals_on_the_sphere_keep_their_mean_square():
    x = np.random.default_rng(0).normal(size=(1, 9, 2))
    features = np.asarray(nn.Sequential(nn.SphereSignal()).apply(((),), x))
    grid = samples(3, 4, 2)
    values = np.concatenate(grid.harmonics, axis=1) @ x[0] / np.sqrt(4 * np.pi)
    np.testing.assert_allclose((features**2).sum(), (grid.weights @ values**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(features[0, 2:5], x[0, 1:4, 0] / np.sqrt(4 * np.pi), rtol=1e-6)


@pytest.mark.slow
def test_kernels_agree_in_parts_precisions_and_compiled_programs():
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    kernels = NET.kernel(x)
    assert kernels.ntk.shape == (3, 3)
    np.testing.assert_array_equal(kernels.ntk, kernels.ntk.T)
    np.testing.assert_allclose(NET.kernel(x[:2], x).ntk, kernels.ntk[:2], atol=1e-13)
    np.testing.assert_allclose(NET.kernel_diagonal(x).nngp, np.diag(kernels.nngp), atol=1e-13)
    single = NET.kernel(x.astype(np.float32))
    assert single.ntk.dtype == np.float32
    np.testing.assert_allclose(single.ntk, kernels.ntk, rtol=1e-5)
    with jax.enable_x64(True):
        traced = jax.jit(lambda a: NET.kernel(a).ntk)(jnp.asarray(x))
        np.testing.assert_allclose(np.asarray(traced), kernels.ntk, atol=1e-12)
        slope = jax.grad(lambda a: NET.kernel(a, jnp.asarray(x)).nngp[0, 1])(jnp.asarray(x))
    step = 1e-5 * np.eye(24)[1].reshape(x.shape)
    change = (NET.kernel(x + step, x).nngp - NET.kernel(x - step, x).nngp)[0, 1] / 2e-5
    np.testing.assert_allclose(slope.ravel()[1], change, rtol=1e-6)
    cost = NET.kernel_cost((4, 2), 3)
    assert cost.pairs == 6
    assert cost.multiply_adds > 0


@pytest.mark.slow
def test_images_turn_by_quarter_turns_exactly_and_ensembles_learn_from_them():
    x = np.random.default_rng(0).normal(size=(4, 5, 5, 1))
    net = nn.Sequential(
        nn.PlaneImage("O(2)"), nn.SteerableConv("3x0e+2x1", b_std=0.3), nn.NormNonlinearity(),
        nn.SteerablePool(), nn.SteerableDense("1x0e"),
    )  # fmt: skip
    turned = np.rot90(x, axes=(1, 2)).copy()
    kernels = net.kernel(x)
    np.testing.assert_allclose(net.kernel(turned, x).ntk, kernels.ntk, rtol=1e-11)
    np.testing.assert_allclose(net.kernel(x[:, ::-1].copy(), x).ntk, kernels.ntk, rtol=1e-11)
    model = et.InfiniteEnsemble(net, ridge=1e-6).fit(x[:3], np.array([0.0, 1.0, -1.0]))
    np.testing.assert_allclose(model.predict(turned), model.predict(x), atol=1e-6)
    vector = nn.Sequential(*net.layers[:4], nn.SteerableDense("1x1"))
    params = vector.init(jax.random.key(0), x.shape[1:], "float64")
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    y = np.asarray(vector.apply(params, x))
    np.testing.assert_allclose(np.asarray(vector.apply(params, turned)), y @ quarter.T, atol=1e-12)


@pytest.mark.slow
def test_ensembles_learn_vectors_that_turn_with_the_points():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 4, 2)), rng.normal(size=(4, 2))
    net = nn.Sequential(*NET.layers[:4], nn.SteerableDense("1x1"))
    assert net.equivariant_outputs == 2
    assert NET.equivariant_outputs is None
    g = np.array([[0.6, -0.8], [0.8, 0.6]])
    model = et.InfiniteEnsemble(net, ridge=1e-6).fit(x[:3], y[:3])
    np.testing.assert_allclose(model.predict(x[:3]), y[:3], atol=1e-3)
    np.testing.assert_allclose(model.predict(x @ g.T), model.predict(x) @ g.T, atol=1e-6)


def test_a_dense_layer_has_one_matrix_for_every_irrep():
    net = nn.Sequential(nn.PointCloud("SO(3)", "2x0+3x1"), nn.SteerableDense("4x0+5x1"))
    (_, params) = net.init(jax.random.key(0), (3, 14))
    assert sorted(np.shape(w) for w in params.values()) == [(1, 2, 4), (1, 3, 5)]


def test_degrees_of_a_signal_have_their_parity_under_inversion(rng):
    x = rng.standard_normal((3, 9, 2))
    inverted = x * np.repeat([1, -1, 1], [1, 3, 5])[:, None]
    net = nn.Sequential(nn.SphereSignal("O(3)"), nn.SteerableDense("1x1o"))
    params = net.init(jax.random.key(0), x.shape[1:])
    assert np.abs(net.apply(params, x)).max() > 0.1
    np.testing.assert_array_equal(net.apply(params, inverted), -net.apply(params, x))
