"""What a named group does to inputs of some shape: the same maps that an audit of such inputs takes.

| group | inputs |
|---|---|
| C4, D4, C8, … | images (N, H, W, C), turned and reflected about their centre; vectors of the plane (N, …, 2) |
| C5 of (N, 5) | cyclic shifts of the features |
| S5, S_n | the features of (N, 5), the points of (N, 5, C), permuted |
| tetrahedral, octahedral, icosahedral | vectors of space (N, 3), (N, P, 3) |
| translations | signals on a grid (N, *positions, C), shifted around |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.actions.action import Action
from equitangents.actions.images import image_dihedral
from equitangents.actions.positions import permutations, translations
from equitangents.actions.remedies import remedy
from equitangents.actions.rotated_images import image_rotations
from equitangents.actions.vectors import channels, linear, rotations
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import cyclic, dihedral, icosahedral, octahedral, symmetric, tetrahedral
from equitangents.groups.names import GroupName, parse_group_name

_SOLIDS = {"tetrahedral": tetrahedral, "octahedral": octahedral, "icosahedral": icosahedral}
_INFINITE = {
    "SO2": "C8, C16, … for images",
    "SO3": "octahedral or icosahedral, or actions.rotations(groups.so3(bandlimit))",
    "O3": "octahedral or icosahedral, or actions.rotations(groups.o3(bandlimit))",
}


def as_action(argument: str, action: Any, shape: tuple[int, ...]) -> Any:
    """`action` itself, or for the name of a group what it does to inputs of `shape`, (N, …).

    Raises InvalidArgumentError or ShapeError, which name `argument`, for names that say nothing of such inputs.

    >>> as_action("augmentation", "C4", (10, 8, 8, 1))
    <action turns by 90° of images of C4>
    """
    if not isinstance(action, str):
        return action
    named = parse_group_name(argument, action)
    if named.family in _INFINITE:
        raise InvalidArgumentError(
            f"{argument} is {action!r}, which has infinitely many elements; an audit draws some of them, here a finite "
            f"group is needed: {_INFINITE[named.family]}"
        )
    if named.family in ("C", "D"):
        found = _of_the_plane(named, shape)
    elif named.family == "S":
        found = _of_points(argument, action, named, shape)
    elif named.family == "translations":
        found = translations(shape[1:-1]) if len(shape) >= 3 else None
    else:
        fits = len(shape) in (2, 3) and shape[-1] == 3
        found = rotations(_SOLIDS[named.family]()) if fits else None
    if found is None:
        wanted = "; ".join(_wanted(named))
        inputs = "X" if argument == "augmentation" else "x"
        hint = remedy(inputs, shape) if named.family in ("C", "D", "translations") else ""
        raise ShapeError(f"{argument} is {action!r} and {inputs} has shape {shape}; expected {wanted}{hint}")
    return found


def _of_the_plane(named: GroupName, shape: tuple[int, ...]) -> Action | None:
    n = named.n or 1
    if len(shape) == 4:
        return image_rotations(n) if named.family == "C" else image_dihedral(n)
    if len(shape) in (2, 3) and shape[-1] == 2:
        angles = 2 * np.pi * np.arange(n) / n
        c, s = np.cos(angles), np.sin(angles)
        turns = np.moveaxis(np.array([[c, -s], [s, c]]), 2, 0)
        if named.family == "C":
            return channels(cyclic(n), turns)
        # images are reflected left to right: the first coordinate changes sign
        return channels(dihedral(n), np.concatenate([turns, turns @ np.diag([-1.0, 1.0])]))
    if len(shape) == 2 and named.family == "C" and shape[1] == n:
        shifts = (np.arange(n)[:, None] + np.arange(n)) % n
        return linear(cyclic(n), np.eye(n)[shifts].transpose(0, 2, 1))
    return None


def _of_points(argument: str, action: str, named: GroupName, shape: tuple[int, ...]) -> Action | None:
    if len(shape) not in (2, 3):
        return None
    n = named.n or shape[1]
    if n != shape[1]:
        what = "features" if len(shape) == 2 else "points"
        raise ShapeError(f"{argument} is {action!r} and there are {shape[1]} {what}; expected S{shape[1]}")
    group = symmetric(n)
    table = np.array(group.labels)
    if len(shape) == 3:
        return permutations(group, table)
    return linear(group, np.eye(n)[table].transpose(0, 2, 1))


def _wanted(named: GroupName) -> list[str]:
    if named.family in ("C", "D"):
        shifts = [f"(N, {named.n}) for cyclic shifts of features"] if named.family == "C" else []
        return ["images (N, H, W, C)", "vectors of the plane (N, …, 2)", *shifts]
    if named.family == "S":
        return ["features (N, P) or points (N, P, C)"]
    if named.family == "translations":
        return ["signals on a grid (N, *positions, C)"]
    return ["vectors of space (N, 3) or (N, P, 3)"]
