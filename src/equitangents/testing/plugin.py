"""The pytest plugin: a fixture `assert_equivariant`, with a default tolerance for all assertions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the default tolerance."""
    parser.getgroup("equitangents").addoption(
        "--equivariance-tolerance",
        type=float,
        help="mean relative error that assert_equivariant accepts where a test states none (default: the noise floor)",
    )


@pytest.fixture
def assert_equivariant(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`equitangents.testing.assert_equivariant`."""
    from equitangents.testing.assertion import assert_equivariant

    return partial(assert_equivariant, tolerance=request.config.getoption("--equivariance-tolerance"))
