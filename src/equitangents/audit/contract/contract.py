"""The contract of an audit: the group, its action on every input, and on every output.

f is equivariant if f(ρ_X(g)x) = ρ_Y(g)f(x) for all g; invariant where ρ_Y is trivial. `verify` checks that the maps are
actions, ρ(e) = 1 and ρ(g)ρ(h) = ρ(g·h), exactly or up to interpolation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jax.tree_util import PyTreeDef

from equitangents._types import AnyAction, Element, Tree
from equitangents.actions import GroupAction
from equitangents.actions.images import ImageStacks
from equitangents.actions.kinds import Kinds, kinds_of
from equitangents.actions.vectors import as_output_action
from equitangents.audit.contract.changes import Changes
from equitangents.audit.contract.kinds import CustomAction, unmoved
from equitangents.audit.contract.leaf_actions import Actions, LeafAction, LeafKind, Place, leaf
from equitangents.audit.contract.named import UNMOVED, kind_of_only_input, leaf_of_kind, named_group
from equitangents.audit.contract.trees import (
    Batch,
    InputLeaves,
    Layout,
    Shared,
    from_last,
    per_leaf,
    settled_layout,
    spatial,
)
from equitangents.audit.contract.unordered import PixelClasses, Unordered, check_no_detections
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError
from equitangents.groups import MatrixGroup, SymmetryGroup
from equitangents.groups.names import parse_group_name
from equitangents.groups.rotation_group import RotationGroup
from equitangents.metrics.measure import largest_rows


@dataclass(frozen=True, eq=False)
class Contract:
    """A group, its action on each input array, and its expected action on each output array."""

    group: SymmetryGroup
    inputs: Actions
    layout: Layout | None
    kinds: Kinds | None
    """The group's actions on arrays of every kind; None if only the user's actions are known."""
    output_layout: Layout | None
    angle: Callable[[Any], float | None]
    """The angle of an element in degrees, if it is a rotation of the plane."""
    grid: tuple[int, ...] | None = None
    """Positions of the model's images; None if no input is an image."""

    @property
    def not_a_group(self) -> bool:
        """Whether these are transforms that form no group: no products, inverses, averages or irreps."""
        return isinstance(self.inputs, Changes)

    def label(self, g: Element) -> str:
        """Short name of g: its angle if that is unique, else its label in the group."""
        finite = self.group.elements is not None
        angle = self.angle(g) if finite else None
        if angle is not None and self._times_of_angles[round(angle, 6)] == 1:
            return f"{angle:g}°"
        if finite and self.kinds is not None and self.kinds.space == "plane":
            degrees, mirrored = self.kinds.motion(g)
            if mirrored:
                return f"mirror image, {degrees:g}°" if degrees else "mirror image"
        name = self.group.label(g)
        return f"element {name}" if name.isdigit() else name

    @cached_property
    def _times_of_angles(self) -> Counter[float]:
        angles = (self.angle(g) for g in self.group.elements or ())
        return Counter(round(a, 6) for a in angles if a is not None)

    def move(self, g: Element, x: InputLeaves) -> InputLeaves:
        """The inputs x moved by the element g, ρ_X(g) x."""
        return x.replaced(self.inputs.act(g, x.leaves))

    def project(self, x: InputLeaves) -> InputLeaves:
        """ρ(e) x, which is x unless a mask cuts the corners of images."""
        masked = any(a is not None and a.action.mask for a in self.inputs)
        return self.move(self.group.identity, x) if masked else x

    def more_accurate(self) -> Contract | None:
        """With better interpolation of the inputs; None if there is none."""
        better = Actions(a if a is None or a.action.exact else a.more_accurate() for a in self.inputs)
        if self.inputs.exact or any(b is None for a, b in zip(self.inputs, better, strict=True) if a is not None):
            return None
        return replace(self, inputs=better)

    def output_actions(
        self,
        output_action: AnyAction,
        structure: PyTreeDef,
        leaves: Sequence[np.ndarray],
        complex_pairs: Sequence[bool],
    ) -> Actions:
        """The action on every output, given their shapes; some hold complex numbers as pairs of real ones."""
        given = per_leaf("output_action", output_action, structure, len(leaves))
        actions: list[LeafAction | None] = []
        for i, (part, y) in enumerate(zip(given, leaves, strict=True)):
            part = part.value if isinstance(part, Batch) else part
            if isinstance(part, LeafAction):
                actions.append(part)
                continue
            name = "f(x)" if len(leaves) == 1 else f"output {i} of f(x)"
            paired = bool(complex_pairs) and complex_pairs[i]
            action = self._output_action(part, y.shape[:-1] if paired else y.shape)
            if action is not None:
                action = replace(action, complex_pairs=True) if paired else action
                action.check(name, y)
            if isinstance(part, LeafKind):
                part.check(name, y)
            actions.append(action)
        return Actions(actions)

    def _output_action(self, part: AnyAction, shape: tuple[int, ...]) -> LeafAction | None:
        place = Place(self.group, self.kinds, shape, self.output_layout, self.grid)
        if self.not_a_group:  # outputs stay; masks and sets have their own comparison
            if isinstance(part, str) and part == "masks":
                return LeafAction(unmoved(self.group, "stays"), compared=PixelClasses())
            return part.leaf(place, None) if isinstance(part, Unordered) else None
        if part in UNMOVED:
            if part is None:
                check_no_detections(self.grid, shape)
            return None
        part = as_output_action(part, self.group)
        if isinstance(part, GroupAction):
            check_group(self.group, part)
            return leaf(part, self.output_layout)
        if not isinstance(part, str | LeafKind):
            raise InvalidTypeError(
                "output_action",
                part,
                "an action, a representation, a kind such as 'vectors', audit.Labels(...), 'find', or None",
            )
        if self.kinds is None and (isinstance(part, str) or part.by_name):
            raise InvalidArgumentError(
                "output_action", part, "an action, since the group is given by one", "kinds go with the name of a group"
            )
        return leaf_of_kind(place, part)


def make_contract(action: AnyAction, x: InputLeaves, kinds: AnyAction, layout: Layout | None, needed: bool) -> Contract:
    """The contract for inputs x; `action` is a group's name, an action, or a tree of actions and None.

    `needed`: the layout of images follows from their shapes or must be given; it is not assumed.
    """
    by = _by_name if isinstance(action, str) else _by_actions
    group, known, parts, used = by(action, x, kinds, layout, needed)
    _check_parts(x, parts)
    if all(part is None or part.layout is None for part in parts):
        used = None
    moved = [part.action for part in parts if part is not None]
    angle = moved[0].angle if known is None else known.angle
    if not _rotates_the_plane(group, moved):
        angle = _no_angle
    leaves = zip(parts, x.leaves, strict=True)
    grid = next((_grid(a, p.layout) for p, a in leaves if p is not None and _is_image(p, a)), None)
    return Contract(group, Actions(parts), used, known, used or layout, angle, grid)


def contract_of_changes(transform: AnyAction, x: InputLeaves) -> Contract:
    """The contract of a transform, whose strengths replace group elements."""
    changes = Changes(transform, x)
    return Contract(transform, changes, None, None, None, _no_angle)


def _rotates_the_plane(group: SymmetryGroup, moved: Sequence[GroupAction]) -> bool:
    """Whether an element's angle may be that of a rotation of the plane.

    False for rotations of space, and for C_n or D_n acting by a function of the user's, which may be anything.
    """
    in_space = isinstance(group, RotationGroup) or (isinstance(group, MatrixGroup) and group.matrices.shape[1] == 3)
    if in_space:
        return False
    return group.elements is None or not all(isinstance(action, CustomAction) for action in moved)


def _no_angle(g: Element) -> None:
    """None: no element is a rotation of the plane."""


def _is_image(part: LeafAction, array: Tree) -> bool:
    return isinstance(part.action, ImageStacks) or (part.layout is not None and getattr(array, "ndim", 0) == 4)


_Parts = tuple[SymmetryGroup, Kinds | None, list[LeafAction | None], Layout | None]


def _by_name(name: str, x: InputLeaves, kinds: AnyAction, layout: Layout | None, needed: bool) -> _Parts:
    """(group, its actions by kind, its actions on the inputs, the layout of images)."""
    given = [kind_of_only_input(name, x)] if kinds is None else per_leaf("inputs", kinds, x.structure, len(x.leaves))
    _check_shared(x, given)
    grey = lambda a: a.ndim == 3 and parse_group_name("group", name).space == "plane"
    placed = lambda kind, a: (kind == "images" and not grey(a)) or (kind == "sequences" and a.ndim > 2)
    images = [placed(kind, a) for kind, a in zip(given, x.leaves, strict=True)]
    layout = _settle(layout, images, needed, x)
    known = named_group(name, x, given, layout)
    grid = next((_grid(a, layout) for kind, a in zip(given, x.leaves, strict=True) if kind == "images"), None)
    parts = [
        None if kind in UNMOVED else leaf_of_kind(Place(known.group, known, array.shape, layout, grid), kind)
        for kind, array in zip(given, x.leaves, strict=True)
    ]
    return known.group, known, parts, layout


def _by_actions(action: AnyAction, x: InputLeaves, kinds: AnyAction, layout: Layout | None, needed: bool) -> _Parts:
    """`_by_name` for actions of the user's."""
    if kinds is not None:
        raise InvalidArgumentError("inputs", kinds, "None with an action", "name a group for it to act on them")
    given = per_leaf("action", action, x.structure, len(x.leaves))
    _check_shared(x, given)
    actions = [part for part in given if part is not None]
    if not actions or not all(isinstance(part, GroupAction) for part in actions):
        raise InvalidTypeError(
            "action",
            action,
            "a group's name ('C4', 'SO3', …), an action such as actions.image_rotations(4), or one entry an input",
        )
    layout = _settle(layout, [part is not None and part.channels_last for part in given], needed, x)
    group = actions[0].group
    for part in actions[1:]:
        check_group(group, part)
    return group, kinds_of(group), [None if part is None else leaf(part, layout) for part in given], layout


def _check_shared(x: InputLeaves, given: Sequence[Any]) -> None:
    """Raise if an input without a batch has an action."""
    for name, part, array in zip(x.names, given, x.leaves, strict=True):
        if isinstance(array, Shared) and not (isinstance(part, str | None) and part in UNMOVED):
            raise InvalidArgumentError(
                name,
                "Shared",
                "None for its kind or action, since the group cannot move it",
                "or repeat it for every row of the batch",
            )


def _check_parts(x: InputLeaves, parts: Sequence[LeafAction | None]) -> None:
    """Raise unless every action can move its input, and some input is moved."""
    if all(part is None for part in parts):
        raise InvalidArgumentError("action", None, "an action for at least one input")
    for name, part, array in zip(x.names, parts, x.leaves, strict=True):
        if part is None:
            continue
        part.check(name, array)
        if part.action.needs_floats and array.dtype.kind not in "fc":
            raise InvalidTypeError(name, array.dtype, "real numbers (float32, float64)", part.name, verb="has dtype")


def check_group(group: SymmetryGroup, action: GroupAction) -> None:
    """Raise unless `action` is one of this group."""
    if not group.is_same_group(action.group):
        raise InvalidArgumentError("action", action.group, group, "give actions of one group", verb="is of")


def _settle(layout: Layout | None, images: Sequence[bool], needed: bool, x: InputLeaves) -> Layout | None:
    """The layout of the inputs that are images: the user's, else from their shapes."""
    if layout is not None or not any(images):
        return layout if any(images) else None
    moved = [a for a, image in zip(x.leaves, images, strict=True) if image and not isinstance(a, Shared)]
    return settled_layout([a.shape for a in moved if a.ndim > 2], needed)


PAIRS = 64
RESAMPLED = 0.2  # relative deviation allowed for interpolation of the smooth probe


def verify(contract: Contract, x: InputLeaves, seed: int) -> None:
    """Raise NotAnActionError with the witness (g, h) if the map of some input is not an action.

    Exact actions must hold up to rounding on the largest inputs. Resampled ones must hold up to 20 % on a smooth image,
    since interpolation can lose everything on the data.
    """
    for name, action, array in zip(x.names, contract.inputs, x.leaves, strict=True):
        if action is None or (isinstance(action.action, ImageStacks) and not action.action.exact):
            continue
        smooth = not action.action.exact and array.ndim == 4
        probe = smooth_images(array.shape, action.layout) if smooth else array[largest_rows(array, 2)]
        check_products(contract, action, name, probe, seed)


def check_products(contract: Contract, action: LeafAction, name: str, x: np.ndarray, seed: int) -> None:
    """Raise NotAnActionError unless products are respected on x."""
    rng = np.random.default_rng(seed)
    scale = float(np.linalg.norm(_wide(x))) or 1.0
    allowed = RESAMPLED if not action.action.exact else 1e-8 if x.dtype == np.float64 else 1e-4
    group = contract.group
    off = _distance(action.act(group.identity, x), x) / scale
    if not off <= allowed:
        raise NotAnActionError(action.name, off, "ρ(e) x = x", "it moves " + name, verb="is off by")
    drawn = group.draw(8, rng)
    pairs = [(g, h) for g in drawn for h in drawn][:PAIRS]
    named = lambda g: contract.label(g).removeprefix("element ")
    for g, h in pairs:
        off = _distance(action.act(g, action.act(h, x)), action.act(group.compose(g, h), x)) / scale
        if not off <= allowed:
            raise NotAnActionError(
                action.name,
                off,
                "ρ(g) ρ(h) x = ρ(g·h) x",
                "it moves " + name,
                verb="is off by",
                at=(named(g), named(h)),
            )


def _grid(array: Tree, layout: Layout | None) -> tuple[int, ...]:
    """The positions of one image of the array."""
    return spatial((*array.shape, 1) if array.ndim == 3 and layout is None else array.shape, layout)[-2:]


def smooth_images(shape: tuple[int, ...], layout: Layout | None) -> np.ndarray:
    """Two blobs off the centre of an image of this shape, of at least 16×16 pixels."""
    H, W = spatial(shape, layout)[:2]
    if layout is not None:
        H, W = max(H, 16), max(W, 16)
    i, j = np.indices((H, W))
    y, x, size = i - (H - 1) / 2, j - (W - 1) / 2, min(H, W)
    blob = lambda a, b: np.exp(-((y - a * size) ** 2 + (x - b * size) ** 2) / (2 * (size / 9) ** 2))
    image = blob(0.12, 0.05) - 0.5 * blob(-0.05, -0.12)
    channels = shape[1] if layout == "channels_first" else shape[-1]
    batch = np.broadcast_to(image[None, :, :, None], (1, H, W, channels))
    return np.ascontiguousarray(from_last(batch, layout)).astype(np.float64)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(_wide(a) - _wide(b)))


def _wide(a: np.ndarray) -> np.ndarray:
    return np.asarray(a, np.complex128 if np.asarray(a).dtype.kind == "c" else np.float64)
