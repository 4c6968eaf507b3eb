"""Kernels at finite width to first order: closed forms of linear networks, laws, and sampled networks."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import precision
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.kernels import finite_width

library = importlib.import_module("equitangents.kernels.finite_width")

N = et.nn


def mlp(phi, widths, b_std=0.1, outputs=1):
    layers = [layer for w in widths for layer in (N.Dense(w, W_std=1.4, b_std=b_std), phi)]
    return N.Sequential(*layers, N.Dense(outputs, b_std=b_std))


def test_a_linear_network_has_the_spread_of_a_product_of_chi_squares(rng):
    """K̂(x, x) = q Π χ²_n/n without biases: Var = q² Σ 2/n to first order; Var K̂(x, y) likewise by Wick's theorem."""
    x = rng.standard_normal((3, 4))
    net = mlp(N.LeakyRelu(1.0), (16, 32), b_std=0.0)
    k = finite_width(net, x)
    own = np.diag(np.asarray(net.kernel(x).nngp))
    pairs = np.asarray(net.kernel(x).nngp)
    expected = (1 / 16 + 1 / 32) * (np.outer(own, own) + pairs**2)
    np.testing.assert_allclose(k.nngp_std**2, expected, rtol=1e-10)
    np.testing.assert_allclose(k.nngp_correction, 0, atol=1e-12)


@pytest.mark.slow
def test_one_hidden_layer_by_the_fourth_moments_of_its_features(rng):
    """Var K̂ = W_std⁴ (E[φ²φ²] - F²)/n, exactly; by a literal mean over a dense grid of Gaussian values."""
    x = rng.standard_normal((2, 3))
    for phi in (N.Relu(), N.Erf(), N.Gelu()):
        first = N.Sequential(N.Dense(1, W_std=1.4, b_std=0.1))
        q = np.asarray(first.kernel(x).nngp)
        node, weight = np.polynomial.hermite_e.hermegauss(300)
        weight = weight / weight.sum()
        root = np.linalg.cholesky(q)
        u = root[0, 0] * node[:, None] + 0 * node
        v = root[1, 0] * node[:, None] + root[1, 1] * node
        with precision.scope(np.float64):
            a, b = (np.asarray(phi.function(jnp.asarray(z))) for z in (u, v))
        fourth, second = (float(weight @ z @ weight) for z in (a * a * b * b, a * b))
        variance = (fourth - second**2) / 24
        found = finite_width(mlp(phi, (24,)), x).nngp_std[0, 1] ** 2
        assert found == pytest.approx(variance, rel=1e-3 if isinstance(phi, N.Relu) else 1e-6)


@pytest.mark.quick(1)
@pytest.mark.parametrize("phi", [N.Relu(), N.Abs(), N.LeakyRelu(0.3)])
def test_the_diagonal_of_scale_invariant_networks_has_no_correction(phi, rng):
    k = finite_width(mlp(phi, (8, 16, 8), b_std=0.3), rng.standard_normal((4, 5)))
    assert np.max(np.abs(np.diag(k.ntk_correction))) == 0
    assert np.max(np.abs(np.diag(k.nngp_correction))) == 0
    assert np.min(np.abs(k.ntk_correction[np.triu_indices(4, 1)])) > 0


@pytest.mark.parametrize("phi", [N.Erf(), N.Gelu(), N.Sin(), N.Cos(), N.LeakyRelu(0.3)])
def test_forms_that_are_differentiated_are_those_of_the_dual_functions(phi):
    dual = phi.dual
    forms = library._kink(dual.slope) if phi == N.LeakyRelu(0.3) else library._smooth(library._SMOOTH[type(dual)])
    with precision.scope(np.float64):
        for at in ((-0.6, 0.3, 1.7), (0.4, 1.2, 0.9)):
            found, expected = [form(*at) for form in forms], dual.covariance(*map(jnp.asarray, at))
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_corrections_and_variances_are_proportional_to_one_over_the_width(rng):
    x = rng.standard_normal((3, 4))
    one, four = (finite_width(mlp(N.Erf(), (w, 2 * w)), x) for w in (16, 64))
    np.testing.assert_allclose(one.ntk_correction, 4 * four.ntk_correction, rtol=1e-9)
    np.testing.assert_allclose(one.ntk_std, 2 * four.ntk_std, rtol=1e-9)


@pytest.mark.slow
def test_parallel_and_equal_inputs_are_the_limit_of_close_ones(rng):
    x = rng.standard_normal(4)
    close = np.stack([x, x + 2e-4 * rng.standard_normal(4)])
    for phi in (N.Relu(), N.Gelu()):
        k = finite_width(mlp(phi, (16, 16)), close)
        same = finite_width(mlp(phi, (16, 16)), close[:1], close[:1])
        assert k.ntk_std[0, 1] == pytest.approx(same.ntk_std[0, 0], rel=1e-2)
        assert k.ntk[0, 1] == pytest.approx(same.ntk[0, 0], rel=1e-2)


def sampled(net, x, count):
    """Θ̂ averaged over outputs and K̂ of the last features, (count, 2, N, N)."""

    @jax.jit
    def one(key):
        params = net.init(key, x.shape[1:], dtype="float64")
        jacobian = jax.jacrev(lambda p: net.apply(p, jnp.asarray(x)))(params)
        flat = lambda tree: jnp.concatenate([j.reshape((*j.shape[:2], -1)) for j in jax.tree.leaves(tree)], axis=-1)
        whole, last = flat(jacobian), flat(jacobian[-1])[:, :1]
        kernel = lambda j: jnp.einsum("iou,jou->ij", j, j) / j.shape[1]
        return jnp.stack([kernel(whole), kernel(last)])

    with precision.scope(np.float64):
        return np.asarray(jax.lax.map(one, jax.random.split(jax.random.key(7), count), batch_size=50))


def check(net, x, count, *, second_order):
    """Means and standard deviations within 4 standard errors, and what the second order may add."""
    k = finite_width(net, x)
    for found, mean, std, correction in (
        (sampled(net, x, count)[:, 0], k.ntk, k.ntk_std, k.ntk_correction),
        (sampled(net, x, count)[:, 1], k.nngp, k.nngp_std, k.nngp_correction),
    ):
        spread = found.std(0, ddof=1)
        kurtosis = ((found - found.mean(0)) ** 4).mean(0) / spread**4
        allowed = 4 * spread / np.sqrt(count) + second_order * (np.abs(correction) + np.abs(mean))
        assert np.max(np.abs(found.mean(0) - mean) / allowed) <= 1
        allowed = 4 * spread * np.sqrt((kurtosis - 1) / 4 / count) + 10 * second_order * spread
        assert np.max(np.abs(spread - std) / allowed) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (mlp(N.Relu(), (64, 128, 64), outputs=3), (4,)),
        (mlp(N.Gelu(), (64, 64)), (4,)),
        (mlp(N.Sin(), (64, 64)), (4,)),
        (
            N.Sequential(
                N.Flatten(), N.Dense(64), N.Scale(1.3), N.Erf(), N.Scale(0.8), N.Dense(64), N.Relu(), N.Dense(2)
            ),
            (2, 2),
        ),
    ],
)
def test_sampled_networks_of_every_kind(net, shape, rng):
    check(net, rng.standard_normal((2, *shape)), 1500, second_order=0.002)


def test_layers_whose_law_is_another_are_named(rng):
    x = rng.standard_normal((2, 4))
    for layers, message in (
        ((N.Dense(4), N.LayerNorm(), N.Relu(), N.Dense(1)), "LayerNorm"),
        ((N.Dense(4), N.Residual(N.Relu(), N.Dense(4)), N.Dense(1)), "Residual"),
        ((N.Dense(4), N.Relu(), N.Dense(4), N.Dense(1)), "one layer with weights"),
        ((N.Dense(4, parametrisation="standard"), N.Relu(), N.Dense(1)), "standard"),
    ):
        with pytest.raises(NetworkError, match=message):
            finite_width(N.Sequential(*layers), x)
    for layers in ((N.Conv(4, 2), N.Erf(), N.Flatten()), (N.Conv(4, 2), N.Erf(), N.GlobalAvgPool())):
        with pytest.raises(NetworkError, match=r"Conv.*; expected dense layers"):
            finite_width(N.Sequential(*layers, N.Dense(1)), x[..., None])


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("cut", "b_std", "phi"), [(0, 0.3, N.Relu()), (1, 0.0, N.Relu()), (1, 0.3, N.Erf()), (2, 0.3, N.Relu())]
)
def test_weights_of_no_size_are_the_limit_of_small_ones(phi, cut, b_std, rng):
    """And what lies before them has no part: the network then begins with its biases."""
    x = rng.standard_normal((2, 3))

    def net(small):
        stds = [small if i == cut else 1.4 for i in range(3)]
        layers = [N.Dense(8, W_std=w, b_std=b_std if i == cut else 0.1) for i, w in enumerate(stds)]
        return N.Sequential(layers[0], phi, layers[1], phi, layers[2])

    none, little = finite_width(net(0.0), x), finite_width(net(1e-5), x)
    for name in ("nngp", "ntk", "nngp_std", "ntk_std", "nngp_correction", "ntk_correction"):
        np.testing.assert_allclose(getattr(none, name), getattr(little, name), rtol=1e-4, atol=1e-5, err_msg=name)
        assert np.ptp(getattr(none, name)) <= 1e-12, "inputs have no part"


@pytest.mark.parametrize("net", ["net", None, 3, N.Dense(3), [N.Dense(3)], len], ids=repr)
def test_what_is_no_network_is_named(net, rng):
    x = rng.standard_normal((2, 4))
    calls = (
        lambda: finite_width(net, x),
        lambda: et.kernels.monte_carlo(net, x, key=jax.random.key(0), samples=2),
        lambda: et.kernels.empirical(net, {"w": jnp.ones(3)}, x),
        lambda: et.kernels.random_features(net),
        lambda: et.nn.is_admissible(net, "C4", (4, 4, 1)),
    )
    for call in calls:
        with pytest.raises(InvalidTypeError, match="net is"):
            call()
