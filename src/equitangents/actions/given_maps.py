"""Actions that trust the elements and NumPy arrays that they are given, as audits draw and hold them."""

from __future__ import annotations

import numpy as np

from equitangents._types import ArrayLike, Elements, Tree
from equitangents.actions.group_action import GroupAction


class GivenMap(GroupAction):
    """What such actions share: subclasses say what ρ(g) x is, and which signals fit."""

    def orbit(self, x: ArrayLike, elements: Elements = None) -> np.ndarray:
        """ρ(g) x along a new first axis, for `elements` or the nodes of the group."""
        return np.stack(list(self.one_by_one(self.group.nodes if elements is None else elements, x)))  # type: ignore[arg-type]

    def verify(self, x: Tree) -> None:
        """Check that x fits; that ρ is an action is known of these maps."""
        self.check_signals("x", x)

    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """Elements as an array, each in the group's own form."""
        return np.stack([np.asarray(self.group.check_element(name, g)) for g in elements])
