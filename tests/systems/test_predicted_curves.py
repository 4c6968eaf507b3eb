"""What a pool's kernel predicts of learning curves, against random training sets and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.kernels import Kernels
from equitangents_studies.systems import cavity_risk, learning_curve, omniscient_risk
from equitangents_studies.systems.predictions import missed, pool_spectrum


def measured(K, y, n, ridge, draws=30):
    """The literal mean over training sets, on inputs that are not trained on."""
    rng, found = np.random.default_rng(0), []
    for _ in range(draws):
        order = rng.permutation(len(K))
        a, b = order[:n], order[n:]
        f = K[np.ix_(b, a)] @ np.linalg.solve(K[np.ix_(a, a)] + ridge * np.eye(n), y[a])
        found.append(((f - y[b]) ** 2).sum(axis=1).mean())
    return float(np.mean(found))


@pytest.fixture(scope="module")
def alike():
    """A kernel of Gaussian features with a power-law spectrum: no input is easier than another. Two targets."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 400)) * np.arange(1, 401) ** -0.75
    y = features @ rng.normal(size=(400, 2)) + 0.1 * rng.normal(size=(300, 2))
    return features @ features.T, y


@pytest.fixture(scope="module")
def unlike():
    """Half of the inputs lie close together, and are easy; the others are far apart."""
    rng = np.random.default_rng(0)
    x = np.concatenate([0.1 * rng.normal(size=(150, 12)), rng.normal(size=(150, 12))])
    K = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 24)
    return K, np.stack([np.sin(x.sum(axis=1)), x[:, 0]], axis=1)


class TestTheSpectrumAlone:
    @pytest.mark.parametrize("n", [20, 60, 150, 270])
    @pytest.mark.parametrize("ridge", [1e-3, 0.3])
    def test_predicts_the_mean_error_where_inputs_are_alike(self, alike, n, ridge):
        K, y = alike
        assert omniscient_risk(K, y, [n], ridge=ridge)[0] == pytest.approx(measured(K, y, n, ridge), rel=0.06)

    def test_with_the_whole_pool_is_generalised_cross_validation(self, alike):
        K, y = alike
        H = K @ np.linalg.inv(K + 0.2 * np.eye(300))
        gcv = ((y - H @ y) ** 2).sum(axis=1).mean() / (1 - np.trace(H) / 300) ** 2
        assert omniscient_risk(K, y, [300], ridge=0.2)[0] == pytest.approx(gcv, rel=1e-9)

    def test_of_few_samples_is_the_published_estimate(self, alike):
        K, y = alike
        values, vectors = np.linalg.eigh(K)
        power = ((vectors.T @ y) ** 2).sum(axis=1)
        n, ridge, copies = 15, 0.1, 400  # a pool in which every input occurs so often
        many = np.maximum(np.concatenate([values * copies, np.zeros(0)]), 0) / (300 * copies)
        excess = lambda k: np.sum(many / (many + k)) + ridge / k - n
        kappa = scipy.optimize.brentq(excess, 1e-9, 1e6)
        learnt = many / (many + kappa)
        published = (n / (n - np.sum(learnt**2))) * np.sum((1 - learnt) ** 2 * power) / 300
        spectrum = type(pool_spectrum(np.eye(2), np.ones(2)))(
            np.concatenate([values * copies, np.zeros(300 * (copies - 1))]).clip(0),
            np.concatenate([power * copies, np.zeros(300 * (copies - 1))]),
        )
        assert spectrum.risk(n, ridge) == pytest.approx(published, rel=2e-3)

    def test_does_not_depend_on_the_units_of_the_kernel(self, alike):
        K, y = alike
        a, b = omniscient_risk(K, y, [30, 90], ridge=0.1), omniscient_risk(7 * K, y, [30, 90], ridge=0.7)
        np.testing.assert_allclose(a, b, rtol=1e-8)

    def test_nothing_is_learnt_of_independent_inputs(self):
        y = np.random.default_rng(0).normal(size=50)
        np.testing.assert_allclose(omniscient_risk(np.eye(50), y, [5, 40]), (y**2).mean(), rtol=1e-9)


class TestEveryInputForItself:
    @pytest.mark.parametrize("n", [40, 100, 200])
    def test_predicts_the_mean_error_where_some_inputs_are_easier(self, unlike, n):
        K, y = unlike
        truth = measured(K, y, n, 1e-2)
        assert cavity_risk(K, y, [n], ridge=1e-2)[0] == pytest.approx(truth, rel=0.06)
        if n == 200:
            assert omniscient_risk(K, y, [n], ridge=1e-2)[0] != pytest.approx(truth, rel=0.15)

    def test_with_the_whole_pool_is_leaving_one_out(self, unlike):
        K, y = unlike
        A = np.linalg.inv(K + 0.05 * np.eye(300))
        exact = ((A @ y / np.diagonal(A)[:, None]) ** 2).sum(axis=1).mean()
        assert cavity_risk(K, y, [300], ridge=0.05)[0] == pytest.approx(exact, rel=1e-6)

    def test_agrees_with_the_spectrum_where_inputs_are_alike(self, alike):
        K, y = alike
        one, other = (risk(K, y, [50, 150], ridge=0.05) for risk in (cavity_risk, omniscient_risk))
        np.testing.assert_allclose(one, other, rtol=0.03)


def test_what_the_pool_cannot_tell_is_refused(alike):
    K, y = alike
    with pytest.raises(InvalidArgumentError, match="expected 1 to 300"):
        omniscient_risk(K, y, [301], ridge=0.1)
    with pytest.raises(InvalidArgumentError, match="less than 1, the rank"):
        omniscient_risk(np.ones((5, 5)), np.ones(5), [3])
    with pytest.raises(InvalidArgumentError, match="less than 1, the rank"):
        omniscient_risk(np.ones((5, 5)), np.ones(5), [2])
    with pytest.raises(ShapeError, match="square"):
        omniscient_risk(K[:5], y[:5], [3])
    with pytest.raises(InvalidArgumentError, match="ridge"):
        cavity_risk(K, y, [3], ridge=-1.0)


class Gaussian:
    """A kernel of vectors that networks have not."""

    def kernel(self, a, b=None, **_):
        K = np.exp(-((a[:, None] - (a if b is None else b)) ** 2).sum(axis=2) / 10)
        return Kernels(K, K)


class TestWherePredictionsFail:
    """Inputs that nearly repeat each other are worth one, and no spectrum says so; training sets do."""

    @pytest.fixture
    def repeated(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(60, 5))
        x = np.concatenate([x, x + 0.01 * rng.normal(size=x.shape)])
        return x, np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 10), np.sin(x[:, :1])

    @pytest.mark.parametrize("risk", [cavity_risk, omniscient_risk])
    def test_a_warning_says_by_how_much(self, repeated, risk, caplog):
        _, K, y = repeated
        with caplog.at_level("WARNING"):
            predicted = risk(K, y, [30, 90], ridge=1e-6)
        (record,) = caplog.records
        assert record.message.startswith(f"{risk.__name__} predicts an error of ")
        assert "at 90 training inputs" in record.message
        assert predicted[1] < measured(K, y, 90, 1e-6) / 100

    @pytest.mark.parametrize("risk", [cavity_risk, omniscient_risk])
    def test_none_where_they_hold(self, alike, risk, caplog):
        with caplog.at_level("WARNING"):
            risk(*alike, [20, 150], ridge=0.3)
            risk(*alike, [300], ridge=0.3)  # no input is left to test on
        assert not caplog.records

    def test_curves_say_so_in_their_table(self, repeated):
        x, _, y = repeated
        net = Gaussian()
        curve = learning_curve(net, x, y[:, 0], sizes=[30, 90], ridge=1e-6, repetitions=3)
        assert curve.missed is not None
        assert curve.missed.size == 90
        assert repr(curve.missed) in repr(curve)

    def test_each_training_set_must_differ_by_more_than_twice(self):
        assert missed([5], np.array([1.0]), np.array([[2.5, 1.9]])) is None
        assert missed([5], np.array([1.0]), np.array([[0.4, 0.6]])) is None
        low = missed([5, 9], np.array([1.0, 1.0]), np.array([[1.0, 1.0], [2.5, 3.0]]))
        high = missed([5, 9], np.array([1.0, 1.0]), np.array([[1.0, 1.0], [0.4, 0.2]]))
        assert (low.size, low.predicted, low.measured) == (9, 1, 2.75)
        assert (high.size, high.predicted, high.measured) == (9, 1, pytest.approx(0.3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "rank"), [(5, 1), (60, 7), (200, 30)])
def test_the_rank_is_not_a_matter_of_rounding(size, rank, dtype, rng):
    """Of a product of features of known rank, to which rounding as large as entries have it is added, in many ways."""
    features = np.ones((size, 1)) if rank == 1 else rng.normal(size=(size, rank))
    K, y = features @ features.T, rng.normal(size=size)
    for _ in range(5):
        E = np.finfo(dtype).eps * abs(K) * rng.uniform(-0.5, 0.5, K.shape)
        given = (K + (E + E.T) / 2).astype(dtype)
        assert (pool_spectrum(given, y).eigenvalues > 0).sum() == rank
        for risk in (omniscient_risk, cavity_risk):
            with pytest.raises(InvalidArgumentError, match=f"less than {rank}, the rank of K"):
                risk(given, y, [rank])


def test_a_kernel_of_zeros_predicts_nothing():
    y = np.array([1.0, -2.0, 3.0, 0.5])
    for risk in (omniscient_risk, cavity_risk):
        np.testing.assert_allclose(risk(np.zeros((4, 4)), y, [1, 3], ridge=0.1), (y**2).mean())
    for ridge in np.geomspace(1e-3, 1e3, 50):  # to the last digit, also where 1/(1/ridge) is not the ridge
        assert pool_spectrum(np.zeros((4, 4)), y).effective_ridge(4, ridge) == (ridge, 0.0)
