"""Finite subsets of a group, with or without weights, for augmentation by part of an orbit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from equitangents._types import ArrayLike, Elements
from equitangents.actions.action import Action, GroupAction
from equitangents.actions.compact import CompactAction
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.validation import check_whole


@dataclass(frozen=True, eq=False)
class ActionSubset:
    """Elements of an action's group, in the user's order; made by `subset` and `sampled`. It is not itself an action.

    `weights`: how much each element counts, 1 by default. Elements of SO(3) and O(3) are matrices.
    """

    action: GroupAction
    elements: Int[np.ndarray, " size"] | Float[np.ndarray, "size 3 3"]
    weights: Float[np.ndarray, " size"]

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def name(self) -> str:
        """A description such as "3 of 8 elements of C8, weighted"."""
        weighted = "" if np.ptp(self.weights) == 0 else ", weighted"
        listed = self.action.group.elements
        of = "" if listed is None else f" of {len(listed)}"
        return f"{len(self)}{of} elements of {self.action.group.name}{weighted}"

    @property
    def is_subgroup(self) -> bool:
        """Whether the elements form a subgroup, each once, all with one weight."""
        if not isinstance(self.action, Action):
            return False  # the finite ones are groups of their own, such as groups.icosahedral()
        group = self.action.group
        member = np.zeros(group.order, bool)
        member[self.elements] = True
        if np.ptp(self.weights) or len(self) != member.sum() or not member[group.identity]:
            return False
        return all(member[group._compose(a, self.elements)].all() for a in self.elements)

    def orbit(self, x: ArrayLike) -> ArrayLike:
        """All ρ(g) x for the elements, along a new first axis: (N, ...) → (size, N, ...)."""
        return self.action.orbit(x, self.elements)

    def __deepcopy__(self, memo: dict[int, Any]) -> ActionSubset:
        return self

    def __repr__(self) -> str:
        return f"<{self.name}: {self.action.name}>"


def subset(action: GroupAction, elements: Elements, weights: npt.ArrayLike | None = None) -> ActionSubset:
    """The listed elements of `action`'s group, for partial augmentation in `InfiniteEnsemble`.

    elements (size,): in any order; repeated elements count repeatedly, as random draws do. For SO(3) and O(3):
    matrices (size, 3, 3) or numbers of nodes.
    weights (size,): positive weights in the loss Σ_g w_g |f(ρ(g)x) − y|² / Σ_g w_g; None: all equal.

    >>> from equitangents.actions import image_rotations
    >>> subset(image_rotations(4), [0, 1, 3])
    <3 of 4 elements of C4: rotations by 90° of images>
    >>> subset(image_rotations(4), [0, 2]).is_subgroup
    True
    """
    if not isinstance(action, GroupAction):
        raise InvalidTypeError("action", action, "an action of equitangents.actions")
    chosen = np.array(action.check_elements(elements))
    if isinstance(action, Action):
        chosen = chosen.astype(np.int64)
    w = np.ones(len(chosen)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != chosen.shape[:1]:
        raise ShapeError("weights", w.shape, chosen.shape[:1], "give one for each element")
    if not (np.isfinite(w).all() and (w > 0).all()):
        raise InvalidArgumentError("weights", w[~(w > 0) | ~np.isfinite(w)][0], "positive numbers", verb="holds")
    w = np.array(w)
    chosen.flags.writeable = w.flags.writeable = False
    return ActionSubset(action, chosen, w)


def sampled(action: CompactAction, count: int | None = None, *, seed: int = 0) -> ActionSubset:
    """Finitely many elements of SO(3) or O(3), for augmentation.

    count: number of elements drawn from the Haar measure, equally weighted. None: the nodes and weights of the group's
    quadrature, whose loss is that of full augmentation wherever the quadrature of `so3(bandlimit)` is exact. Neither
    makes a mean exactly equivariant; a finite subgroup does so for its own elements.

    >>> from equitangents.actions import rotations
    >>> from equitangents.groups import so3
    >>> sampled(rotations(so3(3))), sampled(rotations(so3(3)), 10)
    (<75 elements of SO(3), weighted: rotations of 3-vectors>, <10 elements of SO(3): rotations of 3-vectors>)
    """
    if not isinstance(action, CompactAction):
        raise InvalidTypeError("action", action, "actions.rotations of so3(bandlimit) or o3(bandlimit)")
    if count is None:
        return subset(action, action._nodes(), action.weights)
    count, seed = check_whole("count", count, 1), check_whole("seed", seed, 0)
    return subset(action, action.group.random(count, seed=seed))


Augmentation = Action | ActionSubset
"""By what data are augmented: an action of a finite group, or some elements of one."""


def whole_action(augmentation: Augmentation) -> GroupAction:
    """The augmentation's action: itself, or the action of which it is a subset."""
    return augmentation.action if isinstance(augmentation, ActionSubset) else augmentation


def augmenting_elements(augmentation: Augmentation) -> np.ndarray:
    """The elements that an augmentation applies, in the order of its `orbit`."""
    if isinstance(augmentation, ActionSubset):
        return augmentation.elements
    return np.arange(augmentation.group.order)
