"""The log marginal likelihood is the Gaussian density of the targets, whatever the augmentation."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from equitangents import actions, groups
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.errors import NotPositiveDefiniteError
from oracles.literal_network import LiteralNetwork

mlp = LiteralNetwork.relu_mlp(1)
turns = actions.image_rotations(4)
classes = actions.labels(
    groups.cyclic(4), np.array([[(c + g) % 4 if c < 4 else 4 for c in range(5)] for g in range(4)])
)
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


@pytest.mark.parametrize("how", [{}, {"augmentation": turns}, {"augmentation": turns, "label_action": classes}])
def test_its_slope_is_its_derivative_by_ridge(how):
    at = lambda ridge: InfiniteEnsemble(mlp, ridge=ridge, **how).fit(FIXED[[0, 1, 2, 1]], Y[[0, 1, 2, 1]])
    h = 1e-5
    expected = (at(0.1 + h).log_marginal_likelihood_ - at(0.1 - h).log_marginal_likelihood_) / (2 * h)
    np.testing.assert_allclose(at(0.1).log_marginal_likelihood_slope_, expected, rtol=1e-6)


def test_targets_without_a_density_are_refused():
    flat, linear = rng.normal(size=(6, 2)), LiteralNetwork.linear()
    for model, x, message in (
        (InfiniteEnsemble(linear, time=1.0), flat, "no Gaussian density; cause: .*; set ridge="),
        (InfiniteEnsemble(mlp), X[[0, 1, 2, 2]], "equal samples"),
    ):
        y = Y[[0, 1, 2, 2]] if len(x) == 4 else flat
        with pytest.raises(NotPositiveDefiniteError, match=message):
            _ = model.fit(x, y).log_marginal_likelihood_
