"""Kernels of steerable networks: literal sums, and how they and finite networks move."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.steerable import Features, GaussianSum
from oracles import literal_steerable
from oracles.group_elements import cloud, element, moved

RINGS = {"radii": (0.0, 1.0), "width": 0.7}
BUMP = GaussianSum((1.0, -0.5), (0.1, 0.6))


def network(group, features, hidden, nonlinearity, outputs):
    """conv, nonlinearity, conv, nonlinearity, mean over points, dense."""
    return nn.Sequential(
        nn.PointCloud(group, features),
        nn.SteerableConv(hidden, **RINGS, W_std=1.3, b_std=0.4),
        nonlinearity,
        nn.SteerableConv(hidden, **RINGS, W_std=0.8, b_std=0.2),
        nonlinearity,
        nn.SteerablePool(),
        nn.SteerableDense(outputs, W_std=1.1, b_std=0.3),
    )


def layers(hidden, dual, outputs):
    """The same for the oracle."""
    return [
        ("conv", hidden, *RINGS.values(), 1.3, 0.4),
        dual,
        ("conv", hidden, *RINGS.values(), 0.8, 0.2),
        dual,
        ("mean",),
        ("dense", outputs, 1.1, 0.3),
    ]


GATED = nn.GatedNonlinearity(nn.Erf(), nn.Erf())
CASES = {
    "gated": (GATED, ("gate", True), {"SO(2)": "4x0+1x1+1x2", "O(2)": "4x0e+1x0o+1x1", "SO(3)": "3x0+2x1"}),
    "sampled": (
        nn.FourierNonlinearity(nn.Erf(), samples=6),
        ("fourier", 6),
        {"SO(2)": "2x0+2x1+2x2", "O(2)": "2x0e+2x1"},
    ),
    "norm": (
        nn.NormNonlinearity(BUMP),
        ("norm", BUMP.coefficients, BUMP.rates),
        {"SO(2)": "2x0+2x1", "O(2)": "1x0o+1x1"},
    ),
}
INPUTS = {"SO(2)": "1x0+1x1", "O(2)": "1x0e+1x0o+1x1", "SO(3)": "2x0+1x1", "O(3)": "1x0e+1x1o"}
OUTPUTS = {"SO(2)": "1x1", "O(2)": "1x0o+1x1", "SO(3)": "1x0+1x1", "O(3)": "1x0e+1x1o"}


def check_literal(group, net, oracle, outputs):
    x = cloud(INPUTS[group], group)
    literal(net, oracle, outputs, Features(INPUTS[group], group), x, x)
    return x


def literal(net, oracle, outputs, features, x, read):
    """The network's kernel of two inputs x is that of the oracle, which reads them as `read`."""
    found = net.kernel(x[:1], x[1:])
    group = features.group
    expected = literal_steerable.kernels(features, oracle, *read)
    for got, blocks in zip((found.nngp, found.ntk), expected, strict=True):
        at = 0
        for n, kind_out in Features(outputs, group).entries:
            for _ in range(n):
                here = slice(at, at + kind_out.dimension)
                np.testing.assert_allclose(got[0, 0, here, here], blocks[kind_out], rtol=1e-10, atol=1e-11)
                at = here.stop


def check_moves(net, x, group, outputs, seed, move=None):
    """K(gx, g'x') = ρ(g) K(x, x') ρ(g')ᵀ."""
    g, h = element(group, seed), element(group, seed + 1)
    move = move or (lambda x, g: moved(x, g, INPUTS[group], group))
    before, after = net.kernel(x[:1], x[1:]), net.kernel(move(x[:1], g), move(x[1:], h))
    rho = Features(outputs, group)
    for a, b in ((before.nngp, after.nngp), (before.ntk, after.ntk)):
        assert np.max(np.abs(b - rho.matrix(g) @ a @ rho.matrix(h).T)) <= 1e-12 * np.max(np.abs(a))


def check_outputs_move(net, x, group, outputs, seed):
    """f(gx) = ρ(g) f(x) of finite networks."""
    params, g = net.init(jax.random.key(0), x.shape[1:], "float64"), element(group, seed)
    y = np.asarray(net.apply(params, x))
    turned = np.asarray(net.apply(params, moved(x, g, INPUTS[group], group)))
    assert np.max(np.abs(turned - y @ Features(outputs, group).matrix(g).T)) <= 1e-12 * np.max(np.abs(y))


def on_the_sphere(group, *layers, hidden, outputs):
    """Signals of bandlimit 2 and 2 channels: signal, dense layer, others, dense layer."""
    first = nn.SteerableDense(hidden, W_std=1.3, b_std=0.4)
    return nn.Sequential(nn.SphereSignal(group), first, *layers, nn.SteerableDense(outputs, W_std=1.1, b_std=0.3))


def signals_and_features(group):
    """Coefficients x (2, 4, 2), and what they are as features: c copies of the irreps 0 and 1."""
    x = np.random.default_rng(4).normal(size=(2, 4, 2))
    flat = np.concatenate([x[:, :1].reshape(2, -1), x[:, 1:].swapaxes(1, 2).reshape(2, -1)], axis=1)
    return x, flat / np.sqrt(4 * np.pi), Features("2x0e+2x1o" if group == "O(3)" else "2x0+2x1", group)


def check_moves_on_the_sphere(net, x, group, outputs, seed):
    """The same of harmonic coefficients."""
    harmonic = Features("1x0e+1x1o" if group == "O(3)" else "1x0+1x1", group)
    check_moves(net, x, group, outputs, seed, lambda x, g: harmonic.matrix(g) @ x)


@pytest.mark.slow
def test_kernels_of_residual_networks_on_the_sphere_are_literal_sums_and_move():
    group, hidden, outputs = "O(3)", "1x0e+1x1o", "1x0e+1x1o"
    norm, inner = nn.NormNonlinearity(BUMP), nn.SteerableDense(hidden, W_std=0.8, b_std=0.2)
    net = on_the_sphere(group, nn.Residual(norm, inner), norm, hidden=hidden, outputs=outputs)
    dual = ("norm", BUMP.coefficients, BUMP.rates)
    branch = ("branches", [], [dual, ("dense", hidden, 0.8, 0.2)])
    oracle = [("dense", hidden, 1.3, 0.4), branch, dual, ("dense", outputs, 1.1, 0.3)]
    x, read, features = signals_and_features(group)
    literal(net, oracle, outputs, features, x, read)
    check_moves_on_the_sphere(net, x, group, outputs, seed=2)
    assert net.equivariant_outputs == 4


def check_fields(group, layers, oracle, outputs, x):
    """Fields are literal sums, move with the group point by point, and have the pooled kernel for a mean."""
    features = Features(INPUTS[group], group)
    begin = nn.PointCloud(group, features)
    net = nn.Sequential(begin, *layers, nn.PointFeatures())
    found, out, points = net.kernel_field(x[:1], x[1:]), Features(outputs, group), x.shape[1]
    size = out.dimension
    assert found.grid == (points, size)
    g, h = element(group, 3), element(group, 4)
    after = net.kernel_field(moved(x[:1], g, INPUTS[group], group), moved(x[1:], h, INPUTS[group], group))
    pooled = nn.Sequential(begin, *layers, nn.SteerablePool()).kernel(x[:1], x[1:])
    turns = [np.kron(np.eye(points), out.matrix(m)) for m in (g, h)]
    expected = literal_steerable.fields_of(features, oracle, x[0], x[1])
    for name, blocks in zip(("nngp", "ntk"), expected, strict=True):
        field = getattr(found, name)[0, :, 0]
        by_point = field.reshape(points, size, points, size)
        at = 0
        for n, kind in out.entries:
            for _ in range(n):
                here = slice(at, at + kind.dimension)
                block = by_point[:, here, :, here].swapaxes(1, 2)
                np.testing.assert_allclose(block, blocks[kind], rtol=1e-10, atol=1e-11)
                at = here.stop
        moved_field = getattr(after, name)[0, :, 0]
        assert np.max(np.abs(moved_field - turns[0] @ field @ turns[1].T)) <= 1e-12 * np.max(np.abs(field))
        np.testing.assert_allclose(by_point.mean((0, 2)), getattr(pooled, name)[0, 0], rtol=1e-12, atol=1e-14)
    return net


def test_fields_of_maps_at_points_are_products_of_features():
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    net = nn.Sequential(nn.PointCloud("SO(2)", "1x1"), nn.SteerableDense("1x1", W_std=2.0), nn.PointFeatures())
    u, quarter = x[..., 2:], np.array([[0.0, -1.0], [1.0, 0.0]])
    outer = np.einsum("ipa,jqb->ipajqb", u, u)
    expected = 2 * (outer + np.einsum("ac,bd,ipcjqd->ipajqb", quarter, quarter, outer))
    field = net.kernel_field(x)
    np.testing.assert_allclose(field.ntk, expected.reshape(2, 6, 2, 6), rtol=1e-12, atol=1e-14)
    assert field.grid == (3, 2)


@pytest.mark.slow
def test_fields_at_points_are_literal_sums_move_and_are_fitted():
    group, outputs, rings = "O(2)", "1x0o+1x1", ((1.0,), 0.7)
    x = cloud(INPUTS[group], group, seed=2)
    layers = (nn.SteerableConv(outputs, *rings, W_std=1.3),)
    net = check_fields(group, layers, [("conv", outputs, *rings, 1.3, 0.0)], outputs, x)
    field = net.kernel_field(x)
    np.testing.assert_array_equal(field.ntk, field.ntk.transpose(2, 3, 0, 1))
    same, each = net.kernel_field(x, positions="same"), net.kernel_field_diagonal(x)
    np.testing.assert_allclose(same.nngp, np.einsum("ipjp->ijp", field.nngp), rtol=1e-13)
    np.testing.assert_allclose(each.ntk, np.einsum("ipiq->ipq", field.ntk), rtol=1e-12, atol=1e-14)
    y = np.random.default_rng(0).normal(size=(2, 3, 3))
    model = et.InfiniteEnsemble(net, ridge=1e-2).fit(x, y)
    g = element(group, 5)
    turned = model.predict(moved(x, g, INPUTS[group], group))
    np.testing.assert_allclose(turned, model.predict(x) @ Features(outputs, group).matrix(g).T, atol=1e-9)


@pytest.mark.slow
def test_fields_of_deep_networks_are_literal_sums_and_numbers_alone_are_alike():
    group, rings, hidden = "SO(2)", ((1.0,), 0.7), "3x0+2x1"
    x, outputs = cloud(INPUTS[group], group, seed=2), "1x0+1x1"
    conv = nn.SteerableConv(hidden, *rings, W_std=1.3, b_std=0.4)
    gate = nn.GatedNonlinearity(nn.Erf(), nn.Erf())
    layers = conv, nn.Residual(gate, conv), nn.SteerableDense(outputs, W_std=1.1, b_std=0.3)
    once = ("conv", hidden, *rings, 1.3, 0.4)
    oracle = [once, ("branches", [], [("gate", True), once]), ("dense", outputs, 1.1, 0.3)]
    net = check_fields(group, layers, oracle, outputs, x)
    params = net.init(jax.random.key(0), x.shape[1:], "float64")
    y, g = np.asarray(net.apply(params, x))[..., 0], element(group, 3)
    turned = np.asarray(net.apply(params, moved(x, g, INPUTS[group], group)))[..., 0]
    assert y.shape == (2, 3, 3)
    np.testing.assert_allclose(turned, y @ Features(outputs, group).matrix(g).T, atol=1e-11)
    with jax.enable_x64(True):
        traced = jax.jit(lambda a: net.kernel_field(a).ntk)(jax.numpy.asarray(x))
        np.testing.assert_allclose(np.asarray(traced), net.kernel_field(x).ntk, atol=1e-12)
    both = nn.Sequential(nn.PointCloud(group, INPUTS[group]), conv, nn.SteerableDense("2x0"), nn.PointFeatures())
    assert both.output_shape(x.shape[1:]) == (3, 2)
    assert both.kernel_field(x).ntk.shape == (2, 3, 2, 3)
    image = nn.Sequential(nn.PlaneImage("O(2)"), nn.SteerableConv("1x1", *rings), nn.PointFeatures())
    pixels = np.random.default_rng(0).normal(size=(1, 3, 3, 1))
    assert image.output_shape((3, 3, 1)) == (3, 3, 2, 1)
    quarter = np.rot90(pixels, axes=(1, 2)).copy()
    ordinary, rotated = (image.kernel_field(z).ntk.reshape(3, 3, 2, 3, 3, 2) for z in (pixels, quarter))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    expected = np.rot90(np.rot90(ordinary, axes=(0, 1)), axes=(3, 4))
    expected = np.einsum("ab,ijbklc,dc->ijakld", turn, expected, turn)
    np.testing.assert_allclose(rotated, expected, atol=1e-12)


@pytest.mark.slow
def test_kernels_of_functions_of_signals_on_the_sphere_are_literal_sums_and_move():
    group, hidden, outputs = "SO(3)", "2x0+2x1", "1x1"
    net = on_the_sphere(group, nn.FourierNonlinearity(nn.Erf(), samples=3), hidden=hidden, outputs=outputs)
    x, read, features = signals_and_features(group)
    literal(
        net, [("dense", hidden, 1.3, 0.4), ("fourier", 3), ("dense", outputs, 1.1, 0.3)], outputs, features, x, read
    )
    square = on_the_sphere(group, nn.FourierNonlinearity(nn.Monomial(2), samples=3), hidden=hidden, outputs=outputs)
    check_moves_on_the_sphere(square, x, group, outputs, seed=5)
    vector = nn.Sequential(nn.FeatureVector(group, features), *square.layers[1:])
    np.testing.assert_allclose(vector.kernel(read).ntk, square.kernel(x).ntk, rtol=1e-13)


@pytest.mark.slow
def test_kernels_of_branches_on_points_are_literal_sums_and_move():
    group, outputs, hidden, rings = "O(2)", "1x0o+1x1", "2x0e+1x0o+1x1", ((1.0,), 0.7)
    conv = nn.SteerableConv(hidden, *rings, W_std=0.8, b_std=0.2)
    first = nn.SteerableConv(hidden, *rings, W_std=1.3, b_std=0.4)
    end = nn.SteerablePool(), nn.SteerableDense(outputs, W_std=1.1)
    begin = nn.PointCloud(group, INPUTS[group]), first
    once = ("conv", hidden, *rings, 0.8, 0.2)
    oracle = [
        ("conv", hidden, *rings, 1.3, 0.4),
        ("branches", [], [("gate", False), once]),
        ("branches", [once], [("norm", BUMP.coefficients, BUMP.rates)]),
        ("mean",),
        ("dense", outputs, 1.1, 0.0),
    ]
    gate = nn.GatedNonlinearity(nn.Erf(), nn.Erf())
    parallel = nn.Parallel(conv, nn.NormNonlinearity(BUMP)), nn.Sum()
    net = nn.Sequential(*begin, nn.Residual(gate, conv), *parallel, *end)
    x = check_literal(group, net, oracle, outputs)
    check_moves(net, x, group, outputs, seed=1)
    same = nn.Sequential(*begin, nn.Parallel([gate, conv], nn.Identity()), nn.Sum(), *parallel, *end)
    np.testing.assert_allclose(same.kernel(x).ntk, net.kernel(x).ntk, rtol=1e-13)
    check_outputs_move(net, x, group, outputs, seed=3)


def test_kernels_of_one_layer_are_literal_sums():
    group, rings, end = "O(2)", ((1.0,), 0.7), (nn.SteerablePool(), nn.SteerableDense("1x1", W_std=1.1))
    conv = nn.SteerableConv("1x1", *rings, W_std=1.3)
    net = nn.Sequential(nn.PointCloud(group, INPUTS[group]), conv, nn.NormNonlinearity(BUMP), *end)
    norm = "norm", BUMP.coefficients, BUMP.rates
    check_literal(group, net, [("conv", "1x1", *rings, 1.3, 0.0), norm, ("mean",), ("dense", "1x1", 1.1, 0.0)], "1x1")


@pytest.mark.slow
@pytest.mark.parametrize(("group", "kind"), [(g, kind) for kind, case in CASES.items() for g in case[2]])
def test_kernels_are_literal_sums(group, kind):
    nonlinearity, dual, hidden = CASES[kind]
    outputs = "1x0o+1x1" if group == "O(2)" and kind != "sampled" else "1x1"
    net = network(group, INPUTS[group], hidden[group], nonlinearity, outputs)
    check_literal(group, net, layers(hidden[group], dual, outputs), outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "hidden", "nonlinearity"),
    [
        ("SO(2)", "5x0+2x1+1x2", GATED),
        ("SO(2)", "2x0+2x1+2x2", nn.FourierNonlinearity(nn.Monomial(2), samples=7)),
        ("SO(2)", "2x0+2x1+1x3", nn.NormNonlinearity()),
        ("O(2)", "2x0e+2x1+2x2", nn.FourierNonlinearity(nn.Monomial(2), samples=7)),
        ("O(2)", "2x0e+2x0o+1x2", nn.NormNonlinearity(jax.numpy.tanh)),
        ("SO(3)", "4x0+2x1+1x2", GATED),
        ("SO(3)", "2x0+2x1", nn.FourierNonlinearity(nn.Monomial(3), samples=3)),
        ("SO(3)", "2x0+2x2", nn.NormNonlinearity()),
        ("O(3)", "4x0e+2x1e+1x1o", GATED),
        ("O(3)", "2x0e+2x1o+2x2e", nn.FourierNonlinearity(nn.Monomial(2), samples=4)),
        ("O(3)", "2x0e+1x1o+1x1e", nn.NormNonlinearity()),
    ],
)
def test_kernels_and_finite_networks_move_with_the_group(group, hidden, nonlinearity):
    kept = Features(hidden, group).irreps[0], Features(hidden, group).irreps[-1]
    outputs = "+".join(f"2x{kind}" for kind in dict.fromkeys(kept))
    net = network(group, INPUTS[group], hidden, nonlinearity, outputs)
    x = cloud(INPUTS[group], group, seed=3)
    for seed in (0, 1):
        check_outputs_move(net, x, group, outputs, seed)
        check_moves(net, x, group, outputs, seed)


@pytest.mark.slow
def test_sampled_functions_that_are_no_polynomials_move_the_better_the_more_samples():
    # In the plane with reflections: under SO(2) alone covariances depend on differences of angles, and all is exact.
    features, group = "1x0e+1x1", "O(2)"
    x, g = cloud(features, group), element(group, 4)
    exact = 2 * np.pi / 5
    fifth = np.array([[np.cos(exact), -np.sin(exact)], [np.sin(exact), np.cos(exact)]])

    def error(samples, g):
        net = nn.Sequential(
            nn.PointCloud(group, features),
            nn.SteerableConv("2x0e+2x1+2x2", **RINGS, W_std=1.3, b_std=0.4),
            nn.FourierNonlinearity(nn.Erf(), samples),
            nn.SteerableConv("1x1", **RINGS, W_std=0.8),
            nn.SteerablePool(),
        )
        a, b = (net.kernel(y).ntk[0, 0] for y in (x[:1], moved(x[:1], g, features, group)))
        return np.abs(b - g @ a @ g.T).max() / np.abs(a).max()

    coarse, middle, fine = (error(samples, g) for samples in (5, 10, 20))
    assert middle < coarse / 2
    assert fine < coarse / 20
    assert error(5, fifth) < 1e-12 < coarse
