"""The log marginal likelihood is the Gaussian density of the targets, whatever the augmentation."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from equitangents import actions, groups
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.ensembles.infinite.leave_one_out import sample_evidence, target_evidence
from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError
from oracles.literal_network import LiteralNetwork

mlp = LiteralNetwork.relu_mlp(1)
uneven = LiteralNetwork.relu_mlp(1, feature_weights=tuple(np.linspace(0.5, 2, 9)))
turns = actions.image_rotations(4)
classes = actions.labels(
    groups.cyclic(4), np.array([[(c + g) % 4 if c < 4 else 4 for c in range(5)] for g in range(4)])
)


def log_density(K, y):
    return sum(multivariate_normal(np.zeros(len(K)), K).logpdf(column) for column in np.reshape(y, (len(y), -1)).T)


def noisy(K, ridge):
    return K + ridge * np.trace(K) / len(K) * np.eye(len(K))


def explicit(net, action, x, ridge, kernel="ntk", weights=None):
    """Θ + δ/ω of all copies, g running slowest."""
    orbit = action.orbit(x).reshape(-1, *x.shape[1:])
    K = getattr(net.kernel(orbit), kernel)
    w = np.ones(len(K)) if weights is None else np.repeat(weights / np.mean(weights), len(x))
    return K + np.diag(ridge * np.mean(w * np.diag(K)) / w)


class TestItIsTheDensityOfTheTargets:
    @pytest.mark.parametrize("kernel", ["ntk", "nngp"])
    @pytest.mark.parametrize("ridge", [0.0, 0.1])
    def test_without_augmentation(self, kernel, ridge, rng):
        x, y = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
        found = InfiniteEnsemble(mlp, kernel=kernel, ridge=ridge).fit(x, y).log_marginal_likelihood_
        assert isinstance(found, float)
        np.testing.assert_allclose(found, log_density(noisy(getattr(mlp.kernel(x), kernel), ridge), y), rtol=1e-10)

    def test_time_has_no_part_in_it(self, rng):
        x, y = rng.normal(size=(6, 3)), rng.normal(size=6)
        early, late = (InfiniteEnsemble(mlp, time=t).fit(x, y).log_marginal_likelihood_ for t in (0.1, np.inf))
        assert early == late

    def test_equal_samples_count_one_by_one(self, rng):
        x, y = rng.normal(size=(4, 3)), rng.normal(size=4)
        x, y = x[[0, 1, 2, 3, 1, 1]], y[[0, 1, 2, 3, 1, 1]]
        found = InfiniteEnsemble(mlp, ridge=0.1).fit(x, y).log_marginal_likelihood_
        np.testing.assert_allclose(found, log_density(noisy(mlp.kernel(x).ntk, 0.1), y), rtol=1e-10)

    @pytest.mark.parametrize("kernel", ["ntk", "nngp"])
    @pytest.mark.parametrize("moves", [False, True])
    def test_augmented_targets_are_those_of_the_explicit_problem(self, kernel, moves, rng):
        x, y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 5))
        x[2] = x[2, :1, :1]  # fixed by all turns: its copies are equal, and with labels that move they disagree
        x[3] = np.rot90(x[1], 1)
        how = {"label_action": classes} if moves else {}
        model = InfiniteEnsemble(mlp, augmentation=turns, kernel=kernel, ridge=0.1, **how).fit(x, y)
        copies = np.concatenate([classes(g, y) if moves else y for g in range(4)])
        expected = log_density(explicit(mlp, turns, x, 0.1, kernel), copies)
        np.testing.assert_allclose(model.log_marginal_likelihood_, expected, rtol=1e-10)

    def test_of_some_weighted_elements(self, rng):
        x, y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 2))
        x[2] = x[2, :1, :1]
        some = actions.subset(turns, [0, 1, 2], [1.0, 2.0, 0.5])
        model = InfiniteEnsemble(mlp, augmentation=some, ridge=0.1).fit(x, y)
        expected = log_density(explicit(mlp, some, x, 0.1, weights=some.weights), np.tile(y, (3, 1)))
        np.testing.assert_allclose(model.log_marginal_likelihood_, expected, rtol=1e-10)

    def test_of_a_classifier_it_is_that_of_its_targets(self, rng):
        x, labels = rng.normal(size=(6, 3)), np.array([0, 1, 2, 1, 0, 2])
        found = InfiniteEnsembleClassifier(mlp, ridge=0.1).fit(x, labels).log_marginal_likelihood_
        np.testing.assert_allclose(
            found, log_density(noisy(mlp.kernel(x).ntk, 0.1), np.eye(3)[labels] - 1 / 3), rtol=1e-10
        )


def of_samples(model, x, y):
    return sample_evidence(model.fit(x, y)._training).log_density


class TestItsSlopeIsItsDerivativeByRidge:
    @pytest.mark.parametrize("which", [target_evidence, sample_evidence])
    @pytest.mark.parametrize("how", ["dense", "invariant", "moves"])
    def test_by_differences(self, which, how, rng):
        x, y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 5))
        x[2] = x[2, :1, :1]
        x, y = x[[0, 1, 2, 1]], y[[0, 1, 2, 1]]
        actions_of = {"dense": {}, "invariant": {"augmentation": turns}}.get(
            how, {"augmentation": turns, "label_action": classes}
        )
        at = lambda ridge: which(InfiniteEnsemble(mlp, ridge=ridge, **actions_of).fit(x, y)._training)
        h = 1e-5
        expected = (at(0.1 + h).log_density - at(0.1 - h).log_density) / (2 * h)
        np.testing.assert_allclose(at(0.1).slope, expected, rtol=1e-6)


class TestAcrossAugmentationsItIsOfTheSamplesAsGiven:
    """Each sample's mean over its copies, labels moved back: a linear map of the explicit problem's targets."""

    @pytest.mark.parametrize("net", [mlp, uneven], ids=["by the invariant kernel", "by the explicit problem"])
    def test_invariant_labels(self, net, rng):
        x, y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 2))
        mean = np.tile(np.eye(4), 4) / 4
        C = mean @ explicit(net, turns, x, 0.1) @ mean.T
        np.testing.assert_allclose(
            of_samples(InfiniteEnsemble(net, augmentation=turns, ridge=0.1), x, y), log_density(C, y), rtol=1e-9
        )

    def test_labels_that_move(self, rng):
        x, y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 5))
        x[2], y[2] = x[2, :1, :1], [1, 1, 1, 1, 2]
        y[:, :4] -= y[:, :4].mean(axis=1, keepdims=True)  # nothing of one irrep
        back = np.stack([classes(g, np.eye(5)) for g in range(4)])  # ρ(g)⁻¹ y, as these are orthogonal
        mean = np.einsum("gab,ij->iagjb", back / 4, np.eye(4)).reshape(20, 80)
        C = mean @ np.kron(explicit(mlp, turns, x, 0.1), np.eye(5)) @ mean.T
        model = InfiniteEnsemble(mlp, augmentation=turns, label_action=classes, ridge=0.1)
        np.testing.assert_allclose(of_samples(model, x, y), log_density(C, y.reshape(20, 1)), rtol=1e-9)

    def test_vectors_that_turn_and_are_reflected(self, rng):
        """Whose irrep has dimension 2, beside an output that stays."""
        square = actions.image_dihedral(4)
        turn = np.tile(np.eye(3), (8, 1, 1))
        turn[:, :2, :2] = np.real(square.group.irreps("real")[-1].matrices)
        assert np.abs(turn[:, 0, 1]).max() == 1
        vectors = actions.linear(square.group, turn)
        x, y = rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 3))
        mean = np.einsum("gba,ij->iagjb", turn / 8, np.eye(3)).reshape(9, 72)
        C = mean @ np.kron(explicit(mlp, square, x, 0.1), np.eye(3)) @ mean.T
        model = InfiniteEnsemble(mlp, augmentation=square, label_action=vectors, ridge=0.1)
        np.testing.assert_allclose(of_samples(model, x, y), log_density(C, y.reshape(9, 1)), rtol=1e-9)


class TestTargetsWithoutADensityAreRefused:
    def test_a_singular_kernel_names_the_ridge_that_helps(self, rng):
        x, y = rng.normal(size=(6, 2)), rng.normal(size=6)
        model = InfiniteEnsemble(LiteralNetwork.linear(), time=1.0).fit(x, y)
        with pytest.raises(NotPositiveDefiniteError, match="no Gaussian density; set ridge="):
            _ = model.log_marginal_likelihood_

    def test_equal_samples_without_ridge(self, rng):
        x, y = rng.normal(size=(4, 3)), rng.normal(size=4)
        model = InfiniteEnsemble(mlp).fit(x[[0, 1, 2, 2]], y[[0, 1, 2, 2]])
        with pytest.raises(NotPositiveDefiniteError, match="equal samples"):
            _ = model.log_marginal_likelihood_

    def test_labels_that_move_in_an_explicit_problem_across_augmentations(self, rng):
        x, y = rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 5))
        with pytest.raises(InvalidArgumentError, match="leave-one-out"):
            of_samples(InfiniteEnsemble(uneven, augmentation=turns, label_action=classes, ridge=0.1), x, y)
