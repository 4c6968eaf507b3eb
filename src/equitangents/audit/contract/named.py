"""A group by its name, and the inputs that it moves: their kinds, and the size that only they tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equitangents.actions.kinds import KINDS, Kinds, Space, kinds_named, space_of
from equitangents.actions.remedies import flattened
from equitangents.audit.contract.leaf_actions import Custom, Layout, LeafAction, leaf, spatial
from equitangents.audit.contract.trees import Inputs, Shared
from equitangents.errors import InvalidArgumentError
from equitangents.groups.names import GroupName, parse_group_name

UNMOVED = (None, "none", "invariant")


def named_group(name: str, x: Inputs, kinds: Sequence[Any], layout: Layout | None) -> Kinds:
    """The group called `name`, with the number of points, or the grid, taken from the inputs."""
    named = parse_group_name("group", name)
    chosen = [(k, array) for k, array in zip(kinds, x.leaves, strict=True) if isinstance(k, str) and k not in UNMOVED]
    group = named.group(_points(named, chosen), _grid(named, chosen, layout))
    assert group is not None
    return kinds_named(named, group)


def kind_of_only_input(name: str, x: Inputs) -> str:
    """What an only input must be; an error where that would be a guess."""
    named = parse_group_name("group", name)
    if len(x.leaves) > 1:
        names = ", ".join(x.names)
        raise InvalidArgumentError(
            f"x has several inputs ({names}); say with inputs= what the group acts on in each, "
            "e.g. inputs=('vectors', None)"
        )
    only, array, space = x.names[0], x.leaves[0], space_of(named)
    if isinstance(array, Shared):
        raise InvalidArgumentError(f"{only} is Shared; the group must move some input")
    if space == "permutations":
        return "points"
    return "images" if space == "translations" else _vectors_or_images(named, space, only, array)


def leaf_of_kind(kinds: Kinds, kind: Any, shape: tuple[int, ...], layout: Layout | None) -> LeafAction | None:
    """What the group does to an array of this shape that is of this kind, or has an action of the user's."""
    if kind in UNMOVED:
        return None
    if isinstance(kind, Custom):
        return kind.of(kinds.group)
    channels_last = tuple(shape) if layout != "channels_first" or len(shape) < 3 else (shape[0], *shape[2:], shape[1])
    return leaf(kinds.action(kind, channels_last), layout)


def _vectors_or_images(named: GroupName, space: Space, only: str, array: Any) -> str:
    d = 2 if space == "plane" else 3
    group = named.group()
    assert group is not None
    candidates = [kind for kind in kinds_named(named, group).recognised(array.shape) if KINDS[space][kind].action]
    if len(candidates) != 1:
        raise InvalidArgumentError(
            f"{only} has shape {array.shape}; {getattr(group, 'name', named.family)} acts on vectors (N, {d}) or "
            f"(N, P, {d})"
            + (", or on images of rank 4" if d == 2 else "")
            + "; say with inputs= what it is"
            + (flattened("x", array.shape) if d == 2 else "")
        )
    return candidates[0]


def _points(named: GroupName, chosen: Sequence[tuple[str, Any]]) -> int | None:
    if named.family != "S" or named.n is not None:
        return named.n
    sizes = {array.shape[1] for kind, array in chosen if kind in ("points", "pairs") and array.ndim > 1}
    if len(sizes) != 1:
        raise InvalidArgumentError("the number of points is not plain from the inputs; give it, e.g. 'S5'")
    return int(sizes.pop())


def _grid(named: GroupName, chosen: Sequence[tuple[str, Any]], layout: Layout | None) -> tuple[int, ...] | None:
    if named.family != "translations":
        return None
    grids = {spatial(array.shape, layout) for kind, array in chosen if kind == "images"}
    if len(grids) != 1:
        raise InvalidArgumentError(f"translations need inputs on one grid; found grids {sorted(grids)}")
    return grids.pop()
