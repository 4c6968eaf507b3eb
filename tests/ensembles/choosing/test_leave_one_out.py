"""Leaving one sample out equals training without it, to rounding, whatever the augmentation, labels, ridge and time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import actions, groups
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError, NotFittedError
from oracles.literal_network import LiteralNetwork

mlp = LiteralNetwork.relu_mlp(1)
turns = actions.image_rotations(4)
cube = actions.rotations(groups.octahedral())
five_classes = actions.labels(
    groups.cyclic(4), np.array([[(c + g) % 4 if c < 4 else 4 for c in range(5)] for g in range(4)])
)
TIMES = (0.0, 0.3, 30.0, np.inf)
TIMES_AND_RIDGES = ((0.3, 0.0), (30.0, 0.1), (np.inf, 0.0), (np.inf, 0.1))


def refits(model, x, y, copies=False):
    """Predictions at each sample of N ensembles, each trained without it."""
    left = [np.delete(np.arange(len(x)), i) for i in range(len(x))]
    train = lambda k: et.ensembles.InfiniteEnsemble(**model.get_params(deep=False)).fit(
        x[k], y[:, k] if copies else y[k]
    )
    return np.concatenate([train(k).predict(x[i : i + 1]) for i, k in enumerate(left)])


def check(model, x, y, copies=False, atol=1e-8):
    found = model.fit(x, y).leave_one_out_
    expected = refits(model, x, y, copies)
    targets = y[0] if copies else y
    np.testing.assert_allclose(found.predictions, expected, atol=atol * np.abs(targets).max())
    np.testing.assert_allclose(found.residuals, targets - found.predictions, atol=1e-14)
    np.testing.assert_allclose(found.mean_squared_error, np.mean((targets - expected) ** 2), rtol=1e-6)
    assert found.time == model.time


class TestLeavingASampleOutIsTrainingWithoutIt:
    @pytest.mark.quick(1)
    @pytest.mark.parametrize("kernel", ["ntk", "nngp"])
    @settings(max_examples=15)
    @given(seed=st.integers(0, 10**6), time=st.sampled_from(TIMES), ridge=st.sampled_from([0.0, 1e-3, 1.0]))
    def test_without_augmentation(self, kernel, seed, time, ridge):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(6, 7)), rng.normal(size=(6, 2))
        check(InfiniteEnsemble(mlp, kernel=kernel, time=time, ridge=ridge, learning_rate=0.7), x, y)

    @pytest.mark.parametrize("time", TIMES)
    def test_of_one_output_and_samples_of_any_size(self, time, rng):
        x = rng.normal(size=(7, 3)) * np.logspace(-1, 1, 7)[:, None]  # each left-out sample changes the mean diagonal
        check(InfiniteEnsemble(mlp, time=time, ridge=0.05), x, rng.normal(size=7))

    @pytest.mark.parametrize(("time", "ridge"), TIMES_AND_RIDGES)
    def test_equal_samples_stay_when_one_of_them_leaves(self, time, ridge, rng):
        x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
        again = [0, 1, 2, 3, 4, 1, 3, 3]
        check(InfiniteEnsemble(mlp, time=time, ridge=ridge), x[again], y[again])

    def test_after_infinitely_many_steps(self, rng):
        x, y = rng.normal(size=(5, 3)), rng.normal(size=5)
        check(InfiniteEnsemble(mlp, dynamics="discrete", learning_rate=0.1), x, y)

    def test_at_very_different_rates(self, rng):
        x, y = rng.normal(size=(8, 3)), rng.normal(size=8)
        for rate in (1e-9, 1e-3, 1e3, 1e9):
            check(InfiniteEnsemble(mlp, time=1.0, learning_rate=rate), x, y)


class TestAugmentedSamplesLeaveWithAllTheirCopies:
    @pytest.mark.parametrize(("time", "ridge"), TIMES_AND_RIDGES)
    def test_invariant_labels(self, time, ridge, rng):
        x, y = rng.normal(size=(5, 3, 3, 1)), rng.normal(size=5)
        model = InfiniteEnsemble(mlp, augmentation=turns, time=time, ridge=ridge)
        check(model, x, y)
        assert model.solver_ == "orbit-averaged N×N"

    @pytest.mark.parametrize(("time", "ridge"), TIMES_AND_RIDGES)
    def test_labels_that_move(self, time, ridge, rng):
        x, y = rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 5))
        check(InfiniteEnsemble(mlp, augmentation=turns, label_action=five_classes, time=time, ridge=ridge), x, y)

    @pytest.mark.quick(1)
    @pytest.mark.parametrize(("time", "agree"), [(0.3, False), (np.inf, True)])
    def test_inputs_that_something_fixes_and_that_share_an_orbit(self, time, agree, rng):
        x = np.array([[0.0, 0.0, 1.3], [1.0, 1.0, 1.0], [0.2, 0.5, -1.0], [0.5, -0.2, -1.0], [1.1, 0.0, 0.0]])
        y = x / np.linalg.norm(x, axis=1, keepdims=True) ** 2 if agree else rng.normal(size=x.shape)
        check(InfiniteEnsemble(mlp, augmentation=cube, label_action=cube, time=time, ridge=1e-3), x, y)

    @pytest.mark.parametrize("time", [0.3, np.inf])
    def test_labels_of_every_copy(self, time, rng):
        x, y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 4, 2))
        check(InfiniteEnsemble(mlp, augmentation=turns, time=time, ridge=0.01), x, y, copies=True)

    @pytest.mark.parametrize("time", [0.3, np.inf])
    def test_some_weighted_elements(self, time, rng):
        some = actions.subset(turns, [1, 0, 2], [1.0, 2.0, 0.5])
        x, y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 2))
        x[2] = x[2, :1, :1]  # its copies are equal
        x[3] = np.rot90(x[1], 1)  # some of its copies are copies of another, with the same label
        y[3] = y[1]
        check(InfiniteEnsemble(mlp, augmentation=some, time=time, ridge=0.01), x, y)


class TestClassifiers:
    @pytest.mark.parametrize("time", [1.0, np.inf])
    def test_labels_are_those_of_classifiers_trained_without_the_sample(self, time, rng):
        x, labels = (
            rng.normal(size=(9, 3)),
            np.array(["no", "yes", "no", "maybe", "yes", "no", "maybe", "yes", "maybe"]),
        )
        model = InfiniteEnsembleClassifier(mlp, ridge=0.1, time=time).fit(x, labels)
        refitted = [
            InfiniteEnsembleClassifier(mlp, ridge=0.1, time=time)
            .fit(np.delete(x, i, axis=0), np.delete(labels, i))
            .predict(x[i : i + 1])[0]
            for i in range(9)
        ]
        found = model.leave_one_out_
        assert found.predictions.tolist() == refitted
        assert found.labels.tolist() == labels.tolist()
        assert found.accuracy == np.mean(np.array(refitted) == labels)
        assert found.outputs.residuals.shape == (9, 3)
        assert "accuracy" in found._repr_html_()


class TestWhatHasNoClosedFormIsRefused:
    def test_before_fit(self):
        with pytest.raises(NotFittedError, match="call fit first"):
            _ = InfiniteEnsemble(mlp).leave_one_out_

    def test_one_sample(self):
        with pytest.raises(InvalidArgumentError, match="leaves nothing to train on"):
            _ = InfiniteEnsemble(mlp).fit([[1.0, 2.0]], [1.0]).leave_one_out_

    def test_a_finite_number_of_steps(self, rng):
        model = InfiniteEnsemble(mlp, dynamics="discrete", time=3, learning_rate=0.1)
        with pytest.raises(InvalidArgumentError, match="leaving samples out"):
            _ = model.fit(rng.normal(size=(4, 2)), rng.normal(size=4)).leave_one_out_

    def test_elements_without_the_identity(self, rng):
        model = InfiniteEnsemble(mlp, augmentation=actions.subset(turns, [1, 2]), ridge=0.1)
        with pytest.raises(InvalidArgumentError, match="leaves out the identity"):
            _ = model.fit(rng.normal(size=(3, 3, 3, 1)), rng.normal(size=3)).leave_one_out_
