import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotPositiveDefiniteError, ShapeError
from equitangents.inference import Flow, TrainedProcess, decompose
from equitangents.inference.draws import sample_gaussian
from equitangents.inference.dynamics import Descent
from examples import examples
from oracles import literal_training

N, M, OUTPUTS = 7, 4, 2
TIMES = [0.0, 0.01, 1.0, 2.0, 9.0, 40.0, np.inf]
seeds, ridges = st.integers(0, 10**6), st.sampled_from([0.0, 0.3])


def kernels(seed, rank=30, prior_rank=30):
    """Two unrelated positive definite kernels on N + M inputs, and targets."""
    rng = np.random.default_rng(seed)
    F, H = rng.normal(size=(N + M, rank)), rng.normal(size=(N + M, prior_rank))
    return F @ F.T / rank, H @ H.T / prior_rank, rng.normal(size=(N, OUTPUTS))


def blocks(matrix):
    return matrix[:N, :N], matrix[N:, :N], matrix[N:, N:]


def trained(Theta, K, y, *, dynamics=Flow, learning_rate=1.0, ridge=0.0):
    prior = None if K is None else K[:N, :N]
    return TrainedProcess(decompose(Theta[:N, :N], ridge=ridge), y, dynamics(learning_rate, N), prior=prior)


def delta(Theta, ridge):
    return ridge * np.trace(Theta[:N, :N]) / N


class TestLiteralFormulas:
    @given(seeds, ridges, st.sampled_from(TIMES), st.sampled_from([Flow, Descent]), st.booleans())
    @examples(40, random=80)
    def test_of_flow_descent_and_the_posterior(self, seed, ridge, time, dynamics, posterior):
        Theta, K, y = kernels(seed)
        Theta = K if posterior else Theta
        (T, T_cross, _), (P, P_cross, P_test) = blocks(Theta), blocks(K)
        d, kind = delta(Theta, ridge), "flow"
        if dynamics is Descent:
            time, kind = np.ceil(min(time, 9.0)) if np.isfinite(time) else time, "discrete"
        rate = 1.9 * N / (np.linalg.eigvalsh(T)[-1] + d) if dynamics is Descent else 0.8
        A = literal_training.operator(T, T_cross, time=time, learning_rate=rate, delta=d, dynamics=kind)
        process = trained(Theta, None if posterior else K, y, dynamics=dynamics, learning_rate=rate, ridge=ridge)
        at = process.project(T_cross, P_cross)
        expected = literal_training.covariance(A, P, P_cross, P_test)
        if posterior:
            expected = literal_training.posterior_covariance(A, P, P_cross, P_test, d)
        np.testing.assert_allclose(at.mean(time), A @ y, atol=1e-10)
        np.testing.assert_allclose(at.covariance(P_test, time), expected, atol=1e-9)
        np.testing.assert_allclose(at.covariance(np.diag(P_test), time), np.diag(expected), atol=1e-9)
        if dynamics is Descent:
            assert process.max_learning_rate == pytest.approx(rate / 0.95, rel=1e-12)

    @pytest.mark.parametrize("time", [0.0, 0.5, 30.0])
    def test_a_singular_kernel_at_finite_times(self, time):
        Theta, K, y = kernels(1, rank=3)
        (T, T_cross, _), (P, P_cross, P_test) = blocks(Theta), blocks(K)
        A = literal_training.operator(T, T_cross, time=time)
        at = trained(Theta, K, y).project(T_cross, P_cross)
        np.testing.assert_allclose(at.mean(time), A @ y, atol=1e-11)
        np.testing.assert_allclose(
            at.covariance(P_test, time), literal_training.covariance(A, P, P_cross, P_test), atol=1e-11
        )
        with pytest.raises(NotPositiveDefiniteError, match="ridge="):
            at.mean(np.inf)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_gradient_descent_on_parameters_of_a_linear_model(ridge):
    """f = f_0 + F·w, f_0 a draw from GP(0, K): the loop's mean and covariance over f_0, by linearity exactly."""
    rng = np.random.default_rng(5)
    F, H = rng.normal(size=(N + M, 12)) / 3, rng.normal(size=(N + M, 9)) / 3
    Theta, K, y = F @ F.T, H @ H.T, rng.normal(size=(N, OUTPUTS))
    d, steps = delta(Theta, ridge), 25
    eta = 1.5 * N / (np.linalg.eigvalsh(Theta[:N, :N])[-1] + d)
    run = {"learning_rate": eta, "steps": steps, "delta": d}
    mean = literal_training.descend(F[:N], 0, y, F[N:], 0, **run)
    # One start for each feature of the prior: columns of a square root of the covariance after training.
    root = literal_training.descend(F[:N], H[:N], np.zeros((N, 9)), F[N:], H[N:], **run)
    at = trained(Theta, K, y, dynamics=Descent, learning_rate=eta, ridge=ridge).project(Theta[N:, :N], K[N:, :N])
    np.testing.assert_allclose(at.mean(steps), mean, atol=1e-12)
    np.testing.assert_allclose(at.covariance(K[N:, N:], steps), root @ root.T, atol=1e-12)


class TestLaws:
    @given(seeds)
    def test_after_training_the_data_are_interpolated_without_variance(self, seed):
        Theta, K, y = kernels(seed)
        at = trained(Theta, K, y).project(Theta[:N, :N], K[:N, :N])
        np.testing.assert_allclose(at.mean(np.inf), y, atol=1e-9)
        np.testing.assert_allclose(at.covariance(K[:N, :N], np.inf), 0, atol=1e-9)

    @given(seeds, st.floats(0, 1e4), st.floats(0, 1))
    def test_covariances_are_symmetric_and_positive_semidefinite(self, seed, time, ridge):
        Theta, K, y = kernels(seed)
        covariance = trained(Theta, K, y, ridge=ridge).project(Theta[:, :N], K[:, :N]).covariance(K, time)
        np.testing.assert_array_equal(covariance, covariance.T)
        assert np.linalg.eigvalsh(covariance)[0] > -1e-12 * np.linalg.eigvalsh(K)[-1]


@pytest.mark.parametrize("posterior", [False, True])
def test_variances_on_the_training_data_are_zero_or_more_after_infinite_time(posterior):
    found = []
    for seed in range(20):
        features = np.random.default_rng(seed).normal(size=(12, 14))
        K = features @ features.T
        process = TrainedProcess(decompose(K), np.ones((12, 1)), Flow(1.0, 12), prior=None if posterior else K)
        found.append(process.project(K, K).covariance(np.diag(K), np.inf))
    assert np.min(found) >= 0
    assert np.max(found) < 1e-6
    assert np.count_nonzero(found) > 0


class TestSamples:
    def test_their_moments(self):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(3, 3))
        mean, covariance, n = rng.normal(size=(3, 2)), root @ root.T, 40_000
        draws = sample_gaussian(mean, covariance, n, key=jax.random.key(1))
        assert draws.shape == (n, 3, 2)
        assert draws.dtype == np.float64
        centred = draws - mean
        errors = np.sqrt(np.diag(covariance) / n)
        assert (np.abs(draws.mean(0) - mean) < 4 * errors[:, None]).all()
        for k in range(2):
            measured = centred[:, :, k].T @ centred[:, :, k] / n
            error = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / n)
            assert (np.abs(measured - covariance) < 4 * error).all()
        across = np.abs(np.einsum("ni,nj->ij", centred[:, :, 0], centred[:, :, 1]) / n)
        assert (across < 4 * np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) / n)).all()

    def test_no_variance_no_spread(self):
        covariance = np.ones((3, 3))  # one shared number
        draws = sample_gaussian(np.zeros((3, 1)), covariance, 5, key=jax.random.key(0))
        np.testing.assert_allclose(draws, np.repeat(draws[:, :1], 3, axis=1), atol=1e-7)
        still = sample_gaussian(np.ones((3, 1)), np.zeros((3, 3)), 5, key=jax.random.key(0))
        np.testing.assert_array_equal(still, 1)


def test_bad_input():
    Theta, K, y = kernels(0)
    spectrum, flow = decompose(Theta[:N, :N]), Flow(1.0, N)
    one, at = {"n": 1, "key": jax.random.key(0)}, trained(Theta, K, y).project(Theta[N:, :N])
    for work, error, message in (
        (lambda: TrainedProcess(spectrum, y[:3], flow), ShapeError, "targets has rows, 3"),
        (lambda: TrainedProcess(spectrum, y[:, 0], flow), ShapeError, "targets has rank 1"),
        (lambda: TrainedProcess(spectrum, y, flow, prior=K), ShapeError, "prior has shape"),
        (lambda: TrainedProcess(spectrum, y, flow).project(Theta), ShapeError, r"cross has shape .*\(any, 7\)"),
        (lambda: at.covariance(np.diag(K)[N:], 1.0), InvalidArgumentError, "None"),
        (lambda: sample_gaussian(np.zeros((1, 1)), np.eye(1), **one | {"n": 0}), InvalidArgumentError, "n is 0"),
        (lambda: sample_gaussian(np.zeros((1, 1)), np.eye(1), **one | {"key": 0}), InvalidTypeError, "expected a key"),
    ):
        with pytest.raises(error, match=message):
            work()
