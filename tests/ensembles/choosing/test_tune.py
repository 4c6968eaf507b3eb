"""Tuning chooses what a grid search over refits chooses, from one decomposition for every kernel matrix."""

import math
from dataclasses import replace

import numpy as np
import pytest

from equitangents import actions, kernels, nn, solvers
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFittedError, NotPositiveDefiniteError
from oracles.literal_network import LiteralNetwork

literal = LiteralNetwork.relu_mlp(1)
turns = actions.image_rotations(4)
mlp = nn.Sequential(nn.Flatten(), nn.Dense(4, W_std=1.4, b_std=0.1), nn.Relu(), nn.Dense(1))
GRID = {"W_std": [0.5, 2.0], "ridge": [1e-4, 1e-2, 1.0], "time": [1.0, math.inf]}


@pytest.fixture
def data(rng):
    x = rng.normal(size=(12, 2, 2, 1))
    return x, np.tanh(x[:, 0, 0, 0]) + 0.1 * rng.normal(size=12)


def refit(net, params, x, y, kind=InfiniteEnsemble):
    params = dict(params)
    W = params.pop("W_std", None)
    layers = [nn.Dense(n.channels, W, n.b_std) if W and isinstance(n, nn.Dense) else n for n in net.layers]
    return kind(nn.Sequential(*layers), **params).fit(x, y)


class TestItChoosesWhatRefitsChoose:
    def test_by_leave_one_out(self, data):
        found = InfiniteEnsemble(mlp).tune(GRID, *data)
        scores = [refit(mlp, c.params, *data).leave_one_out_.mean_squared_error for c in found.candidates]
        np.testing.assert_allclose([c.score for c in found.candidates], scores, rtol=1e-9)
        assert len(scores) == 12
        assert found.best_params == dict(found.candidates[np.argmin(scores)].params)
        assert found.best_score == found.candidates[np.argmin(scores)].score
        assert found.matrices == 2

    @pytest.mark.parametrize("dynamics", ["flow", "discrete"])
    def test_of_fields_whose_loss_is_a_mean_over_samples_not_points(self, rng, dynamics):
        net = nn.Sequential(nn.Conv(1, 3, padding="circular"), nn.Relu(), nn.Conv(1, 3, padding="circular"))
        x, y = rng.normal(size=(5, 3, 3, 1)), rng.normal(size=(5, 3, 3))
        times = [1.0, math.inf] if dynamics == "flow" else [math.inf]
        grid = {"ridge": [1e-2, 1e-1], "time": times, "learning_rate": [0.05, 0.1]}
        found = InfiniteEnsemble(net, dynamics=dynamics).tune(grid, x, y)
        models = [InfiniteEnsemble(net, dynamics=dynamics, **c.params).fit(x, y) for c in found.candidates]
        scores = [m.leave_one_out_.mean_squared_error for m in models]
        np.testing.assert_allclose([c.score for c in found.candidates], scores, rtol=1e-9)
        assert found.matrices == 1
        tuned = models[-1]._training.with_settings(replace(models[0]._training.settings, points=1))
        np.testing.assert_allclose(tuned.means(x, np.array([1.0]))[0], models[0].predict(x, time=1.0)[..., None])

    def test_of_classifiers_by_accuracy_then_by_squared_error(self, data):
        x, y = data
        labels = np.where(y > 0, "up", "down")
        found = InfiniteEnsembleClassifier(mlp).tune(GRID, x, labels)
        refits = [refit(mlp, c.params, x, labels, InfiniteEnsembleClassifier).leave_one_out_ for c in found.candidates]
        assert [c.score for c in found.candidates] == [r.accuracy for r in refits]
        ranks = [(-r.accuracy, r.outputs.mean_squared_error) for r in refits]
        assert found.best_params == dict(found.candidates[ranks.index(min(ranks))].params)
        assert set(found.best.predict(x)) <= {"up", "down"}

    @pytest.mark.quick(1)
    @pytest.mark.parametrize(
        "how",
        [
            {"solver": solvers.Nystrom(rank=3)},
            {"solver": "cholesky"},
            {"net": kernels.random_features(mlp, 5)},
            {"solver": "cholesky", "kind": InfiniteEnsembleClassifier},
        ],
    )
    def test_the_best_is_solved_as_a_refit_is(self, how, data):
        x, y = data
        how = dict(how)
        kind, net = how.pop("kind", InfiniteEnsemble), how.pop("net", mlp)
        y = y if kind is InfiniteEnsemble else np.where(y > 0, "up", "down")
        for ridges in ([1e-3, 10.0], [10.0, 1e-3], [1e-3]):
            found = kind(net, **how).tune({"ridge": ridges}, x, y)
            again = kind(net, **how, **found.best_params).fit(x, y)
            assert (found.best.solver_, found.best.solution_.solver) == (again.solver_, again.solution_.solver)
            assert found.best.solution_.residual in (again.solution_.residual, pytest.approx(math.nan, nan_ok=True))
            if kind is InfiniteEnsemble:
                np.testing.assert_array_equal(found.best.predict(x), again.predict(x))

    def test_a_candidate_that_its_own_solver_cannot_solve_is_not_the_best(self, data):
        model = InfiniteEnsemble(mlp, solver=solvers.PCG(rank=1, max_iterations=4))
        found = model.tune({"ridge": [0.0, 1e6]}, *data)
        scores = InfiniteEnsemble(mlp).tune({"ridge": [0.0, 1e6]}, *data)
        assert scores.best_params == {"ridge": 0.0}
        assert found.best_params == {"ridge": 1e6}
        assert found.best.solution_.solver == "pcg"
        assert "conjugate gradients end at a relative residual" in found.candidates[0].note

    def test_labels_that_move_share_their_irreps(self, rng):
        cube = actions.image_dihedral(4)
        regular = actions.linear(cube.group, np.stack([np.eye(8)[cube.group.table[g]].T for g in cube.group]))
        x, y = rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 8))
        how = {"augmentation": cube, "label_action": regular}
        for candidate in InfiniteEnsemble(literal, **how).tune({"ridge": [0.01, 0.1]}, x, y).candidates:
            model = InfiniteEnsemble(literal, ridge=candidate.params["ridge"], **how).fit(x, y)
            assert math.isclose(candidate.score, model.leave_one_out_.mean_squared_error, rel_tol=1e-9)


class TestOneDecompositionServesEveryRidgeTimeAndLearningRate:
    @pytest.mark.parametrize(("solver", "kernels"), [("auto", 1), ("cholesky", 2), ("pcg", 2)])  # once more for the fit
    def test_kernels_are_computed_once(self, solver, kernels, data):
        calls = []

        class Counted:
            def kernel(self, x1, x2=None):
                calls.append(x2)
                return literal.kernel(x1, x2)

        grid = {"ridge": np.logspace(-4, 0, 9), "time": [0.1, 1.0, math.inf], "learning_rate": [0.5, 1.0]}
        found = InfiniteEnsemble(Counted(), solver=solver).tune(grid, *data)
        assert len(found.candidates) == 54
        assert (found.matrices, len(calls)) == (1, kernels)


class TestWhatItChooses:
    def test_the_group_that_labels_do_not_change_under(self, rng):
        x = rng.normal(size=(30, 3, 3, 1))
        y = np.abs(x).mean(axis=(1, 2, 3)) + 0.3 * x[:, 1, 1, 0]
        model = InfiniteEnsemble(literal, ridge=0.05)
        assert model.tune({"augmentation": [None, "C4"]}, x, y).best_params == {"augmentation": "C4"}
        assert model.tune({"augmentation": [None, "C4"]}, x, x[:, 0, 0, 0]).best_params == {"augmentation": None}

    def test_depth_nonlinearity_and_networks_of_ones_own(self, data):
        x, y = data
        grid = [{"depth": [1, 3], "nonlinearity": ["erf", nn.Relu()]}, {"net": [_build, mlp], "depth": 2, "b_std": 0.2}]
        found = InfiniteEnsemble(mlp, ridge=0.1).tune(grid, x, y)
        nets = [
            nn.Sequential(nn.Flatten(), *[nn.Dense(4, 1.4, 0.1), phi] * depth, nn.Dense(1))
            for depth in (1, 3)
            for phi in (nn.Erf(), nn.Relu())
        ]
        nets += [
            _build(2, 0.2),
            nn.Sequential(nn.Flatten(), *[nn.Dense(4, 1.4, 0.2), nn.Relu()] * 2, nn.Dense(1, 1.0, 0.2)),
        ]
        scores = [InfiniteEnsemble(net, ridge=0.1).fit(x, y).leave_one_out_.mean_squared_error for net in nets]
        np.testing.assert_allclose([c.score for c in found.candidates], scores, rtol=1e-9)

    def test_data_of_the_fit_are_those_that_it_is_tuned_on(self, data):
        fitted = InfiniteEnsemble(literal, ridge=0.1).fit(*data)
        assert fitted.tune({"ridge": [0.1, 1.0]}).best_score == fitted.tune({"ridge": [0.1, 1.0]}, *data).best_score
        assert fitted.ridge == 0.1
        labels = np.arange(12) % 3
        classifier = InfiniteEnsembleClassifier(literal, ridge=0.1).fit(data[0], labels)
        assert classifier.tune({"ridge": [0.1, 1.0]}).best.classes_.tolist() == [0, 1, 2]


def _build(depth, b_std):
    return nn.Sequential(nn.Flatten(), *[nn.Dense(4, b_std=b_std), nn.Erf()] * depth, nn.Dense(1))


class TestWhatHasNoScoreNeverWins:
    def test_a_kernel_that_cannot_be_solved(self, data):
        x, y = np.concatenate([data[0], data[0][:1]]), np.append(data[1], 5.0)  # equal inputs, different targets
        found = InfiniteEnsemble(literal).tune({"ridge": [0.0, 10.0]}, x, y)
        assert found.best_params == {"ridge": 10.0}
        assert math.isnan(found.candidates[0].score)
        assert not found.candidates[0].tied
        assert "not positive definite" in found.candidates[0].note
        with pytest.raises(NotPositiveDefiniteError, match="set ridge="):
            InfiniteEnsemble(literal).tune({"ridge": [0.0]}, x, y)

    def test_nan(self, data, monkeypatch):
        true = InfiniteEnsemble._left_out

        def first_is_nan(self, training, t):
            found = true(self, training, t)
            return replace(found, residuals=np.nan * found.residuals) if training.settings.ridge.least == 0.1 else found

        monkeypatch.setattr(InfiniteEnsemble, "_left_out", first_is_nan)
        found = InfiniteEnsemble(literal).tune({"ridge": [0.1, 1e5]}, *data)
        assert found.best_params == {"ridge": 1e5}
        with pytest.raises(InvalidArgumentError, match="no candidate has a finite score"):
            InfiniteEnsemble(literal).tune({"ridge": [0.1]}, *data)


class TestWhatItSays:
    @pytest.fixture
    def data(self, rng):
        x = rng.normal(size=(40, 3))
        return x, x[:, 0] + 0.1 * rng.normal(size=40)

    def test_ties_are_said(self, data):
        found = InfiniteEnsemble(literal).tune({"ridge": [0.1, 0.1, 1e4]}, *data)
        assert [c.tied for c in found.candidates] == [True, True, False]
        assert found.best_index == 0
        assert found.ties == (found.candidates[1],)
        assert "{'ridge': 0.1}  best" in str(found)
        assert "{'ridge': 0.1}  tied" in str(found)
        worst = found.candidates[2]
        assert worst.params["ridge"] == 1e4
        assert 0 < worst.difference.low < worst.difference.value < worst.difference.high


class TestBadGrids:
    @pytest.mark.parametrize(
        ("grid", "error", "message"),
        [
            ({"rigde": [1.0]}, InvalidArgumentError, "did you mean 'ridge'"),
            ({"ridge": []}, InvalidArgumentError, "at least one value"),
            ([], InvalidArgumentError, "no candidate"),
            (3, InvalidTypeError, "expected a mapping"),
            ({"ridge": [0.1, -1.0]}, InvalidArgumentError, "ridge is -1.0"),
            ({"ridge": [math.nan]}, InvalidArgumentError, "ridge is nan"),
            ({"depth": [1]}, InvalidTypeError, "vary networks of equitangents.nn"),
        ],
    )
    def test_are_refused_before_anything_is_computed(self, grid, error, message, data):
        with pytest.raises(error, match=message):
            InfiniteEnsemble(literal).tune(grid, *data)

    def test_without_data(self, data):
        with pytest.raises(NotFittedError, match="call fit first"):
            InfiniteEnsemble(literal).tune({"ridge": [1.0]})
        with pytest.raises(InvalidArgumentError, match="X is None; expected samples with y"):
            InfiniteEnsemble(literal).tune({"ridge": [1.0]}, y=data[1])
