"""Augmentation by some elements of a group, weighted or not, against the explicit problem."""

import numpy as np
import pytest

from ensembles.irrep_cases import CASES, data, mlp
from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsemble
from oracles import literal_augmentation


class TestPartOfAnOrbit:
    def literal(self, action, elements, weights, label_action, x, y, x_test, **how):
        inputs = np.concatenate([action(g, x) for g in elements])
        targets = np.concatenate([y if label_action is None else label_action(g, y) for g in elements])
        each = np.repeat(np.array(weights) / np.mean(weights), len(x))
        return literal_augmentation.train(mlp, inputs, targets, x_test, weights=each, **how)

    @pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [0.5, 3.0, 1.0]])
    @pytest.mark.parametrize(("kernel", "time"), [("ntk", 0.7), ("nngp", np.inf)])
    def test_some_elements(self, weights, kernel, time):
        action, _, label_action = CASES["D4"]
        x, y, x_test = data("D4", 0)
        some = actions.subset(action, [0, 5, 3], weights)
        how = {"kernel": kernel, "time": time, "ridge": 0.1}
        for turn in (None, label_action):
            mean, covariance = self.literal(action, [0, 5, 3], weights, turn, x, y, x_test, **how)
            model = InfiniteEnsemble(mlp, augmentation=some, label_action=turn, **how).fit(x, y)
            weighted = "" if weights[1] == 1 else ", weighted"
            assert model.solver_ == f"explicit N|G| (3 of 8 elements of D4{weighted})"
            np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
            np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1], covariance, atol=1e-11)

    def test_weights_are_how_often_an_element_is_drawn(self):
        action, _, _ = CASES["D4"]
        x, y, x_test = data("D4", 0)
        fit = lambda *subset: InfiniteEnsemble(mlp, augmentation=actions.subset(action, *subset), time=4.0).fit(x, y)
        drawn, weighted = fit([1, 6, 1, 1, 4]), fit([1, 6, 4], [3, 1, 1])
        np.testing.assert_allclose(drawn.predict(x_test), weighted.predict(x_test), atol=1e-12)
        np.testing.assert_allclose(*(m.predict(x_test, return_cov=True)[1] for m in (drawn, weighted)), atol=1e-12)

    def test_a_subgroup_is_solved_as_one(self):
        action, _, label_action = CASES["D4"]
        x, y, x_test = data("D4", 0)
        elements = [0, 6, 2, 4]
        labels = np.random.default_rng(1).normal(size=(4, 3, 2))
        how = {"kernel": "ntk", "time": 3.0, "ridge": 0.0}
        some = actions.subset(action, elements)
        for turn in (None, label_action):
            mean, covariance = self.literal(action, elements, np.ones(4), turn, x, y, x_test, **how)
            model = InfiniteEnsemble(mlp, augmentation=some, label_action=turn, time=3.0).fit(x, y)
            assert "explicit" not in model.solver_
            np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
            np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1], covariance, atol=1e-11)
        inputs = np.concatenate([action(g, x) for g in elements])
        mean, _ = literal_augmentation.train(mlp, inputs, labels.reshape(12, 2), x_test, **how)
        model = InfiniteEnsemble(mlp, augmentation=some, time=3.0).fit(x, labels)
        np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)

    @pytest.mark.parametrize("elements", [[0, 2], [2, 0], [3, 2, 0, 1]])
    def test_leaving_out_does_not_ask_which_element_comes_first(self, elements):
        rng = np.random.default_rng(3)
        window = {"padding": "circular", "b_std": 0.3}
        field = nn.Sequential(nn.Conv(4, (3, 3), **window), nn.Relu(), nn.Conv(1, (1, 1)))
        pooled = nn.Sequential(nn.Conv(4, (3, 3), **window), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
        x, some = rng.normal(size=(3, 3, 3, 1)), actions.subset(actions.image_rotations(4), elements)
        for net, y in ((field, rng.normal(size=(3, 3, 3))), (pooled, rng.normal(size=3))):
            model = InfiniteEnsemble(net, some, ridge=0.1).fit(x, y)
            assert "explicit" not in model.solver_
            refitted = model.leave_one_out_refitted().predictions
            np.testing.assert_allclose(model.leave_one_out_.predictions, refitted, atol=1e-7)

    def test_resampled_rotations(self):
        rotations = actions.image_rotations(8)
        rng = np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 1)), rng.normal(size=(2, 4, 4, 1))
        how = {"kernel": "ntk", "time": 2.0, "ridge": 0.0}
        mean, _ = self.literal(rotations, [0, 3], np.ones(2), None, x, y, x_test, **how)
        model = InfiniteEnsemble(mlp, augmentation=actions.subset(rotations, [0, 3]), time=2.0).fit(x, y)
        np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
