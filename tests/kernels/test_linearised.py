"""The law of trained linearised networks to first order in 1/width: limits, exact cases, and sampled networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import InfiniteEnsemble, precision
from equitangents.errors import InvalidTypeError, MemoryLimitError, NetworkError, ShapeError
from equitangents.kernels import finite_width
from equitangents.kernels.finite_width.linearised import linearised
from equitangents.nn import Conv, Dense, Erf, Flatten, LeakyRelu, Relu, Sequential

TRAIN = np.array([[1.0, 0.3, -0.2], [-0.4, 1.1, 0.5]])
Y = np.array([1.0, -0.5])
TEST = np.array([[0.7, -0.6, 0.9]])


def mlp(phi, width, layers=2):
    hidden = [layer for _ in range(layers) for layer in (Dense(width, W_std=1.4, b_std=0.3), phi)]
    return Sequential(*hidden, Dense(1, b_std=0.3))


def sampled(net, time, count, x):
    """Outputs at x[2] of linearised networks trained on TRAIN, and of the same ones with the kernel of the limit."""
    limit = np.asarray(net.kernel(x).ntk)
    n = len(TRAIN)

    def trained(theta, f):
        values, v = jnp.linalg.eigh(theta[:n, :n])
        phi = 1 / values if np.isinf(time) else -jnp.expm1(-values * time) / values
        return f[n:] + theta[n:, :n] @ (v @ (phi * (v.T @ (Y - f[:n]))))

    def one(key):
        params = net.init(key, (3,), dtype="float64")
        f = lambda p: net.apply(p, jnp.asarray(x))[:, 0]
        rows = [j.reshape(len(x), -1) for j in jax.tree.leaves(jax.jacrev(f)(params))]
        jacobian = jnp.concatenate(rows, axis=1)
        return jnp.stack([trained(theta, f(params)) for theta in (jacobian @ jacobian.T, jnp.asarray(limit))])

    with precision.scope(np.float64):
        keys = jax.random.split(jax.random.key(0), count)
        return np.asarray(jax.jit(lambda k: jax.lax.map(one, k, batch_size=100))(keys))[..., 0].T


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phi", "time", "test"),
    [(Erf(), np.inf, [1.0, -1.0, -1.0]), pytest.param(Relu(), 0.5, [0.2, 0.3, 1.5], marks=pytest.mark.slow)],
)
def test_means_and_variances_are_those_of_sampled_networks(phi, time, test):
    """The same networks with the kernel of the limit take most of the samples' chance away: their law is known."""
    net, count, x = mlp(phi, 32), 2500, np.array([*TRAIN, test])
    law = linearised(net, TRAIN, Y, x[2:], time, draws=4096)
    own, frozen = sampled(net, time, count, x)
    k = finite_width(net, x)
    theta = np.asarray(net.kernel(x).ntk)
    values, v = np.linalg.eigh(theta[:2, :2])
    response = v @ np.diag(1 / values if np.isinf(time) else -np.expm1(-values * time) / values) @ v.T
    left = np.append(-theta[2, :2] @ response, 1.0)
    of_frozen = left @ k.nngp @ left, theta[2, :2] @ response @ Y
    squares = (own - law.mean) ** 2 - (frozen - of_frozen[1]) ** 2
    error = squares.std() / count**0.5
    assert abs(squares.mean() - (law.covariance[0, 0] - of_frozen[0])) < 4 * error
    assert abs(law.covariance[0, 0] - law.limit_covariance[0, 0]) > 4 * error  # what is seen of it
    difference = own - frozen
    assert abs(difference.mean() - (law.mean[0] - of_frozen[1])) < 4 * difference.std() / count**0.5


def test_corrections_are_of_first_order_and_the_limit_is_that_of_infinite_ensembles():
    narrow, wide = (linearised(mlp(Erf(), n), TRAIN, Y, TEST, 0.7, draws=1024) for n in (8, 64))
    for name in ("mean", "covariance"):
        change = [getattr(law, name) - getattr(law, f"limit_{name}") for law in (narrow, wide)]
        np.testing.assert_allclose(change[0], 8 * change[1], rtol=1e-9)
    model = InfiniteEnsemble(mlp(Erf(), 8), time=0.7, learning_rate=2.0).fit(TRAIN, Y)
    mean, covariance = model.predict(TEST, return_cov=True)
    np.testing.assert_allclose(wide.limit_mean, mean, rtol=1e-6)
    np.testing.assert_allclose(wide.limit_covariance, covariance, rtol=1e-6)


def test_before_training_it_is_the_kernel_of_finite_width():
    x = np.concatenate([TRAIN, TEST])
    law = linearised(mlp(Relu(), 16), TRAIN, Y, x, 0.0, draws=16384)
    k = finite_width(mlp(Relu(), 16), x)
    np.testing.assert_allclose(law.covariance, k.nngp, atol=2e-3)
    np.testing.assert_allclose(law.mean, 0, atol=1e-12)


def test_on_the_training_inputs_nothing_is_left_at_infinite_time():
    law = linearised(mlp(Erf(), 16), TRAIN, Y, TRAIN, np.inf, draws=64)
    np.testing.assert_allclose(law.mean, Y, atol=1e-8)
    np.testing.assert_allclose(law.covariance, 0, atol=1e-8)


def test_a_network_of_one_layer_has_no_correction():
    law = linearised(Sequential(Dense(1, b_std=0.5)), TRAIN, Y, TEST, 0.5)
    np.testing.assert_allclose(law.mean, law.limit_mean, rtol=1e-12)
    np.testing.assert_allclose(law.covariance, law.limit_covariance, rtol=1e-12)


def test_a_deep_linear_network_of_one_input_by_wicks_theorem():
    """f = u·v/√n at x = 1, Θ̂ = (|u|² + |v|²)/n: f_t = f e^{-Θ̂t} + (1 - e^{-Θ̂t}) y, Θ = 2, E δ² = E f² δ = 4/n.

    So Var f_t = e^{-4t} (1 + (-8t + 8t² + 4t² y²)/n) and E f_t = (1 - e^{-2t} (1 + 2t²/n)) y to first order.
    """
    n, t, y = 8, 0.5, 2.0
    one = np.ones((1, 1))
    law = linearised(Sequential(Dense(n), LeakyRelu(1.0), Dense(1)), one, np.array([y]), one, t)
    change = np.exp(-4 * t) * (-8 * t + 8 * t**2 + 4 * t**2 * y**2) / n
    assert law.limit_covariance[0, 0] == pytest.approx(np.exp(-4 * t), rel=1e-9)
    assert law.covariance[0, 0] - law.limit_covariance[0, 0] == pytest.approx(change, rel=0.02)
    assert law.mean[0] - law.limit_mean[0] == pytest.approx(-np.exp(-2 * t) * 2 * t**2 / n * y, rel=0.02)


def test_what_it_does_not_take_is_named():
    with pytest.raises(InvalidTypeError, match=r"expected nn\.Sequential"):
        linearised(Dense(3), TRAIN, Y, TEST)
    with pytest.raises(ShapeError, match="y has size 3; expected 2"):
        linearised(mlp(Erf(), 4), TRAIN, np.ones(3), TEST)
    with pytest.raises(NetworkError, match="outputs number 2; expected 1"):
        linearised(Sequential(Dense(4), Relu(), Dense(2)), TRAIN, Y, TEST)
    images = np.ones((2, 4, 4, 1))
    with pytest.raises(NetworkError, match="expected 1, of a dense network"):
        linearised(Sequential(Conv(2, 3), Relu(), Flatten(), Dense(1)), images, Y, images)
    with pytest.raises(MemoryLimitError, match="take fewer inputs"):
        linearised(mlp(Erf(), 4), np.ones((900, 3)), np.ones(900), TEST)
