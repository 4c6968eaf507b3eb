"""Actions of named groups on inputs of some shape, as in audits.

| group | inputs |
|---|---|
| C4, D4, C8, … | images (N, H, W, C), turned and reflected about their centre; vectors of the plane (N, …, 2) |
| C5 of (N, 5) | cyclic shifts of the features |
| S5, S_n | the features of (N, 5), the points of (N, 5, C), permuted |
| tetrahedral, octahedral, icosahedral | vectors of space (N, 3), (N, P, 3) |
| translations | signals on a grid (N, *positions, C), shifted around |
"""

from __future__ import annotations

from equitangents._types import AnyAction
from equitangents.actions.group_action import GroupAction
from equitangents.actions.kinds import kinds_named
from equitangents.actions.remedies import remedy
from equitangents.actions.subset import ActionSubset
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import SymmetryGroup, symmetric
from equitangents.groups.names import GroupName, parse_group_name

ActionLike = GroupAction | ActionSubset | str
"""An action, some elements of one, or the name of a group."""
_INFINITE = {
    "SO2": "C8, C16, … for images",
    "SO3": "octahedral or icosahedral, or actions.rotations(groups.so3(bandlimit))",
    "O3": "octahedral or icosahedral, or actions.rotations(groups.o3(bandlimit))",
}


def as_action(argument: str, action: AnyAction, shape: tuple[int, ...]) -> AnyAction:
    """`action` itself, or the action of the group with this name on inputs of `shape`, (N, …).

    Raises InvalidArgumentError or ShapeError, which name `argument`, for names that say nothing of such inputs.

    >>> as_action("augmentation", "C4", (10, 8, 8, 1))
    <action turns by 90° of images of C4>
    """
    if not isinstance(action, str):
        return action
    named = parse_group_name(argument, action)
    if named.family in _INFINITE:
        raise InvalidArgumentError(argument, action, "a finite group", _INFINITE[named.family])
    kinds = kinds_named(named, _group(argument, action, named, shape))
    recognised = kinds.recognised(shape)
    if not recognised:
        inputs = "X" if argument == "augmentation" else "x"
        hint = remedy(inputs, shape) if named.family in ("C", "D", "translations") else ""
        wanted = "; ".join(kinds.expected())
        raise ShapeError(f"{argument} is {action!r} and {inputs} has shape {shape}; expected {wanted}{hint}")
    return kinds.listed(recognised[0], shape)


def _group(argument: str, action: str, named: GroupName, shape: tuple[int, ...]) -> SymmetryGroup:
    """The group, with the number of points or the grid taken from the inputs, its elements listed."""
    if named.family != "S":
        group = named.group(grid=shape[1:-1] if len(shape) >= 3 else (1,))
        assert group is not None
        return group
    if len(shape) not in (2, 3):
        return symmetric(1)  # of no matter: such inputs are refused
    if named.n not in (None, shape[1]):
        raise ShapeError(argument, action, "S_n with n the number of points or features", str(shape[1]))
    return symmetric(shape[1])
