"""Some elements of a group, with or without weights: augmentation that covers an orbit in part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from equitangents.actions.action import Action
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError


@dataclass(frozen=True, eq=False)
class ActionSubset:
    """Elements of an action's group, in the order given; made by `subset`. It is not itself an action.

    `weights` are how often each element counts, 1 unless given.
    """

    action: Action
    elements: Int[np.ndarray, " size"]
    weights: Float[np.ndarray, " size"]

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def name(self) -> str:
        """Such as "3 of 8 elements of C8, weighted"."""
        weighted = "" if np.ptp(self.weights) == 0 else ", weighted"
        return f"{len(self)} of {self.action.group.order} elements of {self.action.group.name}{weighted}"

    @property
    def is_subgroup(self) -> bool:
        """Whether the elements are a whole subgroup, each once, all with one weight."""
        group = self.action.group
        member = np.zeros(group.order, bool)
        member[self.elements] = True
        if np.ptp(self.weights) or len(self) != member.sum() or not member[group.identity]:
            return False
        return all(member[group._compose(a, self.elements)].all() for a in self.elements)

    def orbit(self, x: Any) -> Any:
        """All ρ(g) x for the elements, along a new first axis: (N, ...) → (size, N, ...)."""
        return self.action.orbit(x, self.elements)

    def __deepcopy__(self, memo: dict[int, Any]) -> ActionSubset:
        return self

    def __repr__(self) -> str:
        return f"<{self.name}: {self.action.name}>"


def subset(action: Action, elements: Any, weights: Any = None) -> ActionSubset:
    """The given elements of `action`'s group, for partial augmentation in `InfiniteEnsemble`.

    elements (size,): in any order, repeated ones count as often as they are given, as random draws do.
    weights (size,): positive, how much each counts in the loss, Σ_g w_g |f(ρ(g)x) − y|² / Σ_g w_g; None: all alike.

    >>> from equitangents.actions import image_rotations
    >>> subset(image_rotations(4), [0, 1, 3])
    <3 of 4 elements of C4: turns by 90° of images>
    >>> subset(image_rotations(4), [0, 2]).is_subgroup
    True
    """
    if not isinstance(action, Action):
        raise InvalidTypeError(f"action is {action!r}; expected an action of equitangents.actions")
    chosen = action._check_subset(elements)
    w = np.ones(len(chosen)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != chosen.shape:
        raise ShapeError(f"weights has shape {w.shape}; expected {chosen.shape}, one for each element")
    if not (np.isfinite(w).all() and (w > 0).all()):
        raise InvalidArgumentError(f"weights holds {w[~(w > 0) | ~np.isfinite(w)][0]}; expected positive numbers")
    chosen, w = np.array(chosen, np.int64), np.array(w)
    chosen.flags.writeable = w.flags.writeable = False
    return ActionSubset(action, chosen, w)


def whole_action(augmentation: Action | ActionSubset) -> Action:
    """The action itself, or that of which a subset is taken."""
    return augmentation.action if isinstance(augmentation, ActionSubset) else augmentation


def augmenting_elements(augmentation: Action | ActionSubset) -> Int[np.ndarray, " size"]:
    """The elements that an augmentation applies, in the order of its `orbit`."""
    if isinstance(augmentation, ActionSubset):
        return augmentation.elements
    return np.arange(augmentation.group.order)
