"""Settings shared by all tests: Hypothesis is reproducible and never times a test."""

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=15,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same at every run."""
    return np.random.default_rng(0)
