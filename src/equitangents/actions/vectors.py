"""Linear actions on the last axis: vectors, channels, labels, and point clouds.

ρ(g) x = M(g) x with M(g) M(h) = M(g·h), checked when the action is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final, overload

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from equitangents._types import AnyAction, ArrayLike
from equitangents.actions.action import TOLERANCE, Action, GroupAction, check_group, check_last_axis, multiply
from equitangents.actions.compact import ContinuousRotations
from equitangents.actions.positions import check_permutation_table
from equitangents.actions.unchecked import MatrixAction
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError, ShapeError
from equitangents.groups import Group, MatrixGroup, SymmetryGroup
from equitangents.groups.irreps import Irrep
from equitangents.groups.representations import Representation, RepresentationLike, as_representation
from equitangents.groups.rotation_group import RotationGroup
from equitangents.groups.symmetry_group import CompactIrrep
from equitangents.validation import as_rectangular, check_array


@final
class LinearAction(Action):
    """Matrices acting on the last axis of arrays of the given ranks; made by `linear`, `channels`, `rotations`, ..."""

    linear = True
    ranks: tuple[int, ...] | None

    def __init__(self, group: Group, matrices: np.ndarray, ranks: tuple[int, ...] | None, name: str):
        matrices.flags.writeable = False
        vars(self).update(group=group, _matrices=matrices, ranks=ranks, name=name)

    @property
    def matrices(self) -> Float[np.ndarray, "order d d"]:
        """The matrix M(g) of every element, read-only float64."""
        return vars(self)["_matrices"]

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_last_axis(x, self.ranks, self.matrices.shape[-1], self.name)

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        return multiply("...j,ij->...i", x, self.matrices[g])

    def _orbit(self, elements: np.ndarray, x: ArrayLike) -> ArrayLike:
        return multiply("...j,gij->g...i", x, self.matrices[elements])

    def _key(self) -> tuple[Any, ...]:
        return (self.ranks, self.matrices.shape, self.matrices.tobytes())


@final
class LastAxisPermutation(Action):
    """Permutations of the last axis: table[g, c] is where entry c goes; made by `channels` and `labels`."""

    linear = True
    permutes_entries = True
    ranks: tuple[int, ...] | None
    table: Int[np.ndarray, "order d"]

    def __init__(self, group: Group, table: np.ndarray, ranks: tuple[int, ...] | None, name: str):
        vars(self).update(group=group, table=table, ranks=ranks, name=name)

    @property
    def matrices(self) -> Float[np.ndarray, "order d d"]:
        """The permutation of every element as a matrix."""
        return np.swapaxes(np.eye(self.table.shape[1])[self.table], 1, 2)

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_last_axis(x, self.ranks, self.table.shape[-1], self.name)

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        return x[..., self.table[self.group.inverse(g)]]


@final
class TrivialAction(Action):
    """The trivial action, ρ(g) x = x; made by `trivial`."""

    def __init__(self, group: Group):
        vars(self).update(group=group, name="trivial action")

    def moves(self, g: int, shape: Sequence[int]) -> tuple[np.ndarray, bool]:
        """Return the identity permutation: no element moves a position or a channel."""
        return np.arange(int(np.prod(shape[:-1], dtype=np.int64))), True

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_array("x", x, min_rank=1)

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        return x


def linear(group: Group, matrices: npt.ArrayLike) -> LinearAction:
    """The action M(g) x on vectors x (N, d), matrices (|G|, d, d) real.

    Raises NotAnActionError with the witness unless M(e) = 1 and M(g) M(h) = M(g·h) to 1e-8.

    >>> from equitangents.groups import cyclic
    >>> linear(cyclic(2), [[[1.0]], [[-1.0]]])(1, np.array([[3.0]]))
    array([[-3.]])
    """
    group = check_group("group", group)
    return LinearAction(group, check_matrices("matrices", group, matrices), (2,), "linear action on vectors")


def channels(group: Group, representation: npt.ArrayLike) -> LinearAction | LastAxisPermutation:
    """The action on the last axis of arrays of any rank, (N, ..., C), by the same matrix at every position.

    `representation`: real matrices (|G|, C, C), or a permutation table (|G|, C), table[g, c] = where channel c goes.
    """
    return _on_last_axis(group, representation, None, "action on channels")


def labels(group: Group, representation: npt.ArrayLike) -> LinearAction | LastAxisPermutation:
    """The action on outputs (N, K), for equivariant labels; `representation` as in `channels`."""
    return _on_last_axis(group, representation, (2,), "action on labels")


@overload
def rotations(group: RotationGroup) -> ContinuousRotations: ...


@overload
def rotations(group: Group) -> LinearAction: ...


def rotations(group: Group | RotationGroup) -> LinearAction | ContinuousRotations:
    """The rotations of a group of 3×3 matrices, on vectors (N, 3) and point clouds (N, P, 3).

    For a finite group, an `Action`; for `so3(bandlimit)` or `o3(bandlimit)`, `ContinuousRotations`. With the latter,
    audits draw elements at random and measures take means over the nodes of the quadrature; features that are exact
    only for finite groups, such as full augmentation, raise an error.

    >>> from equitangents.groups import octahedral, so3
    >>> rotations(octahedral())(3, np.ones((2, 5, 3))).shape
    (2, 5, 3)
    >>> turn = rotations(so3(2))
    >>> turn([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]], np.array([[1.0, 2, 3]])).tolist(), turn.orbit(np.ones((2, 3))).shape
    ([[-2.0, 1.0, 3.0]], (18, 2, 3))
    """
    if isinstance(group, RotationGroup):
        return ContinuousRotations(group)
    group = check_group("group", group)
    if not isinstance(group, MatrixGroup) or group.matrices.shape[1] != 3:
        raise InvalidTypeError(
            "group", group, "a group with 3×3 matrices: octahedral(), icosahedral(), so3(bandlimit), ..."
        )
    if not group.rotates_space:
        raise InvalidArgumentError("group", group, "orthogonal matrices")
    return LinearAction(group, np.array(group.matrices), (2, 3), "rotations of 3-vectors")


def trivial(group: Group) -> TrivialAction:
    """The trivial action, on arrays of any rank."""
    return TrivialAction(check_group("group", group))


def check_matrices(name: str, group: Group, matrices: object) -> Float[np.ndarray, "order d d"]:
    """`matrices` as float64 if they are a representation of `group`, or an error that names `name`."""
    M = check_array(name, as_rectangular(name, matrices), rank=3)
    M = np.array(M, np.float64)
    if len(M) != group.order or M.shape[1] != M.shape[2]:
        raise ShapeError(name, M.shape, (group.order, "d", "d"), "give one matrix for each element")
    tolerance = TOLERANCE * max(1.0, float(np.abs(M).max()))
    if not np.abs(M[group.identity] - np.eye(M.shape[1])).max() <= tolerance:
        raise NotAnActionError(name, M[group.identity].tolist(), "the unit matrix, of the identity", at=group.identity)
    everything = np.arange(group.order)
    for g in group.generators:
        error = np.abs(M[g] @ M - M[group.compose(g, everything)]).max(axis=(1, 2))
        if not error.max() <= tolerance:
            h = int(error.argmax())
            raise NotAnActionError(name, float(error[h]), "ρ(g) ρ(h) = ρ(g·h)", verb="is off by", at=(g, h))
    return M


def _on_last_axis(
    group: Group, representation: object, ranks: tuple[int, ...] | None, name: str
) -> LinearAction | LastAxisPermutation:
    group = check_group("group", group)
    array = as_rectangular("representation", representation)
    if array.ndim == 2:
        return LastAxisPermutation(group, check_permutation_table("representation", group, array), ranks, name)
    if array.ndim == 3:
        return LinearAction(group, check_matrices("representation", group, array), ranks, name)
    raise ShapeError("representation", array.shape, (group.order, "C", "C"), "or a permutation table (order, C)")


def represented(group: SymmetryGroup, representation: RepresentationLike) -> GroupAction:
    """The action of a group on vectors (N, d) by a representation: an irrep, a list of irreps, or matrices.

    The action of a compact group takes any elements; that of a finite one lists all. Irreps of SO(2), O(2), SO(3) and
    O(3) also act for finite groups of rotations, as in `nn.Readout`.

    >>> from equitangents import groups
    >>> S3 = groups.symmetric(3)
    >>> represented(S3, S3.irreps("real")[2])(1, np.eye(2)).shape
    (2, 2)
    """
    found = as_representation("representation", representation)
    if isinstance(group, Group):
        return linear(group, found.at(group))
    found.at(group)  # raises where it is of another group
    return MatrixAction(group, found, found.dimension, f"vectors of the {found!r}".replace("<", "").replace(">", ""))


def as_output_action(value: AnyAction, group: SymmetryGroup) -> AnyAction:
    """`value` itself if it is an action, else the action on outputs of a representation or matrices (order, d, d)."""
    if isinstance(value, Irrep | CompactIrrep | Representation) or (isinstance(value, np.ndarray) and value.ndim == 3):
        return represented(group, value)
    return value
