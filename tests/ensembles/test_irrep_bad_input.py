"""What augmentation by a group refuses, and what it does without irreps."""

import numpy as np
import pytest

from ensembles.irrep_cases import CASES, data, mlp
from equitangents import actions
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError, MemoryLimitError, ShapeError
from oracles.literal_network import LiteralNetwork


class TestBadInput:
    def test_labels_for_copies(self):
        x, _, _ = data("D4", 0)
        action, _, label_action = CASES["D4"]
        labels = np.zeros((8, 3, 2))
        with pytest.raises(ShapeError, match=r"y has shape \(7, 3, 2\).*expected \(8, 3, outputs\)"):
            InfiniteEnsemble(mlp, augmentation=action).fit(x, labels[:7])
        with pytest.raises(ShapeError, match="no label_action"):
            InfiniteEnsemble(mlp, augmentation=action, label_action=label_action).fit(x, labels)
        with pytest.raises(ShapeError, match="y has rank 3"):
            InfiniteEnsemble(mlp).fit(x, labels)

    def test_orbits_without_a_group(self):
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        for augmentation in (None, actions.subset(action, [0, 1])):
            model = InfiniteEnsemble(mlp, augmentation=augmentation, time=1.0).fit(x, y)
            with pytest.raises(InvalidArgumentError, match="orbits are those of the augmentation's group"):
                model.predict_orbit_means(x_test)

    def test_orbits_of_the_explicit_problem(self):
        skewed = LiteralNetwork.relu_mlp(1, feature_weights=tuple(np.linspace(0.5, 1.5, 9)))
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(skewed, augmentation=action, time=1.0).fit(x, y)
        points = np.moveaxis(action.orbit(x_test), 0, 1).reshape(-1, 3, 3, 1)
        mean = model.predict(points).reshape(2, 8, -1)
        np.testing.assert_allclose(model.predict_orbit_means(x_test), mean, atol=1e-12)

    def test_what_is_too_large_is_refused_before_anything_is_computed(self, monkeypatch):
        x, y, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, time=1.0, memory_limit=1000).fit(x, y)
        monkeypatch.setattr(LiteralNetwork, "kernel", lambda *a: pytest.fail("computed"))
        with pytest.raises(MemoryLimitError, match="or ask for the mean alone"):
            model.predict(x_test, return_std=True)
        monkeypatch.undo()
        model = InfiniteEnsemble(mlp, augmentation=action, time=1.0, memory_limit=40_000).fit(x, y)
        with pytest.raises(MemoryLimitError, match=r"joint covariance of 60 inputs.*ask for fewer inputs at once"):
            model.predict(np.ones((60, 3, 3, 1)), return_cov=True)
