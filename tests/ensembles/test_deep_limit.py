"""Wide ensembles under full-batch gradient descent follow the closed form: mean μ_t, covariance Σ_t, at every step.

The outputs of an infinitely wide network are independent of one another and equally distributed, so their variances
are averaged. The mean of M members has the standard error σ_t/√M.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from equitangents import DeepEnsemble, InfiniteEnsemble, actions, nn

rng = np.random.default_rng(0)
OUTPUTS = 4


def unit_vectors(n):
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


X, ELSEWHERE = unit_vectors(10), unit_vectors(6)
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2], X[:, 0], np.cos(3 * X[:, 2])], axis=1)
TIMES = [1, 4, 12, 32]


def network(width, hidden):
    layers = [nn.Dense(width, W_std=1.5, b_std=0.2), nn.Relu()] * hidden
    return nn.Sequential(nn.Flatten(), *layers, nn.Dense(OUTPUTS))


@dataclass
class Comparison:
    """errors: (mean − μ_t) in standard errors, (times, points, outputs); variance: measured / Σ_t, (times,)."""

    errors: np.ndarray
    variance: np.ndarray


def compare(width, hidden, members, share, augmentation=None, x=X, elsewhere=ELSEWHERE):
    """An ensemble, trained in parts of `share` members, beside the closed form."""
    limit = InfiniteEnsemble(network(1, hidden), augmentation=augmentation, dynamics="discrete", time=1.0)
    rate = limit.set_params(learning_rate=0.1).fit(x, Y).max_learning_rate_ / 3
    limit.set_params(learning_rate=rate).fit(x, Y)
    mean, std = limit.predict(elsewhere, time=np.array(TIMES, float), return_std=True)
    parts = []
    for seed in range(members // share):
        model = DeepEnsemble(
            network(width, hidden),
            share,
            augmentation=augmentation,
            optimizer="gd",
            learning_rate=rate,
            epochs=TIMES[-1],
            seed=seed,
        )
        parts.append(model.fit(x, Y, record={"elsewhere": elsewhere}, record_at=TIMES).recorded_["elsewhere"])
    outputs = np.concatenate(parts, axis=1).astype(float)
    deviation = outputs.mean(axis=1) - mean
    return Comparison(
        deviation / (std[..., None] / np.sqrt(members)),
        outputs.var(axis=1, ddof=1).mean(axis=(1, 2)) / (std**2).mean(axis=1),
    )


@cache
def measured(width, hidden):
    return compare(width, hidden, members=200, share=200)


def root_mean_square(errors):
    return np.sqrt((errors**2).mean())


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [1, 2])
def test_wide_ensembles_follow_the_closed_form(hidden):
    found = measured(512, hidden)
    assert abs(found.errors).max() < 4  # the largest of 96
    assert root_mean_square(found.errors) < 1.5
    np.testing.assert_allclose(found.variance, 1, atol=0.1)


@pytest.mark.slow
def test_wider_networks_come_closer():
    narrow, wide = (measured(width, hidden=1) for width in (16, 512))
    assert root_mean_square(narrow.errors) > 2 * root_mean_square(wide.errors)
    assert abs(narrow.variance - 1).max() > 1.5 * abs(wide.variance - 1).max()


@pytest.mark.slow
def test_augmented_ensembles_follow_the_closed_form():
    x, elsewhere = (rng.normal(size=(n, 3, 3, 1)) for n in (10, 4))
    turns = actions.image_rotations(4)
    found = compare(width=512, hidden=1, members=200, share=200, augmentation=turns, x=x, elsewhere=elsewhere)
    assert abs(found.errors).max() < 4
    assert root_mean_square(found.errors) < 1.5
    np.testing.assert_allclose(found.variance, 1, atol=0.1)
