"""A group by its name, and the inputs that it moves: their kinds, and the size that only they tell.

Masked inputs and graphs, `et.Masked(x, mask)` and `et.Graphs(x, adjacency, mask)`, are read as the arrays that they
hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equitangents._types import AnyAction, Tree
from equitangents.actions.image_coordinates import ClassMasks
from equitangents.actions.kinds import KINDS, Kinds, Space, kinds_named, space_of
from equitangents.actions.remedies import flattened
from equitangents.audit.contract.irreps import irreps_action, is_irreps
from equitangents.audit.contract.layouts import Layout, spatial
from equitangents.audit.contract.leaf_actions import Kind, LeafAction, Place, leaf
from equitangents.audit.contract.places import Boxes, Keypoints
from equitangents.audit.contract.trees import Inputs, Shared
from equitangents.audit.contract.unordered import PixelClasses, as_sets, check_kind_of_items
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.names import GroupName, parse_group_name
from equitangents.structured import Graphs, Masked

UNMOVED = (None, "none", "invariant")
_ALSO = (
    "where the group moves such things also 'xyxy', 'cxcywh', 'keypoints', 'masks', 'unordered:…', or irreps such as "
    "'4x0e+2x1o'"
)
_PLACES = {"boxes": Boxes(), "xyxy": Boxes("xyxy"), "cxcywh": Boxes("cxcywh"), "keypoints": Keypoints()}


_ONLY_KIND = {"permutations": "points", "reversal": "sequences", "sign": "values"}
_PERMUTED = ("points", "pairs", "nodes", "rows", "sets")


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
        raise InvalidArgumentError(
            "inputs", None, "what the group acts on in each, e.g. ('vectors', None)", ", ".join(x.names)
        )
    only, array, space = x.names[0], x.leaves[0], space_of(named)
    if isinstance(array, Shared):
        raise InvalidArgumentError(only, "Shared", "an input that the group moves")
    if space in _ONLY_KIND:
        return _ONLY_KIND[space]
    if space == "translations":
        return "images" if array.ndim > 2 else "sequences"
    return _vectors_or_images(named, space, only, array)


def leaf_of_kind(place: Place, kind: AnyAction) -> LeafAction | None:
    """What the group does to an array that stands there and is of this kind, or has an action of the user's."""
    if kind in UNMOVED:
        return None
    found = as_sets(kind) or (_PLACES.get(kind) if isinstance(kind, str) else kind)
    if isinstance(found, Kind):
        check_kind_of_items(found.items)
        return found.leaf(place, leaf_of_kind(place, found.items))
    kinds, shape = place.kinds, place.shape
    if found is not None or kinds is None:
        raise InvalidTypeError("inputs", kind, "a known kind, such as 'vectors', '4x0e+2x1o' or 'xyxy', or None")
    if is_irreps(kind):
        return LeafAction(irreps_action(kinds, kind))
    if kind == "masks":
        return _of_masks(kinds, shape)
    first = place.layout == "channels_first" and len(shape) > 2
    try:
        return leaf(kinds.action(kind, (shape[0], *shape[2:], shape[1]) if first else tuple(shape)), place.layout)
    except InvalidArgumentError as error:
        if " is not what " not in str(error):
            raise
        raise InvalidArgumentError(f"{error}; {_ALSO}") from None


def _of_masks(kinds: Kinds, shape: tuple[int, ...]) -> LeafAction:
    if kinds.space not in ("plane", "translations"):
        raise InvalidArgumentError("outputs", "masks", "a group that moves images", kinds.group.name)
    images = leaf(kinds.action("images", (*shape[:3], 1)), None).action
    return LeafAction(ClassMasks(kinds.group, images), compared=PixelClasses())


def _vectors_or_images(named: GroupName, space: Space, only: str, array: Tree) -> str:
    d = 2 if space == "plane" else 3
    group = named.group()
    assert group is not None
    candidates = [kind for kind in kinds_named(named, group).recognised(array.shape) if KINDS[space][kind].action]
    if len(candidates) != 1:
        raise InvalidArgumentError(
            f"{only} has shape {array.shape}; {getattr(group, 'name', named.family)} acts on vectors (N, {d}) or "
            f"(N, P, {d})"
            + (", or on images of rank 4; inputs='images' are also (N, H, W) and (N, T, H, W, C)" if d == 2 else "")
            + "; say with inputs= what it is"
            + (", such as 'states' of complex amplitudes" if array.dtype.kind == "c" else "")
            + (flattened("x", array.shape) if d == 2 and array.dtype.kind != "c" else "")
        )
    return candidates[0]


def _points(named: GroupName, chosen: Sequence[tuple[str, Any]]) -> int | None:
    if named.family != "S" or named.n is not None:
        return named.n
    sizes = {array.shape[1] for kind, array in chosen if kind in _PERMUTED and array.ndim > 1}
    if len(sizes) != 1:
        raise InvalidArgumentError("the number of points is not plain from the inputs; give it, e.g. 'S5'")
    return int(sizes.pop())


def _grid(named: GroupName, chosen: Sequence[tuple[str, Any]], layout: Layout | None) -> tuple[int, ...] | None:
    if named.family != "translations":
        return None
    grids = {
        spatial(array.shape, layout) if array.ndim > 2 else array.shape[1:]
        for kind, array in chosen
        if kind in ("images", "sequences")
    }
    if len(grids) != 1:
        raise InvalidArgumentError("inputs", sorted(grids), "one grid, which translations move", verb="are on grids")
    return grids.pop()


_HAVE_PAIRS = ("points", "nodes", "rows", "sets")
_MASKS = {"images": "masks", "sequences": "sequences", **{kind: kind for kind in _HAVE_PAIRS}}
"""What a mask is beside arrays of a kind; beside others, such as vectors, nothing moves it."""


def structured(x: Tree, kinds: AnyAction, whole: bool, name: str | None) -> tuple[Any, Any, int | None]:
    """(x, what each of its arrays is, which array is the mask); x as it is if it is neither.

    `whole`: the model takes such objects; others take their arrays as arguments, f(x, mask). `name`: of the group, if
    it was given by name. One kind stands for the array, its mask and its adjacency; without one it is what the group
    commonly moves.
    """
    if not isinstance(x, Masked | Graphs):
        return x, kinds, None
    held = (x.x, x.mask) if isinstance(x, Masked) else (x.x, x.adjacency, x.mask)
    parts = tuple(part for part in held if part is not None)
    mask = None if x.mask is None else len(parts) - 1
    if name is not None and (kinds is None or isinstance(kinds, str)):
        first = kinds or _common(name, x.x.ndim)
        own = (first,) if isinstance(x, Masked) else (first, "pairs" if first in _HAVE_PAIRS else None)
        kinds = (*own, _MASKS.get(first))[: len(parts)]
    if kinds is None or not whole:
        return (x if whole else parts), kinds, mask
    return x, type(x)(*kinds), mask


def _common(name: str, rank: int) -> str:
    """What the group called `name` moves if nobody says what arrays of this rank are."""
    space = space_of(parse_group_name("group", name))
    if rank == 4 and space in ("plane", "translations"):
        return "images"
    return {"permutations": "points", "translations": "sequences", "reversal": "sequences", "sign": "values"}.get(
        space, "vectors"
    )
