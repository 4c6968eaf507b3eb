"""First layers of steerable networks."""

from __future__ import annotations

from typing import ClassVar

from equitangents.groups import SymmetryGroup
from equitangents.kernels.program import Op
from equitangents.nn.layer import ParameterFree
from equitangents.nn.signal import Signal
from equitangents.steerable.irrep import group_name


class InputLayer(ParameterFree):
    """Input layer: the representation of the input's channels under the group named `group`."""

    group: SymmetryGroup | str

    @property
    def group_name(self) -> str:
        """The name of the group."""
        return group_name(self.group)

    steers: ClassVar[bool] = True

    @property
    def on_points(self) -> bool:
        """Whether features are on points, not global."""
        return True

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """No operations, since a layer without weights only changes the inputs of the kernel."""
        return ()
