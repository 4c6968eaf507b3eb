"""Variances at inputs that were learnt to the end are 0 up to rounding, and never less."""

import numpy as np
import pytest

from equitangents.inference import Flow, TrainedProcess, decompose


@pytest.mark.parametrize("posterior", [False, True])
def test_variances_on_the_training_data_are_zero_or_more_after_infinite_time(posterior):
    found = []
    for seed in range(20):
        features = np.random.default_rng(seed).normal(size=(12, 14))
        K = features @ features.T
        process = TrainedProcess(decompose(K), np.ones((12, 1)), Flow(1.0, 12), prior=None if posterior else K)
        found.append(process.project(K, K).variance(np.diag(K), np.inf))
    assert np.min(found) >= 0
    assert np.max(found) < 1e-6
    assert np.count_nonzero(found) > 0
