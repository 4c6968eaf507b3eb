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
turns, square = actions.image_rotations(4), actions.image_dihedral(4)
classes = actions.labels(
    groups.cyclic(4), np.array([[(c + g) % 4 if c < 4 else 4 for c in range(5)] for g in range(4)])
)
# vectors that turn and are reflected, an irrep of dimension 2, beside an output that stays
turn = np.tile(np.eye(3), (8, 1, 1))
turn[:, :2, :2] = np.real(square.group.irreps("real")[-1].matrices)
vectors = actions.linear(square.group, turn)
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(4, 5))
SPECIAL = X.copy()
SPECIAL[2], SPECIAL[3] = (
    X[2, :1, :1],
    np.rot90(X[1], 1),
)  # fixed by all turns, so that its copies are equal; of one orbit
FIXED, AGAIN = X.copy(), [0, 1, 2, 3, 1, 1]
FIXED[2] = X[2, :1, :1]
SOME = actions.subset(turns, [0, 1, 2], [1.0, 2.0, 0.5])


def log_density(K, y):
    return sum(multivariate_normal(np.zeros(len(K)), K).logpdf(column) for column in np.reshape(y, (len(y), -1)).T)


def explicit(net, action, x, ridge=0.1, kernel="ntk"):
    """Θ + δ/ω of all copies, g running slowest."""
    orbit = x if action is None else action.orbit(x).reshape(-1, *x.shape[1:])
    K = getattr(net.kernel(orbit), kernel)
    weights = getattr(action, "weights", np.ones(1))
    w = np.repeat(weights / np.mean(weights), len(K) // len(weights))
    return K + np.diag(ridge * np.mean(w * np.diag(K)) / w)


@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
@pytest.mark.parametrize(
    ("augmentation", "label_action", "x", "y", "ridge"),
    [
        pytest.param(None, None, X, Y, 0.0, id="plain"),
        pytest.param(None, None, X, Y, 0.1, id="ridge"),
        pytest.param(None, None, X[AGAIN], Y[AGAIN], 0.1, id="equal samples count one by one"),
        pytest.param(turns, None, SPECIAL, Y, 0.1, id="invariant"),
        pytest.param(turns, classes, SPECIAL, Y, 0.1, id="labels that move, and disagree"),
        pytest.param(SOME, None, FIXED, Y, 0.1, id="some weighted elements"),
    ],
)
def test_it_is_the_density_of_all_targets_at_every_time(augmentation, label_action, x, y, ridge, kernel):
    settings = {"augmentation": augmentation, "label_action": label_action, "ridge": ridge, "kernel": kernel}
    found = [InfiniteEnsemble(mlp, time=t, **settings).fit(x, y).log_marginal_likelihood_ for t in (0.1, np.inf)]
    assert isinstance(found[0], float)
    assert found[0] == found[1]
    elements = 1 if augmentation is None else len(getattr(augmentation, "elements", range(4)))
    copies = np.concatenate([y if label_action is None else label_action(g, y) for g in range(elements)])
    np.testing.assert_allclose(found[0], log_density(explicit(mlp, augmentation, x, ridge, kernel), copies), rtol=1e-10)


def test_of_a_classifier_it_is_that_of_its_targets():
    labels = np.array([0, 1, 2, 1])
    found = InfiniteEnsembleClassifier(mlp, ridge=0.1).fit(X, labels).log_marginal_likelihood_
    np.testing.assert_allclose(found, log_density(explicit(mlp, None, X), np.eye(3)[labels] - 1 / 3), rtol=1e-10)


def of_samples(model, x, y):
    return sample_evidence(model.fit(x, y)._training).log_density


@pytest.mark.parametrize("which", [target_evidence, sample_evidence])
@pytest.mark.parametrize("how", [{}, {"augmentation": turns}, {"augmentation": turns, "label_action": classes}])
def test_its_slope_is_its_derivative_by_ridge(which, how):
    at = lambda ridge: which(
        InfiniteEnsemble(mlp, ridge=ridge, **how).fit(FIXED[[0, 1, 2, 1]], Y[[0, 1, 2, 1]])._training
    )
    h = 1e-5
    expected = (at(0.1 + h).log_density - at(0.1 - h).log_density) / (2 * h)
    np.testing.assert_allclose(at(0.1).slope, expected, rtol=1e-6)


class TestAcrossAugmentationsItIsOfTheSamplesAsGiven:
    """Each sample's mean over its copies, labels moved back: a linear map of the explicit problem's targets."""

    @pytest.mark.parametrize("net", [mlp, uneven], ids=["by the invariant kernel", "by the explicit problem"])
    def test_invariant_labels(self, net):
        mean = np.tile(np.eye(4), 4) / 4
        C = mean @ explicit(net, turns, X) @ mean.T
        found = of_samples(InfiniteEnsemble(net, augmentation=turns, ridge=0.1), X, Y)
        np.testing.assert_allclose(found, log_density(C, Y), rtol=1e-9)

    @pytest.mark.parametrize(("action", "label_action"), [(turns, classes), (square, vectors)])
    def test_labels_that_move(self, action, label_action):
        k = label_action.matrices.shape[1]
        x, y = FIXED if k == 5 else X, Y[:, :k].copy()
        if k == 5:
            y[2] = [1, 1, 1, 1, 2]
            y[:, :4] -= y[:, :4].mean(axis=1, keepdims=True)  # nothing of one irrep
        back = label_action.matrices / action.group.order  # ρ(g)⁻¹ of orthogonal ones, transposed
        mean = np.einsum("gba,ij->iagjb", back, np.eye(4)).reshape(4 * k, -1)
        C = mean @ np.kron(explicit(mlp, action, x), np.eye(k)) @ mean.T
        model = InfiniteEnsemble(mlp, augmentation=action, label_action=label_action, ridge=0.1)
        np.testing.assert_allclose(of_samples(model, x, y), log_density(C, y.reshape(4 * k, 1)), rtol=1e-9)


def test_targets_without_a_density_are_refused():
    flat, linear = rng.normal(size=(6, 2)), LiteralNetwork.linear()
    for model, x, said in (
        (InfiniteEnsemble(linear, time=1.0), flat, "no Gaussian density; set ridge="),
        (InfiniteEnsemble(mlp), X[[0, 1, 2, 2]], "equal samples"),
    ):
        y = Y[[0, 1, 2, 2]] if len(x) == 4 else flat
        with pytest.raises(NotPositiveDefiniteError, match=said):
            _ = model.fit(x, y).log_marginal_likelihood_
    moving = InfiniteEnsemble(uneven, augmentation=turns, label_action=classes, ridge=0.1)
    with pytest.raises(InvalidArgumentError, match="leave-one-out"):
        of_samples(moving, X, Y)
