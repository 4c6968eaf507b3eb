import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from oracles.literal_network import LiteralNetwork

net = LiteralNetwork.relu_mlp(1)
rng = np.random.default_rng(0)
x, x_test = rng.normal(size=(12, 4)), rng.normal(size=(20, 4))
classes = np.array([2, 0, 1] * 4)


class TestAgainstRegression:
    def test_predictions_are_the_largest_output_for_centred_one_hot_targets(self):
        targets = np.where(classes[:, None] == np.arange(3), 2 / 3, -1 / 3)
        model = InfiniteEnsembleClassifier(net, time=3.0).fit(x, classes)
        outputs = InfiniteEnsemble(net, time=3.0).fit(x, targets).predict(x_test)
        np.testing.assert_allclose(model.ensemble_.predict(x_test), outputs, atol=1e-14)
        np.testing.assert_array_equal(model.predict(x_test), outputs.argmax(axis=1))
        assert model.solver_ == model.ensemble_.solver_ == "dense N×N"
        assert model.max_learning_rate_ == model.ensemble_.max_learning_rate_

    @pytest.mark.slow
    def test_one_large_input_leaves_the_others_apart_in_float32(self):
        inputs = np.linspace(0, 1, 40)[:, None]
        inputs[3] = 2e4
        labels, asked = (inputs[:, 0] > 0.5).astype(int), np.linspace(0, 1, 7)[:, None]
        mlp = nn.Sequential(nn.Dense(1, b_std=1.0), nn.Relu(), nn.Dense(1))
        precise, single = (
            InfiniteEnsembleClassifier(mlp, time=100.0).fit(inputs.astype(dtype), labels).ensemble_.predict(asked)
            for dtype in ("float64", "float32")
        )
        np.testing.assert_allclose(single, precise, atol=2e-3)

    def test_probabilities_are_how_often_sampled_networks_decide_so(self):
        model = InfiniteEnsembleClassifier(net, time=3.0).fit(x, classes)
        p = model.predict_proba(x_test)
        n = 4000
        decisions = model.ensemble_.sample(x_test, n, key=jax.random.key(0)).argmax(axis=2)
        counts = (decisions[:, :, None] == np.arange(3)).mean(axis=0)
        assert (np.abs(counts - p) < 4.5 * np.sqrt(p * (1 - p) / n) + 1e-3).all()

    @given(st.integers(0, 10**6), st.floats(0.01, 100))
    def test_the_most_probable_class_is_the_predicted_one(self, seed, time):
        points = np.random.default_rng(seed).normal(size=(5, 4))
        model = InfiniteEnsembleClassifier(net).fit(x, classes)
        p = model.predict_proba(points, time=time)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-14)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(points, time=time))


class TestLabels:
    @pytest.mark.parametrize(
        "names",
        [
            np.array(["ant", "bee", "cow"]),
            np.array(["ant", "bee", "cow"], dtype=object),
            np.array([10, 20, 30]),
            np.array([1.0, 2.0, 3.0]),
        ],
    )
    def test_any_type(self, names):
        model = InfiniteEnsembleClassifier(net).fit(x, names[classes])
        np.testing.assert_array_equal(model.classes_, names)
        np.testing.assert_array_equal(model.predict(x), names[classes])
        assert model.predict(x).dtype == names.dtype
        assert model.score(x, names[classes]) == 1.0

    def test_truth_values(self):
        model = InfiniteEnsembleClassifier(net).fit(x, classes > 0)
        assert model.predict(x).dtype == bool
        assert model.predict_proba(x).shape == (12, 2)

    def test_many_times(self):
        model = InfiniteEnsembleClassifier(net).fit(x, classes)
        assert model.predict(x_test, time=[0.1, 1.0]).shape == (2, 20)
        p = model.predict_proba(x_test, time=[0.1, 1.0])
        assert p.shape == (2, 20, 3)
        np.testing.assert_allclose(p[1], model.predict_proba(x_test, time=1.0), atol=1e-15)

    def test_before_training_all_classes_are_equally_probable(self):
        p = InfiniteEnsembleClassifier(net, time=0.0).fit(x, classes).predict_proba(x_test)
        np.testing.assert_allclose(p, 1 / 3, atol=1e-12)


class TestAugmentation:
    def test_classes_permuted_by_the_group(self):
        """Cyclic shifts of 3 coordinates carry class k to class k + 1; only class 0 is in the data."""
        C3 = groups.cyclic(3)
        shift = actions.linear(C3, np.stack([np.roll(np.eye(3), g, axis=0) for g in range(3)]))
        rng = np.random.default_rng(1)
        points = rng.normal(size=(9, 3))
        labels = points.argmax(axis=1)
        model = InfiniteEnsembleClassifier(net, augmentation=shift, label_action=shift, time=50.0).fit(points, labels)
        test = rng.normal(size=(30, 3))
        for g in range(3):
            np.testing.assert_array_equal(model.predict(shift(g, test)), (model.predict(test) + g) % 3)
        p = model.predict_proba(test)
        np.testing.assert_allclose(model.predict_proba(shift(1, test)), np.roll(p, 1, axis=1), atol=1e-9)

    def test_digits(self):
        images, labels = load_digits(return_X_y=True)
        images = images / 16
        net = nn.Sequential(nn.Flatten(), nn.Dense(8, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
        rot = actions.image_rotations(4)
        model = InfiniteEnsembleClassifier(net, augmentation=rot, input_shape=(8, 8, 1))
        model.fit(images[:200], labels[:200])
        test, truth = images[1000:1100], labels[1000:1100]
        assert model.solver_ == "orbit-averaged N×N"
        assert model.score(test, truth) > 0.8
        turned = rot(1, test.reshape(-1, 8, 8, 1)).reshape(-1, 64)
        np.testing.assert_array_equal(model.predict(turned), model.predict(test))
