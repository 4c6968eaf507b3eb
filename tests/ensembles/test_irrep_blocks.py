"""Which blocks the irreps of a group leave, and how their kernels are computed: precision, tiles, forecasts."""

import numpy as np
import pytest

from ensembles.irrep_cases import CASES, O, data, mlp
from equitangents import actions
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError
from oracles import literal_augmentation


class TestIrrepsThatMatter:
    def test_steps_are_stable_in_irreps_without_labels_too(self):
        n = 3
        action, _, label_action = CASES["O"]
        x, y, _ = data("O", 0, n=n)
        largest = literal_augmentation.largest_eigenvalue(mlp, action, x, "ntk", 0.2)
        how = {"augmentation": action, "label_action": label_action, "ridge": 0.2}
        rate = InfiniteEnsemble(mlp, **how).fit(x, y).max_learning_rate_
        assert rate == pytest.approx(2 * 24 * n / largest, rel=1e-10)
        with pytest.raises(InvalidArgumentError, match="gradient descent on these data diverges"):
            InfiniteEnsemble(mlp, dynamics="discrete", learning_rate=1.01 * rate, time=3, **how).fit(x, y)

    def test_only_those_that_hold_labels(self):
        x, y, _ = data("O", 0)
        turn = actions.rotations(O)
        model = InfiniteEnsemble(mlp, augmentation=turn, label_action=turn, time=1.0).fit(x, y)
        assert model.solver_ == "irreps of O: 1 block, largest 3N"
        assert model.covariance_solver_ == "irreps of O: 5 blocks, largest 3N"

    def test_labels_that_are_all_zero(self):
        x, y, x_test = data("D4", 0)
        action, _, label_action = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action).fit(x, 0 * y)
        np.testing.assert_array_equal(model.predict(x_test), 0)

    def test_spectra_of_the_mean_serve_the_covariance(self, monkeypatch):
        x, _, x_test = data("D4", 0)
        action, _, _ = CASES["D4"]
        model = InfiniteEnsemble(mlp, augmentation=action, time=1.0).fit(
            x, np.random.default_rng(0).normal(size=(8, 3, 1))
        )
        again = lambda *a, **k: pytest.fail("again")
        monkeypatch.setattr("equitangents.ensembles.infinite.irrep_problem.decompose", again)
        model.predict(x_test, return_cov=True)


class TestKernels:
    def test_single_precision(self):
        x, y, x_test = (a.astype(np.float32) for a in data("D4", 0))
        action, _, label_action = CASES["D4"]
        how = {"augmentation": action, "label_action": label_action, "time": 5.0}
        expected = InfiniteEnsemble(mlp, **how).fit(x.astype(np.float64), y).predict(x_test.astype(np.float64))
        model = InfiniteEnsemble(mlp, **how).fit(x, y)
        assert model.solver_ == "irreps of D4: 5 blocks, largest 2N"
        np.testing.assert_allclose(model.predict(x_test), expected, atol=1e-5)

    def test_tiles_of_any_size(self, monkeypatch):
        x, y, x_test = data("Q8", 0, n=7, m=5)
        action, _, label_action = CASES["Q8"]
        how = {"augmentation": action, "label_action": label_action, "time": 5.0}
        model = InfiniteEnsemble(mlp, **how).fit(x, y)
        mean, covariance = model.predict(x_test, return_cov=True)
        std, orbits = model.predict(x_test, return_std=True)[1], model.predict_orbit_means(x_test)
        monkeypatch.setattr("equitangents.ensembles.infinite.predictor._BLOCK_ENTRIES", 2 * 8 * 7 * 2)
        for name, value in (("_TILE_ENTRIES", 8 * 9), ("_INPUT_ENTRIES", 8 * 8 * 3), ("_SMALLEST_TILE", 2)):
            monkeypatch.setattr(f"equitangents.ensembles.infinite.irrep_problem.{name}", value)
        model = InfiniteEnsemble(mlp, **how).fit(x, y)
        tiled, tiled_covariance = model.predict(x_test, return_cov=True)
        np.testing.assert_allclose(tiled, mean, atol=1e-12)
        np.testing.assert_allclose(tiled_covariance, covariance, atol=1e-12)
        np.testing.assert_allclose(model.predict(x_test, return_std=True)[1], std, atol=1e-12)
        np.testing.assert_allclose(model.predict_orbit_means(x_test), orbits, atol=1e-12)
