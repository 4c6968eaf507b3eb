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
        """True, since the layer works on steerable features."""
        return True

    @property
    def on_points(self) -> bool:
        """Whether features are on points, and not of a whole input."""
        return True

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """No operations, since a layer without weights only changes the inputs of the kernel."""
        return ()
