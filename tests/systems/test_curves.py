"""Learning curves: nested sets, one kernel for all of them, any model, and errors that are what they say."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from equitangents import InfiniteEnsemble, InfiniteEnsembleClassifier, nn
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotPositiveDefiniteError, ShapeError
from equitangents_studies.data import digits
from equitangents_studies.systems import learning_curve
from equitangents_studies.systems.curves import curve_data

NET = nn.Sequential(nn.Dense(8, W_std=2**0.5, b_std=0.3), nn.Relu(), nn.Dense(1))


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

    def test_a_test_set_of_its_own_is_never_compared_with_itself(self, regression):
        x, y = regression
        counting = Counting()
        curve = learning_curve(counting, x[:50], y[:50], test=(x[50:], y[50:]), sizes=[5, 50], repetitions=1)
        assert curve.test_inputs == 20
        whole = learning_curve(NET, (x[:50], y[:50], x[50:], y[50:]), sizes=[5, 50], repetitions=1)
        np.testing.assert_allclose(curve.squared, whole.squared, rtol=1e-12)

    def test_large_pools_are_computed_in_tiles_with_the_same_numbers(self, regression, monkeypatch):
        whole = learning_curve(NET, *regression, sizes=[5, 20], repetitions=2)
        monkeypatch.setattr("equitangents_studies.systems.grams._ROWS", 13)
        counting = Counting()
        tiled = learning_curve(counting, *regression, sizes=[5, 20], repetitions=2)
        np.testing.assert_allclose(tiled.squared, whole.squared, rtol=1e-9)
        assert counting.pairs < 0.65 * 70**2

    def test_ensembles_get_the_kernel_from_a_table_with_the_same_errors(self, regression):
        x, y = regression
        for model in (InfiniteEnsemble(NET, time=3.0), InfiniteEnsemble(NET, ridge=1e-2, kernel="nngp")):
            curve = learning_curve(model, x, y, sizes=[6, 15], repetitions=1)
            order, test = curve_data(x, y).split(0, 0)
            f = model.fit(x[order[:15]], y[order[:15]]).predict(x[test])
            assert curve.squared[1, 0] == pytest.approx(((f - y[test]) ** 2).sum(axis=1).mean(), rel=1e-8)

    def test_an_augmented_ensemble_is_trained_as_it_is(self):
        x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
        y = x[:, :2, :2].sum(axis=(1, 2, 3))
        net = nn.Sequential(nn.Flatten(), nn.Dense(8), nn.Relu(), nn.Dense(1))
        model = InfiniteEnsemble(net, augmentation="C4", ridge=1e-3)
        curve = learning_curve(model, x, y, sizes=[10], repetitions=1)
        order, test = curve_data(x, y).split(0, 0)
        f = model.fit(x[order[:10]], y[order[:10]]).predict(x[test])
        assert curve.squared[0, 0] == pytest.approx(((f - y[test]) ** 2).mean(), rel=1e-9)

    def test_the_prediction_is_close_to_what_is_measured(self):
        data = digits()
        net = nn.Sequential(nn.Flatten(), *NET.layers)
        x, y = data.train_x[:400].astype(np.float64), data.train_y[:400]
        for predict, tolerance in (("spectrum", 0.2), ("inputs", 0.1)):
            how = {"ridge": 1e-3, "repetitions": 8, "test": 0.4, "predict": predict}
            curve = learning_curve(net, x, y, sizes=[60, 120, 240], **how)
            np.testing.assert_allclose(curve.prediction_ratio, 1, atol=tolerance)

    def test_a_singular_kernel_names_the_ridge(self):
        x = np.ones((20, 2))
        with pytest.raises(NotPositiveDefiniteError, match=r"ridge is 0.0; .*take a larger one"):
            learning_curve(NET, x, np.arange(20.0), sizes=[10], ridge=0.0, predict=None)


class TestAnyModel:
    def test_classifiers_by_labels_of_any_kind(self):
        data = digits()
        x, y = data.train_x[:200].reshape(200, -1), np.array([f"digit {d}" for d in data.train_y[:200]])
        curve = learning_curve(KNeighborsClassifier(1), x, y, sizes=[20, 80])
        assert curve.squared is None
        assert 0 < curve.classification[1].mean() < curve.classification[0].mean() < 1
        wide = learning_curve(InfiniteEnsembleClassifier(NET, ridge=1e-3), x, y, sizes=[20, 80])
        assert wide.classification.shape == (2, 5)

    def test_a_regressor_of_classes_has_both_errors(self):
        data = digits()
        curve = learning_curve(Ridge(), data.train_x[:100].reshape(100, -1), data.train_y[:100], sizes=[20, 80])
        assert curve.classification.shape == curve.squared.shape == (2, 5)

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
        assert curve.table["squared_low"][1] == e.low
        assert curve.table["squared_predicted"][2] == curve.predicted[2]
        assert len(repr(curve).splitlines()) == 2 + len(curve.sizes)

    def test_power_laws_are_fitted_to_all_repetitions(self, regression):
        curve = learning_curve(NET, *regression, sizes=[5, 8, 12, 20, 30, 50], repetitions=6)
        law = curve.fit(1)
        assert law.exponent.low > 0
        assert law.at(100).value < law.at(20).low


@pytest.mark.parametrize(
    ("error", "arguments", "how", "said"),
    [
        (InvalidArgumentError, (), {"sizes": [10, 5]}, "increasing"),
        (InvalidArgumentError, (), {"sizes": [57]}, "expected 1 to 56"),
        (InvalidTypeError, (), {"sizes": 10}, "sizes"),
        (InvalidArgumentError, (), {"test": 1.5}, "test"),
        (InvalidArgumentError, (), {"kernel": "rbf"}, "kernel"),
        (InvalidArgumentError, (), {"predict": "all"}, "predict"),
        (InvalidArgumentError, (), {"ridge": -1.0}, "ridge"),
        (InvalidArgumentError, (), {"repetitions": 0}, "repetitions"),
        (InvalidTypeError, (), {"confidence": "95"}, "confidence is '95'"),
        (ShapeError, (), {"test": (np.zeros((3, 4)), np.zeros(3))}, "test has shapes"),
        (InvalidTypeError, ("a model",), {}, "model"),
    ],
)
def test_bad_arguments_are_refused_by_name(regression, error, arguments, how, said):
    model = arguments[0] if arguments else NET
    with pytest.raises(error, match=said):
        learning_curve(model, *regression, **how)


@pytest.mark.parametrize(
    ("labels", "others"),
    [(int, float), (float, int), (str, int), (bool, str), (bool, int), (np.int64, np.uint64)],
)
def test_classes_and_targets_are_not_mixed(labels, others):
    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(InvalidTypeError, match="classes of one kind"):
        curve_data(x, y.astype(labels), test=(x, y.astype(others)))
