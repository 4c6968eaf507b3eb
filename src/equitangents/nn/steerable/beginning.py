"""First layers of steerable networks."""

from __future__ import annotations

from typing import Any

from equitangents.kernels.program import Op
from equitangents.nn.layer import ParameterFree
from equitangents.nn.signal import Signal


class Beginning(ParameterFree):
    """A layer that says how the input's channels turn, under the group named `group`."""

    group: Any

    @property
    def steers(self) -> bool:
        """It is part of steerable networks."""
        return True

    @property
    def on_points(self) -> bool:
        """Whether features are on points, and not of a whole input."""
        return True

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """No operation: it is a function of the input alone."""
        return ()
