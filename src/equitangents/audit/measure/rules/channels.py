"""Matrices on channels, after the positions have moved in a way that is known."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from equitangents._types import Element
from equitangents.actions import GroupAction
from equitangents.actions.given_maps import GivenMap
from equitangents.groups import Group


@final
class ChannelAction(GivenMap):
    """ρ(g) y = M(g) (positions moved by g): `base` moves the positions, or is None; M acts on the last axis."""

    needs_floats = True

    def __init__(self, group: Group, matrices: np.ndarray, base: GroupAction | None, name: str):
        exact = base is None or base.exact
        vars(self).update(group=group, matrices=matrices, base=base, name=name, exact=exact)

    matrices: np.ndarray
    base: GroupAction | None

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """What the base says; channels are as many as they were."""
        if self.base is not None:
            self.base.check_signals(name, x)

    def __call__(self, g: Element, x: Any) -> np.ndarray:
        """M(g) on the last axis of what the base makes of x."""
        moved = x if self.base is None else np.asarray(self.base(g, x))
        return moved @ self.matrices[g].T.astype(x.dtype)

    def moves_exactly(self, g: Element) -> bool:
        """Whether the base resamples nothing."""
        return self.base is None or self.base.moves_exactly(g)

    def _key(self) -> tuple[Any, ...]:
        return (self.matrices.shape, self.matrices.tobytes(), self.base)
