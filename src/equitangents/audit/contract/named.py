"""Groups by name, with kinds of inputs, and sizes that follow from the inputs.

A sum of irreps of rotations, such as "4x0e+2x1o": numbers that transform by D(g), block by block.

The basis is that of e3nn since 0.2.2: real spherical harmonics whose degree 1 is (x, y, z), and whose degree 2 is
(xz, xy, y² − (x² + z²)/2, yz, (z² − x²)/2) up to factors; each multiplicity is a block of its own, one after another.
Source: docs.e3nn.org, "Change of Basis".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from equitangents._types import AnyAction, Tree
from equitangents.actions.action import image_hint
from equitangents.actions.kinds import KINDS, Kinds, kinds_named
from equitangents.actions.unchecked import ClassMasks, MatrixAction
from equitangents.audit.contract.kinds import Boxes, Keypoints
from equitangents.audit.contract.leaf_actions import LeafAction, LeafKind, Place, leaf
from equitangents.audit.contract.trees import InputLeaves, Layout, Shared, spatial
from equitangents.audit.contract.unordered import PixelClasses
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.names import GroupName, Space, parse_group_name
from equitangents.sphere.transforms import wigner

UNMOVED = (None, "none", "invariant")
_PLACES = {"boxes": Boxes(), "xyxy": Boxes("xyxy"), "cxcywh": Boxes("cxcywh"), "keypoints": Keypoints()}


_ONLY_KIND = {"permutations": "points", "reversal": "sequences", "sign": "values"}
_PERMUTED = ("points", "pairs", "nodes", "rows", "sets")


def named_group(name: str, x: InputLeaves, kinds: Sequence[Any], layout: Layout | None) -> Kinds:
    """The group called `name`, with the number of points, or the grid, taken from the inputs."""
    named = parse_group_name("group", name)
    chosen = [(k, array) for k, array in zip(kinds, x.leaves, strict=True) if isinstance(k, str) and k not in UNMOVED]
    group = named.group(_points(named, chosen), _grid(named, chosen, layout))
    assert group is not None
    return kinds_named(named, group)


def kind_of_only_input(name: str, x: InputLeaves) -> str:
    """The kind of a single input; raises an error if it is ambiguous."""
    named = parse_group_name("group", name)
    if len(x.leaves) > 1:
        raise InvalidArgumentError(
            "inputs",
            None,
            "what the group acts on in each of several inputs, e.g. ('vectors', None)",
            "they are " + ", ".join(x.names),
        )
    only, array, space = x.names[0], x.leaves[0], named.space
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
    known = _PLACES.get(kind) if isinstance(kind, str) else kind
    if isinstance(known, LeafKind):
        return known.leaf(place, leaf_of_kind(place, known.items))
    kinds, shape = place.kinds, place.shape
    if known is not None or kinds is None:
        raise InvalidTypeError("inputs", kind, "a known kind, such as 'vectors', '4x0e+2x1o' or 'xyxy', or None")
    if is_irreps(kind):
        return LeafAction(irreps_action(kinds, kind))
    if kind == "masks":
        return _of_masks(kinds, shape)
    first = place.layout == "channels_first" and len(shape) > 2
    return leaf(kinds.action(kind, (shape[0], *shape[2:], shape[1]) if first else tuple(shape)), place.layout)


def _of_masks(kinds: Kinds, shape: tuple[int, ...]) -> LeafAction:
    if kinds.space not in ("plane", "translations"):
        raise InvalidArgumentError("outputs", "masks", "a group that moves images", kinds.group.name)
    images = leaf(kinds.action("images", (*shape[:3], 1)), None).action
    return LeafAction(ClassMasks(kinds.group, images), compared=PixelClasses())


def _vectors_or_images(named: GroupName, space: Space, only: str, array: Tree) -> str:
    group = named.group()
    assert group is not None
    candidates = [kind for kind in kinds_named(named, group).recognised(array.shape) if KINDS[space][kind].action]
    if len(candidates) != 1:
        hint = image_hint("x", array.shape) if space == "plane" else ""
        raise InvalidArgumentError(
            only, array.shape, [*KINDS[space]], f"say by inputs= which it is{hint}", verb="has shape"
        )
    return candidates[0]


def _points(named: GroupName, chosen: Sequence[tuple[str, Any]]) -> int | None:
    if named.family != "S" or named.n is not None:
        return named.n
    sizes = {array.shape[1] for kind, array in chosen if kind in _PERMUTED and array.ndim > 1}
    if len(sizes) != 1:
        raise InvalidArgumentError("action", "S_n", "the number of points, such as S5", "which the inputs do not tell")
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


_TERM = re.compile(r"(?:(\d+)x)?(\d+)([eo])")
_TO_E3NN = np.eye(3)[[2, 0, 1]]  # (x, y, z) ↦ (z, x, y), whose usual real harmonics are those of e3nn
_LARGEST = 32  # degrees up to which the matrices are accurate


Irreps = list[tuple[int, int, bool]]
"""(multiplicity, degree l, whether the determinant multiplies D) of every term."""


def is_irreps(text: Any) -> bool:
    """Whether a kind is a string of irreps such as "4x0e+2x1o"."""
    return isinstance(text, str) and all(_TERM.fullmatch(term) for term in text.replace(" ", "").split("+"))


def irreps_of(text: str, argument: str) -> Irreps:
    """The terms of a string of irreps; an error that names `argument` if it is none."""
    terms = []
    for term in text.replace(" ", "").split("+"):
        match = _TERM.fullmatch(term)
        if match is None or int(match[2]) >= _LARGEST:
            raise InvalidArgumentError(argument, text, "irreps such as '8x0e+4x1o'")
        terms.append((int(match[1] or 1), int(match[2]), (int(match[2]) % 2 == 0) != (match[3] == "e")))
    return terms


def irreps_size(irreps: Irreps) -> int:
    """The sum of the dimensions 2 l + 1."""
    return sum(count * (2 * degree + 1) for count, degree, _ in irreps)


def irreps_matrix(irreps: Irreps, R: Float[np.ndarray, "3 3"]) -> Float[np.ndarray, "D D"]:
    """The block-diagonal matrix of all terms, for a rotation or reflection."""
    R = np.asarray(R, np.float64)
    usual, sign = _TO_E3NN @ R @ _TO_E3NN.T, np.linalg.det(R).round()
    blocks: list[np.ndarray] = []
    for count, degree, flips in irreps:
        D = R if degree == 1 else np.asarray(wigner(usual, degree + 1)[degree])
        blocks += count * [D * (sign if flips else 1.0)]
    return block_diag(*blocks)


def irreps_action(kinds: Kinds, irreps: str) -> MatrixAction:
    """What rotations of space do to arrays whose last axis holds these irreps."""
    if kinds.space != "space":
        expected = "irreps of SO3, O3, tetrahedral, octahedral or icosahedral"
        raise InvalidArgumentError("kind", irreps, expected, f"the group is {kinds.group.name}")
    terms, name = irreps_of(irreps, "kind"), " ".join(["irreps", irreps.replace(" ", "")])
    return MatrixAction(kinds.group, lambda g: irreps_matrix(terms, kinds.motion(g)), irreps_size(terms), name)
