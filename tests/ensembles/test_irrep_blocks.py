"""Which blocks the irreps of a group leave, how their kernels are computed, and what augmentation refuses."""

import numpy as np
import pytest

from ensembles.irrep_cases import CASES, D4, O, data, mlp
from equitangents import actions, groups
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError, MemoryLimitError, NotAnActionError, ShapeError
from oracles import literal_augmentation
from oracles.literal_network import LiteralNetwork

ACTION, _, LABEL_ACTION = CASES["D4"]
PROBLEM = "equitangents.ensembles.infinite.irrep_problem"


def augmented(**how):
    return InfiniteEnsemble(mlp, **{"augmentation": ACTION, "time": 1.0} | how)


class TestIrrepsThatMatter:
    def test_steps_are_stable_in_irreps_without_labels_too(self):
        action, _, label_action = CASES["O"]
        x, y, _ = data("O", 0)
        largest = literal_augmentation.largest_eigenvalue(mlp, action, x, "ntk", 0.2)
        how = {"augmentation": action, "label_action": label_action, "ridge": 0.2}
        rate = InfiniteEnsemble(mlp, **how).fit(x, y).max_learning_rate_
        assert rate == pytest.approx(2 * 24 * 3 / largest, rel=1e-10)
        with pytest.raises(InvalidArgumentError, match="gradient descent on these data diverges"):
            InfiniteEnsemble(mlp, dynamics="discrete", learning_rate=1.01 * rate, time=3, **how).fit(x, y)

    def test_only_those_that_hold_labels(self):
        x, y, _ = data("O", 0)
        turn = actions.rotations(O)
        model = augmented(augmentation=turn, label_action=turn).fit(x, y)
        assert model.solver_ == "irreps of O: 1 block, largest 3N"
        assert model.covariance_solver_ == "irreps of O: 5 blocks, largest 3N"

    def test_labels_that_are_all_zero(self):
        x, y, x_test = data("D4", 0)
        model = augmented(label_action=LABEL_ACTION, time=np.inf).fit(x, 0 * y)
        np.testing.assert_array_equal(model.predict(x_test), 0)

    def test_spectra_of_the_mean_serve_the_covariance(self, monkeypatch):
        x, y, x_test = data("D4", 0)
        model = augmented(label_action=LABEL_ACTION).fit(x, y)
        monkeypatch.setattr(f"{PROBLEM}.decompose", lambda *a, **k: pytest.fail("again"))
        model.predict(x_test, return_cov=True)


class TestKernels:
    def test_single_precision(self):
        x, y, x_test = (a.astype(np.float32) for a in data("D4", 0))
        model = augmented(label_action=LABEL_ACTION, time=5.0)
        expected = model.fit(x.astype(np.float64), y).predict(x_test.astype(np.float64))
        assert model.fit(x, y).solver_ == "irreps of D4: 5 blocks, largest 2N"
        np.testing.assert_allclose(model.predict(x_test), expected, atol=1e-5)

    def test_tiles_of_any_size(self, monkeypatch):
        x, y, x_test = data("Q8", 0, n=7, m=5)
        action, _, label_action = CASES["Q8"]
        model = augmented(augmentation=action, label_action=label_action, time=5.0)

        def predicted():
            model.fit(x, y)
            std, orbits = model.predict(x_test, return_std=True)[1], model.predict_orbit_means(x_test)
            return *model.predict(x_test, return_cov=True), std, orbits

        expected = predicted()
        monkeypatch.setattr("equitangents.ensembles.infinite.predictor._BLOCK_ENTRIES", 2 * 112)
        for name, value in (("_TILE_ENTRIES", 72), ("_INPUT_ENTRIES", 192), ("_SMALLEST_TILE", 2)):
            monkeypatch.setattr(f"{PROBLEM}.{name}", value)
        for tiled, whole in zip(predicted(), expected, strict=True):
            np.testing.assert_allclose(tiled, whole, atol=1e-12)


class Skewed(actions.Action):
    """x → (1 + g/10) ρ(g) x, which is no action."""

    group, name = D4, "skewed"

    def _check_signals(self, x):
        return x

    def _act(self, g, x):
        return LABEL_ACTION(g, x) * (1 + 0.1 * g)

    def _key(self):
        return ()


OTHER_GROUP, TURNING = {"label_action": actions.trivial(groups.cyclic(6))}, {"label_action": LABEL_ACTION}


@pytest.mark.parametrize(
    ("how", "labels", "error", "message"),
    [
        ({"augmentation": None}, (8, 3, 2), ShapeError, "y has rank 3"),
        (OTHER_GROUP, (3, 8), InvalidArgumentError, "label_action is of .*; the group of augmentation"),
        ({"label_action": Skewed()}, (3, 8), NotAnActionError, "."),
        (TURNING | {"memory_limit": 1000}, (3, 8), MemoryLimitError, "fewer samples or a subgroup of the augmentation"),
    ],
)
def test_what_augmentation_cannot_be_fitted_to(how, labels, error, message):
    with pytest.raises(error, match=message):
        augmented(**how).fit(data("D4", 0)[0], np.ones(labels))


def test_orbits_without_a_group():
    x, y, x_test = data("D4", 0)
    for augmentation in (None, actions.subset(ACTION, [0, 1])):
        with pytest.raises(InvalidArgumentError, match="expected an action of a group, for its orbits"):
            augmented(augmentation=augmentation).fit(x, y).predict_orbit_means(x_test)


def test_what_is_too_large_is_refused_before_anything_is_computed(monkeypatch):
    x, y, x_test = data("D4", 0)
    model = augmented(memory_limit=1000).fit(x, y)
    model.predict(x_test)
    monkeypatch.setattr(LiteralNetwork, "kernel", lambda *a: pytest.fail("computed"))
    with pytest.raises(MemoryLimitError, match=r"augmented problem of 3·8 .* or ask for the mean only"):
        model.predict(x_test, return_std=True)
    monkeypatch.undo()
    with pytest.raises(MemoryLimitError, match=r"joint covariance of 60 inputs.*ask for fewer inputs at once"):
        augmented(memory_limit=40_000).fit(x, y).predict(np.ones((60, 3, 3, 1)), return_cov=True)
