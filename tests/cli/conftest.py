"""What tests of commands share."""

from collections.abc import Callable

import pytest


@pytest.fixture
def run(command: Callable) -> Callable:
    return command
