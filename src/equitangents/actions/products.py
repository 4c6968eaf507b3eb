"""Combined actions: tensor products, direct sums, and restrictions to subgroups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from equitangents._types import ArrayLike, Element
from equitangents.actions.action import Action, GroupAction
from equitangents.actions.compact import check_finite_group
from equitangents.actions.images import ImageMotions
from equitangents.actions.vectors import LinearAction, channels
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups import Group
from equitangents.groups.group import Subgroup, read_only
from equitangents.groups.representations import blocks


@final
class FieldAction(Action):
    """Action on positions and channels, (ρ(g) f)(x) = M(g) f(g⁻¹ x); made by `tensor_product`."""

    channels_last = True

    def __init__(self, positions: Action, fibre: Action):
        vars(self).update(
            group=positions.group, exact=positions.exact, mask=positions.mask,
            needs_floats=positions.in_numpy().needs_floats, name=f"{positions.name} with {fibre.name}",
            positions=positions, fibre=fibre,
        )  # fmt: skip

    positions: Action
    fibre: Action

    def moves(self, g: int, shape: Sequence[int]) -> tuple[np.ndarray, bool] | None:
        """Return how g permutes positions, and whether it acts on channels by an orthogonal matrix; None if unknown."""
        moved, turned = self.positions.moves(g, shape), self.fibre.moves(g, shape)
        return None if moved is None or turned is None else (moved[0], moved[1] and turned[1])

    def angle(self, g: Element) -> float | None:
        """Rotation angle of element g in degrees, if it rotates."""
        return self.positions.angle(g)

    def moves_exactly(self, g: Element) -> bool:
        """Whether g moves values without resampling them."""
        return self.positions.moves_exactly(g)

    def more_accurate(self) -> GroupAction | None:
        """This action with a more accurate interpolation; None if there is none."""
        better = self.positions.more_accurate()
        return FieldAction(better, self.fibre) if isinstance(better, Action) else None

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return self.fibre._check_signals(self.positions._check_signals(x))

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        return self.fibre._act(g, self.positions._act(g, x))


_SHARED = ("exact", "permutes_positions", "channels_last", "permutes_entries", "linear", "mask")


@final
class RestrictedAction(Action):
    """An action of a subgroup, whose element i acts as `elements[i]`; made by `restrict`."""

    def __init__(self, action: Action, group: Group, elements: np.ndarray):
        vars(self).update(
            {what: getattr(action, what) for what in _SHARED}, group=group, action=action, elements=read_only(elements),
            needs_floats=action.in_numpy().needs_floats and not all(map(action.moves_exactly, elements)),
            name=f"{action.name}, of a subgroup",
        )  # fmt: skip

    action: Action
    elements: np.ndarray

    @property
    def matrices(self) -> np.ndarray | None:
        """The representation matrices of an action on the last axis; None for other actions."""
        M = self.action.matrices
        return None if M is None else M[self.elements]

    def position_table(self, shape: Sequence[int]) -> np.ndarray | None:
        """table[i, x] = index of the position elements[i]·x, if the action permutes positions."""
        table = self.action.position_table(shape)
        return None if table is None else table[self.elements]

    def moves(self, g: int, shape: Sequence[int]) -> tuple[np.ndarray, bool] | None:
        """Return how element g permutes positions; None if unknown."""
        return self.action.moves(int(self.elements[g]), shape)

    def is_isometry(self, g: int, shape: Sequence[int]) -> bool:
        """Return whether element g preserves distances."""
        return self.action.is_isometry(int(self.elements[g]), shape)

    def angle(self, g: Element) -> float | None:
        """Rotation angle of element g in degrees, if it rotates."""
        return self.action.angle(int(self.elements[g]))

    def moves_exactly(self, g: Element) -> bool:
        """Whether element g moves values without resampling them."""
        return self.action.moves_exactly(int(self.elements[g]))

    def more_accurate(self) -> GroupAction | None:
        """This action with a more accurate interpolation; None if there is none."""
        better = self.action.more_accurate()
        return RestrictedAction(better, self.group, self.elements) if isinstance(better, Action) else None

    def in_numpy(self) -> GroupAction:
        """This action for NumPy arrays, in its fastest form for many elements."""
        same = self.action.in_numpy() if self.needs_floats else self  # which moves whole numbers as they are
        return same.restricted(self.group, self.elements) if isinstance(same, ImageMotions) else self

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return self.action._check_signals(x)

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        return self.action._act(int(self.elements[g]), x)

    def _orbit(self, elements: np.ndarray, x: ArrayLike) -> ArrayLike:
        return self.action._orbit(self.elements[elements], x)


def tensor_product(a: Action, b: Action) -> LinearAction | FieldAction:
    """The tensor product of two actions of one group.

    Of two actions on vectors, (N, d_a) and (N, d_b): M_a(g) ⊗ M_b(g) on (N, d_a·d_b), index i·d_b + j.
    Of an action on positions (images, grids, ...) and one on vectors (N, C): fields (N, *positions, C) whose values
    transform along with the positions, (ρ(g) f)(x) = M_b(g) f(g⁻¹ x).
    """
    check_same_group(a, b)
    if b.matrices is None:
        raise InvalidTypeError("b", b, "an action on vectors (linear, channels, labels, rotations)")
    if a.matrices is None:
        return FieldAction(a, channels(b.group, b.matrices))
    order = a.group.order
    kron = np.einsum("gij,gkl->gikjl", a.matrices, b.matrices)
    d = a.matrices.shape[1] * b.matrices.shape[1]
    return LinearAction(a.group, kron.reshape(order, d, d), (2,), f"tensor product of {a.name} and {b.name}")


def direct_sum(*actions: Action) -> LinearAction:
    """The direct sum of actions on vectors: block-diagonal matrices on (N, d₁ + d₂ + ...)."""
    if not actions:
        raise InvalidArgumentError("actions", (), "at least one")
    matrices = []
    for action in actions:
        check_same_group(actions[0], action)
        if action.matrices is None:
            raise InvalidTypeError("actions", action, "actions on vectors (linear, labels, rotations)", verb="holds")
        matrices.append(action.matrices)
    name = "direct sum of " + ", ".join(a.name for a in actions)
    return LinearAction(actions[0].group, blocks(matrices).copy(), (2,), name)


def restrict(action: Action, subgroup: Subgroup) -> RestrictedAction:
    """The action of a subgroup of `action.group`; its element i acts as `subgroup.elements[i]`.

    >>> from equitangents.actions import image_rotations
    >>> rot = image_rotations(4)
    >>> restrict(rot, rot.group.subgroup([0, 2])).group.order
    2
    """
    check_finite_group("action", action)
    if not isinstance(subgroup, Subgroup):
        raise InvalidTypeError("subgroup", type(subgroup), "action.group.subgroup(...)", verb="is of type")
    elements = np.array(subgroup.elements, np.int64)
    if not subgroup.group.has_same_table(action.group):
        raise InvalidArgumentError("subgroup", subgroup.group, action.group, verb="is one of")
    # the action's own group says what its elements are: another of the same table need not
    return RestrictedAction(action, Subgroup(action.group, elements).as_group, elements)


def check_same_group(a: Action, b: Action) -> None:
    """Raise unless both are actions of the same group."""
    for name, action in (("a", a), ("b", b)):
        check_finite_group(name, action)
        if not isinstance(action, Action):
            raise InvalidTypeError(name, type(action), "an action", verb="is of type")
    if not a.group.has_same_table(b.group):
        raise InvalidArgumentError("b", b.group, a.group, "give actions of one group", verb="is of")
