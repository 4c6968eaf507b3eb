"""A ridge for each sample, against the sums written out: f_t(x) = Θ(x, X) φ_t(Θ + D) Y, D = u · diag(r), u = tr Θ/N."""

from functools import partial

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.inference.spectrum import Ridge
from equitangents.solvers import solve

NET = et.nn.Sequential(et.nn.Dense(8, W_std=1.3, b_std=0.3), et.nn.Erf(), et.nn.Dense(1, b_std=0.2))
IMAGES = et.nn.Sequential(
    et.nn.Conv(4, (3, 3), b_std=0.2, padding="circular"), et.nn.Relu(), et.nn.GlobalAvgPool(), et.nn.Dense(1, b_std=0.3)
)
TIMES = st.sampled_from([0.7, 30.0, np.inf])
FEW = settings(max_examples=6, deadline=None)
close = partial(np.testing.assert_allclose, rtol=1e-7, atol=1e-9)


def data(seed: int, n: int = 6, least: float = 0.02):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), rng.uniform(least, 0.6, n)


def kernels(field: str, x, other=None):
    kernel = NET.kernel(x, other)
    return np.asarray(getattr(kernel, field), np.float64), np.asarray(kernel.nngp, np.float64)


def weights(theta, ridge, y, time, rate=1.3):
    """φ_t(Θ + D) Y by SciPy's own exponential."""
    M = theta + np.diag(ridge) * np.trace(theta) / len(theta)
    decay = 0.0 if np.isinf(time) else scipy.linalg.expm(-rate * time / len(M) * M)
    return np.linalg.solve(M, (np.eye(len(M)) - decay) @ y)


def literal(field, x, y, ridge, z, time):
    (theta, prior), (cross, prior_cross), own = kernels(field, x), kernels(field, z, x), kernels(field, z)[1]
    A = weights(theta, ridge, np.eye(len(x)), time).T
    rows = cross @ A.T
    noise = np.diag(ridge) * np.trace(theta) / len(x) if field == "nngp" else 0.0
    return rows @ y, own + rows @ (prior + noise) @ rows.T - rows @ prior_cross.T - prior_cross @ rows.T


@FEW
@given(st.integers(0, 99), TIMES, st.sampled_from(["ntk", "nngp"]))
def test_means_and_covariances_are_the_written_out_ones(seed, time, field):
    x, y, ridge = data(seed)
    z = np.random.default_rng(seed + 1).normal(size=(4, 3))
    model = et.InfiniteEnsemble(NET, time=time, learning_rate=1.3, ridge=ridge, kernel=field).fit(x, y)
    for found, expected in zip(model.predict(z, return_cov=True), literal(field, x, y, ridge, z, time), strict=True):
        close(found, expected)


@pytest.mark.parametrize("solver", ["cholesky", "pcg", "lanczos", "eigh"])
@pytest.mark.parametrize("time", [4.0, np.inf])
def test_every_exact_solver_takes_it(solver, time):
    x, y, ridge = data(3, n=30)
    theta = kernels("ntk", x)[0]
    expected = weights(theta, ridge, y, time, rate=1.0)
    found = solve(theta, y, ridge=ridge, time=time, solver=solver).coefficients
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    mean, std = et.InfiniteEnsemble(NET, ridge=ridge, time=time, solver=solver).fit(x, y).predict(x, return_std=True)
    np.testing.assert_allclose(mean, theta @ expected, rtol=1e-5, atol=1e-6)
    eigh = et.InfiniteEnsemble(NET, ridge=ridge, time=time).fit(x, y).predict(x, return_std=True)
    np.testing.assert_allclose(std, eigh[1], rtol=1e-4, atol=1e-5)


def test_approximations_refuse_it_by_name():
    solver = "nystrom"
    x, y, ridge = data(0)
    with pytest.raises(
        InvalidArgumentError, match=f"ridge has 'a value for each sample'; expected one number; solver is '{solver}'"
    ):
        et.InfiniteEnsemble(NET, ridge=ridge, solver=solver).fit(x, y)
    with pytest.raises(
        InvalidArgumentError, match=f"ridge has 'a value for each sample'; expected one number; solver is '{solver}'"
    ):
        solve(np.eye(6) + 1, y, ridge=ridge, solver=solver)


@FEW
@given(st.integers(0, 99), st.booleans())
def test_the_evidence_is_the_gaussian_density_of_equal_samples_too(seed, repeated):
    x, y, ridge = data(seed)
    if repeated:
        x[1], y[1], ridge[1] = x[0], y[0], ridge[0]
        x[3], y[3] = x[2], y[2]
    model = et.InfiniteEnsemble(NET, ridge=ridge).fit(x, y)
    theta = kernels("ntk", x)[0]
    M = theta + np.diag(ridge) * np.trace(theta) / len(x)
    expected = scipy.stats.multivariate_normal(np.zeros(len(x)), M).logpdf(y.T).sum()
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-8)
    close(model.predict(x), theta @ np.linalg.solve(M, y))
    with pytest.raises(
        InvalidArgumentError, match="ridge has 'a value for each sample'; expected one number; the derivative"
    ):
        _ = model.log_marginal_likelihood_slope_


@pytest.mark.parametrize("time", [3.0, np.inf])
def test_copies_share_the_ridge_of_their_sample(time):
    rng = np.random.default_rng(1)
    x, y, ridge = rng.normal(size=(4, 4, 4, 1)), rng.normal(size=4), np.array([0.05, 0.3, 0.1, 0.5])
    action = et.actions.image_rotations(4)
    model = et.InfiniteEnsemble(IMAGES, action, ridge=ridge, time=time).fit(x, y)
    assert model.solver_.startswith("orbit-averaged")
    copies = np.concatenate([np.asarray(action(g, x)) for g in range(4)])
    explicit = et.InfiniteEnsemble(IMAGES, ridge=np.tile(ridge, 4), time=time).fit(copies, np.tile(y, 4))
    z = rng.normal(size=(3, 4, 4, 1))
    np.testing.assert_allclose(model.predict(z), explicit.predict(z), rtol=1e-6, atol=1e-8)
    every = et.InfiniteEnsemble(IMAGES, et.actions.subset(action, [0, 1]), ridge=ridge, time=time).fit(x, y)
    half = et.InfiniteEnsemble(IMAGES, ridge=np.tile(ridge, 2), time=time).fit(copies[:8], np.tile(y, 2))
    np.testing.assert_allclose(every.predict(z), half.predict(z), rtol=1e-6, atol=1e-8)
    with pytest.raises(
        InvalidArgumentError, match="ridge has 'a value for each sample'; expected one number; irreps of"
    ):
        model.predict(z, return_std=True)


def test_fields_have_the_ridge_of_their_sample_at_every_position():
    rng = np.random.default_rng(2)
    net = et.nn.Sequential(et.nn.Conv(4, (3, 3), b_std=0.3), et.nn.Relu(), et.nn.Conv(1, (1, 1)))
    x, y, ridge = rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 3, 3)), np.array([0.1, 0.5, 0.2])
    model = et.InfiniteEnsemble(net, ridge=ridge).fit(x, y)
    theta = np.asarray(net.kernel_field(x).ntk, np.float64)
    theta = (theta if theta.shape[1] == 9 else theta.transpose(0, 2, 3, 1, 4, 5)).reshape(27, 27)
    alpha = weights(theta, np.repeat(ridge, 9), y.reshape(27, 1), np.inf)
    np.testing.assert_allclose(model.predict(x).ravel(), (theta @ alpha)[:, 0], rtol=1e-5, atol=1e-6)


class TestAsAParameter:
    @pytest.mark.parametrize(
        "bad", [[0.1, -0.1], [0.1, np.nan], [np.inf, 1], [[0.1]], [], "0.1", None, np.nan, -1, [True, False], [[1], 2]]
    )
    def test_what_is_none_is_refused(self, bad):
        with pytest.raises(InvalidArgumentError, match=r"ridge.* is .*; it must be a finite number ≥ 0"):
            Ridge.read(bad)

    def test_there_is_one_for_each_sample(self):
        x, y, ridge = data(0)
        with pytest.raises(ShapeError, match="ridge has length 5; expected 6"):
            et.InfiniteEnsemble(NET, ridge=ridge[1:]).fit(x, y)
        with pytest.raises(ShapeError, match="ridge has length 5; expected 6"):
            solve(np.eye(6), y, ridge=ridge[1:])
