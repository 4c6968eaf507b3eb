"""Learning curves of any model, literally, and what a pool's kernel predicts of them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import scipy.optimize
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from equitangents import InfiniteEnsemble, InfiniteEnsembleClassifier, nn
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotPositiveDefiniteError, ShapeError
from equitangents.kernels import Kernels
from equitangents_studies.data import digits
from equitangents_studies.systems import learning_curve
from equitangents_studies.systems.curves import curve_data
from equitangents_studies.systems.predictions import cavity_risk, omniscient_risk, pool_spectrum

NET = nn.Sequential(nn.Dense(8, W_std=2**0.5, b_std=0.3), nn.Relu(), nn.Dense(1))
FLAT = nn.Sequential(nn.Flatten(), *NET.layers)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(70, 3))
    return x, np.tanh(x @ rng.normal(size=(3, 2)))


class Counting:
    """A kernel that counts what it is asked for."""

    def __init__(self):
        self.pairs = 0

    def kernel(self, x1, x2=None):
        self.pairs += len(x1) * len(x1 if x2 is None else x2)
        return NET.kernel(x1, x2)


class Remembering:
    """A model that keeps what it was trained on, and predicts zeros."""

    seen: ClassVar[list] = []

    def fit(self, x, y):
        type(self).seen.append([tuple(row) for row in x])
        self.outputs = y.reshape(len(y), -1).shape[1]
        return self

    def predict(self, x):
        return np.zeros((len(x), self.outputs))


class TestTrainingSets:
    def test_are_nested_and_never_hold_what_is_tested_on(self, regression):
        x, y = regression
        Remembering.seen = []
        learning_curve(Remembering(), x, y, sizes=[5, 10, 30], repetitions=2, seed=3)
        for r in range(2):
            small, middle, large = Remembering.seen[3 * r : 3 * r + 3]
            assert (len(small), len(middle), len(large)) == (5, 10, 30)
            assert small == middle[:5]
            assert middle == large[:10]
            order, test = curve_data(x, y).split(r, 3)
            assert not {tuple(row) for row in x[test]} & set(large)
            assert len(test) == 14
            assert large == [tuple(row) for row in x[order[:30]]]
        assert Remembering.seen[0] != Remembering.seen[3]

    def test_the_seed_decides_everything(self, regression):
        one, same, other = (learning_curve(NET, *regression, sizes=[5, 10], seed=s) for s in (0, 0, 1))
        np.testing.assert_array_equal(one.squared, same.squared)
        assert (one.squared != other.squared).any()

    def test_default_sizes_double_up_to_half_of_what_is_not_tested_on(self, regression):
        sizes = learning_curve(NET, *regression, repetitions=1).sizes
        assert sizes.tolist() == [14, 28]


class TestKernels:
    @pytest.mark.parametrize("kernel", ["ntk", "nngp"])
    def test_errors_are_those_of_a_solve_for_each_training_set(self, regression, kernel):
        x, y = regression
        curve = learning_curve(NET, x, y, sizes=[4, 11, 40], repetitions=2, kernel=kernel, ridge=1e-3)
        K = np.asarray(getattr(NET.kernel(x), kernel))
        unit = np.diagonal(K).mean()
        for r in range(2):
            order, test = curve_data(x, y).split(r, 0)
            for i, n in enumerate((4, 11, 40)):
                a = order[:n]
                f = K[np.ix_(test, a)] @ np.linalg.solve(K[np.ix_(a, a)] + 1e-3 * unit * np.eye(n), y[a])
                assert curve.squared[i, r] == pytest.approx(((f - y[test]) ** 2).sum(axis=1).mean(), rel=1e-9)

    def test_one_matrix_serves_all_sizes_and_repetitions(self, regression):
        counting = Counting()
        learning_curve(counting, *regression, sizes=[5, 10, 20, 40], repetitions=6)
        assert counting.pairs == 70**2

    def test_a_test_set_of_its_own_is_what_all_repetitions_test_on(self, regression):
        x, y = regression
        curve = learning_curve(NET, x[:50], y[:50], test=(x[50:], y[50:]), sizes=[5, 50], repetitions=2)
        K = np.asarray(NET.kernel(x).ntk)
        ridge = 1e-5 * np.diagonal(K)[:50].mean() * np.eye(50)
        f = K[50:, :50] @ np.linalg.solve(K[:50, :50] + ridge, y[:50])
        np.testing.assert_allclose(curve.squared[1], ((f - y[50:]) ** 2).sum(axis=1).mean(), rtol=1e-6)

    def test_large_pools_are_computed_in_tiles_with_the_same_numbers(self, regression, monkeypatch):
        whole = learning_curve(NET, *regression, sizes=[5, 20], repetitions=2)
        monkeypatch.setattr("equitangents_studies.systems.grams._ROWS", 13)
        counting = Counting()
        tiled = learning_curve(counting, *regression, sizes=[5, 20], repetitions=2)
        np.testing.assert_allclose(tiled.squared, whole.squared, rtol=1e-9)
        assert counting.pairs < 0.65 * 70**2

    def test_the_prediction_is_close_to_what_is_measured(self):
        data = digits()
        x, y = data.train_x[:400].astype(np.float64), data.train_y[:400]
        for predict, tolerance in (("spectrum", 0.2), ("inputs", 0.1)):
            how = {"ridge": 1e-3, "repetitions": 8, "test": 0.4, "predict": predict}
            curve = learning_curve(FLAT, x, y, sizes=[60, 120, 240], **how)
            np.testing.assert_allclose(curve.predicted / curve.squared.mean(axis=1), 1, atol=tolerance)

    def test_a_singular_kernel_names_the_ridge(self):
        x = np.ones((20, 2))
        with pytest.raises(NotPositiveDefiniteError, match=r"ridge is 0.0; .*take a larger one"):
            learning_curve(NET, x, np.arange(20.0), sizes=[10], ridge=0.0, predict=None)


class TestAnyModel:
    @pytest.mark.parametrize(
        "model",
        [
            InfiniteEnsemble(FLAT, time=3.0),
            InfiniteEnsemble(FLAT, ridge=1e-2, kernel="nngp"),
            InfiniteEnsemble(FLAT, augmentation="C4", ridge=1e-3),
        ],
    )
    def test_ensembles_are_those_that_are_fitted_to_each_training_set(self, model):
        x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
        y = x[:, :2, :2].sum(axis=(1, 2, 3))
        curve = learning_curve(model, x, y, sizes=[6, 10], repetitions=1)
        order, test = curve_data(x, y).split(0, 0)
        f = model.fit(x[order[:10]], y[order[:10]]).predict(x[test])
        assert curve.squared[1, 0] == pytest.approx(((f - y[test]) ** 2).mean(), rel=1e-8)

    def test_classifiers_by_labels_of_any_kind(self):
        data = digits()
        x, y = data.train_x[:200].reshape(200, -1), np.array([f"digit {d}" for d in data.train_y[:200]])
        curve = learning_curve(KNeighborsClassifier(1), x, y, sizes=[20, 80])
        assert curve.squared is None
        assert 0 < curve.classification[1].mean() < curve.classification[0].mean() < 1
        wide = learning_curve(InfiniteEnsembleClassifier(NET, ridge=1e-3), x, y, sizes=[20, 80])
        assert wide.classification.shape == (2, 5)
        numbers = learning_curve(Ridge(), x, data.train_y[:200], sizes=[20, 80])
        assert numbers.classification.shape == numbers.squared.shape == (2, 5)

    def test_scores_are_matched_to_the_classes_that_were_trained_on(self):
        class Scores:
            def fit(self, x, y):
                self.classes_ = np.unique(y)[::-1]  # in an order of its own
                return self

            def predict(self, x):
                return (x == self.classes_).astype(float)

        y = np.arange(40) % 3
        curve = learning_curve(Scores(), y[:, None].astype(float), y, sizes=[20])
        np.testing.assert_array_equal(curve.classification, 0)

    def test_a_function_of_a_seed_makes_a_model_for_each_training_set(self, regression):
        seeds = []

        def make(seed):
            seeds.append(seed)
            return Ridge()

        learning_curve(make, *regression, sizes=[5, 10], repetitions=3, seed=7)
        assert seeds == [7, 7, 8, 8, 9, 9]

    def test_what_is_not_a_number_is_wrong(self):
        class Lost(Remembering):
            classes_ = np.array([0, 1])

            def predict(self, x):
                return np.full((len(x), 2), np.nan)

        curve = learning_curve(Lost(), np.zeros((20, 1)), np.arange(20) % 2, sizes=[10])
        np.testing.assert_array_equal(curve.classification, 1)


class TestTheRecord:
    def test_intervals_are_students_and_the_table_has_them(self, regression):
        curve = learning_curve(NET, *regression, sizes=[5, 10, 20], confidence=0.9)
        e = curve.estimates()[1]
        assert e.value == pytest.approx(curve.squared[1].mean())
        assert e.low < e.value < e.high
        assert len(repr(curve).splitlines()) == 3 + len(curve.sizes)

    def test_power_laws_are_fitted_to_all_repetitions(self, regression):
        curve = learning_curve(NET, *regression, sizes=[5, 8, 12, 20, 30, 50], repetitions=6)
        law = curve.fit(1)
        assert law.exponent.low > 0
        assert law.at(100).value < law.at(20).low


@pytest.mark.parametrize(
    ("error", "how", "said"),
    [
        (InvalidArgumentError, {"sizes": [10, 5]}, "increasing"),
        (InvalidArgumentError, {"sizes": [57]}, "expected 1 to 56"),
        (InvalidTypeError, {"sizes": 10}, "sizes"),
        (InvalidArgumentError, {"test": 1.5}, "test"),
        (InvalidArgumentError, {"kernel": "rbf"}, "kernel"),
        (InvalidArgumentError, {"predict": "all"}, "predict"),
        (InvalidArgumentError, {"ridge": -1.0}, "ridge"),
        (InvalidArgumentError, {"repetitions": 0}, "repetitions"),
        (InvalidTypeError, {"confidence": "95"}, "confidence is '95'"),
        (ShapeError, {"test": (np.zeros((3, 4)), np.zeros(3))}, "test has shapes"),
        (InvalidTypeError, {"model": "a model"}, "model"),
    ],
)
def test_bad_arguments_are_refused_by_name(regression, error, how, said):
    given = {"model": NET} | how
    with pytest.raises(error, match=said):
        learning_curve(given.pop("model"), *regression, **given)


@pytest.mark.parametrize(
    ("labels", "others"), [(int, float), (float, int), (str, int), (bool, str), (bool, int), (np.int64, np.uint64)]
)
def test_classes_and_targets_are_not_mixed(labels, others):
    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(InvalidTypeError, match="classes of one kind"):
        curve_data(x, y.astype(labels), test=(x, y.astype(others)))


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
        many = np.maximum(values, 0) / 300
        kappa = scipy.optimize.brentq(lambda k: np.sum(many / (many + k)) + ridge / k - n, 1e-9, 1e6)
        learnt = many / (many + kappa)
        published = (n / (n - np.sum(learnt**2))) * np.sum((1 - learnt) ** 2 * power) / 300
        repeated = lambda a: np.concatenate([a * copies, np.zeros(300 * (copies - 1))])
        spectrum = type(pool_spectrum(np.eye(2), np.ones(2)))(repeated(values).clip(0), repeated(power))
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


@pytest.mark.parametrize(
    ("risk", "K", "sizes", "ridge", "error", "said"),
    [
        (omniscient_risk, np.eye(300), [301], 0.1, InvalidArgumentError, "expected 1 to 300"),
        (omniscient_risk, np.ones((5, 5)), [3], 0.0, InvalidArgumentError, "less than 1, the rank"),
        (omniscient_risk, np.ones((5, 5)), [2], 0.0, InvalidArgumentError, "less than 1, the rank"),
        (omniscient_risk, np.ones((5, 300)), [3], 0.0, ShapeError, "square"),
        (cavity_risk, np.eye(5), [3], -1.0, InvalidArgumentError, "ridge"),
    ],
)
def test_what_the_pool_cannot_tell_is_refused(risk, K, sizes, ridge, error, said):
    with pytest.raises(error, match=said):
        risk(K, np.ones(len(K)), sizes, ridge=ridge)


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
        return x, np.sin(x[:, 0])

    def test_the_squared_errors_of_all_training_sets_are_far_above_what_is_predicted(self, repeated):
        curve = learning_curve(Gaussian(), *repeated, sizes=[30, 90], ridge=1e-6, repetitions=3)
        assert curve.squared[1].min() > 2 * curve.predicted[1]


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
