"""What equivariance means for a model: the group, its action on every input, and on every output.

f is equivariant if f(ρ_X(g)x) = ρ_Y(g)f(x) for all g; invariant where ρ_Y is trivial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents.actions import Action, ContinuousRotations
from equitangents.actions.action import PositionAction
from equitangents.actions.products import FieldAction, PulledBackAction
from equitangents.actions.rotated_images import ResampledRotations
from equitangents.audit.contract.haar import O3, SO3, rotation_angle
from equitangents.audit.contract.leaf_actions import ImageTurns, Layout, LeafAction, OnLastAxis, Wrapped
from equitangents.audit.contract.presets import Preset, parse_group
from equitangents.audit.contract.symmetry import Finite, Symmetry
from equitangents.audit.contract.trees import Inputs, Shared, spread_over
from equitangents.errors import InvalidArgumentError, InvalidTypeError


@dataclass(frozen=True, eq=False)
class Contract:
    """A group, what it does to each input array, and what it should do to each output array."""

    symmetry: Symmetry
    inputs: tuple[LeafAction | None, ...]
    layout: Layout | None
    preset: Preset | None
    output_layout: Layout | None

    @property
    def exact(self) -> bool:
        """Whether no input is resampled."""
        return all(action is None or action.exact for action in self.inputs)

    def moves_exactly(self, g: Any) -> bool:
        """Whether g resamples no input."""
        return all(action is None or action.moves_exactly(g) for action in self.inputs)

    def move(self, g: Any, leaves: Sequence[Any]) -> list[Any]:
        """ρ_X(g) on one batch."""
        pairs = zip(self.inputs, leaves, strict=True)
        return [x if a is None or isinstance(x, Shared) else a.act(g, x) for a, x in pairs]

    def orbit(self, elements: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """ρ_X(g) of one batch for one element after another."""
        still = lambda x: (x for _ in elements)
        parts = [
            still(x) if a is None or isinstance(x, Shared) else a.orbit(elements, x)
            for a, x in zip(self.inputs, leaves, strict=True)
        ]
        yield from (list(leaves) for leaves in zip(*parts, strict=True))

    def project(self, x: Inputs) -> Inputs:
        """ρ(e) x, which is x unless a mask cuts the corners of images."""
        if not any(getattr(a, "mask", None) for a in self.inputs):
            return x
        return x.replaced(self.move(self.symmetry.identity, x.leaves))

    def continuous(self) -> Contract:
        """With actions that are continuous in the element."""
        smooth = tuple(None if a is None else a.continuous() for a in self.inputs)
        return Contract(self.symmetry, smooth, self.layout, self.preset, self.output_layout)

    def more_accurate(self) -> Contract | None:
        """With better interpolation of the inputs; None if nothing is interpolated, or not better."""
        better = tuple(a if a is None or a.exact else a.more_accurate() for a in self.inputs)
        if self.exact or any(b is None for a, b in zip(self.inputs, better, strict=True) if a is not None):
            return None
        return Contract(self.symmetry, better, self.layout, self.preset, self.output_layout)

    def output_actions(
        self, output_action: Any, structure: Any, leaves: Sequence[np.ndarray]
    ) -> list[LeafAction | None]:
        """The action on every output, once their shapes are known."""
        given = spread_over("output_action", output_action, structure, len(leaves))
        actions: list[LeafAction | None] = []
        for i, (part, y) in enumerate(zip(given, leaves, strict=True)):
            name = "f(x)" if len(leaves) == 1 else f"output {i} of f(x)"
            action = self._output_action(part, y)
            if action is not None:
                action.check(name, y)
            actions.append(action)
        return actions

    def _output_action(self, part: Any, y: np.ndarray) -> LeafAction | None:
        if isinstance(part, Action | ContinuousRotations):
            check_group(self.symmetry, part)
            return wrapped(part, self.output_layout)
        if part is None or isinstance(part, LeafAction):
            return part
        if isinstance(part, str):
            preset = self.preset or _preset_of_group(self.symmetry)
            return preset.leaf(part, y.shape, self.output_layout)
        raise InvalidTypeError(
            f"output_action is {part!r}; expected an action, a kind such as 'vectors', or None for an invariant output"
        )


def make_contract(
    action: Any, x: Inputs, kinds: Any, layout: Layout | None, output_layout: Layout | None, layout_needed: bool
) -> Contract:
    """The contract for inputs x; `action` is a group's name, an action, or a tree of actions and None."""
    stated = layout
    preset: Preset | None
    if isinstance(action, str):
        preset, given = parse_group(action, x), spread_over("inputs", kinds, x.structure, len(x.leaves))
        if kinds is None:
            given = [_only_kind(preset, x)]
        images = any(kind == "images" for kind in given)
        for name, kind, leaf in zip(x.names, given, x.leaves, strict=True):
            if isinstance(leaf, Shared) and kind not in (None, "none", "invariant"):
                raise InvalidArgumentError(
                    f"{name} is Shared and cannot be moved by the group; give None for it in inputs, or repeat it for "
                    "every row of the batch"
                )
        layout = _settle(stated, images, layout_needed, x)
        preset = preset.fitted(x, given, layout)
        parts = [
            None
            if kind in (None, "none", "invariant")
            else kind
            if isinstance(kind, LeafAction)
            else preset.leaf(kind, leaf.shape, layout)
            for kind, leaf in zip(given, x.leaves, strict=True)
        ]
        symmetry = preset.symmetry
    else:
        if kinds is not None:
            raise InvalidArgumentError(
                "inputs says what the named group acts on; give it with a group's name as action"
            )
        given = spread_over("action", action, x.structure, len(x.leaves))
        actions = [part for part in given if part is not None]
        if not actions or not all(isinstance(part, Action | ContinuousRotations) for part in actions):
            raise InvalidTypeError(
                f"action is {action!r}; expected the name of a group ('C4', 'SO3', …), an action such as "
                "equitangents.actions.image_rotations(4), or one entry for each input with None where it does not move"
            )
        layout = _settle(stated, any(_on_positions(part) for part in actions), layout_needed, x)
        parts = [None if part is None else wrapped(part, layout) for part in given]
        preset = continuous_preset(actions[0]) if isinstance(actions[0], ContinuousRotations) else None
        symmetry = symmetry_of(actions[0]) if preset is None else preset.symmetry
        for part in actions[1:]:
            check_group(symmetry, part)
    for name, part, leaf in zip(x.names, parts, x.leaves, strict=True):
        if part is not None:
            if isinstance(leaf, Shared):
                raise InvalidArgumentError(
                    f"{name} is Shared and cannot be moved by the group; give its action as None"
                )
            part.check(name, leaf)
            if part.needs_floats and leaf.dtype.kind != "f":
                raise InvalidTypeError(
                    f"{name} has dtype {leaf.dtype}; {part.name} need real numbers (float32, float64)"
                )
    if all(part is None for part in parts):
        raise InvalidArgumentError("no input is moved by the group; at least one needs an action")
    used = layout if any(part is not None and part.layout is not None for part in parts) else None
    return Contract(symmetry, tuple(parts), used, preset, output_layout or layout or stated)


def wrapped(action: Action | ContinuousRotations, layout: Layout | None) -> LeafAction:
    """An action of the library as one on a leaf; resampled turns in their fast form."""
    if isinstance(action, ContinuousRotations):
        return OnLastAxis(lambda g: g, 3, action.name)
    if isinstance(action, ResampledRotations):
        n = action.group.order
        what = f"turns by {360 / n:g}° of images"
        return ImageTurns(lambda g: (360.0 * g / n, False), layout or "channels_last", action.order, action.mask, what)
    return Wrapped(action, layout if _on_positions(action) else None)


def symmetry_of(action: Action) -> Finite:
    """The action's group, with angles where its elements are known to be rotations."""
    order, turns = action.group.order, getattr(action, "turns", None)
    if isinstance(action, ResampledRotations):
        return Finite(action.group, [360.0 * g / order for g in range(order)])
    if turns is not None:
        return Finite(action.group, [None if g >= turns else 360.0 * g / turns for g in range(order)])
    matrices = getattr(action.group, "matrices", None)
    if matrices is not None and matrices.shape[1] in (2, 3):
        return Finite(action.group, [rotation_angle(m) for m in matrices])
    return Finite(action.group)


def continuous_preset(action: ContinuousRotations) -> Preset:
    """All of SO(3) or O(3), of which elements are drawn, and what it may do to outputs, by name."""
    symmetry = O3() if action.group.reflections else SO3()
    return Preset("space", symmetry, lambda g: g)


def check_group(symmetry: Symmetry, action: Action | ContinuousRotations) -> None:
    """Raise unless `action` is one of this group."""
    if isinstance(action, ContinuousRotations):
        if isinstance(symmetry, O3 if action.group.reflections else SO3):
            return
    elif isinstance(symmetry, Finite) and symmetry.group.has_same_table(action.group):
        return
    raise InvalidArgumentError(
        f"the actions are of different groups, {symmetry.name} and {action.group.name}; all must be of one"
    )


def _preset_of_group(symmetry: Symmetry) -> Preset:
    raise InvalidArgumentError(
        f"output_action is a kind, which goes with the name of a group; of {symmetry.name} give an action"
    )


def _on_positions(action: Action | ContinuousRotations) -> bool:
    if isinstance(action, PulledBackAction):
        return _on_positions(action.action)
    return isinstance(action, PositionAction | ResampledRotations | FieldAction)


def _only_kind(preset: Preset, x: Inputs) -> str:
    if len(x.leaves) > 1:
        names = ", ".join(x.names)
        raise InvalidArgumentError(
            f"x has several inputs ({names}); say with inputs= what the group acts on in each, "
            "e.g. inputs=('vectors', None)"
        )
    return preset.kind_of(x.names[0], x.leaves[0])


def _settle(layout: Layout | None, images: bool, needed: bool, x: Inputs) -> Layout | None:
    """The layout of images: what was stated, else channels last, unless that would be a guess."""
    if not images or layout is not None:
        return layout if images else None
    shapes = [a.shape for a in x.leaves if not isinstance(a, Shared) and a.ndim == 4]
    ambiguous = any(s[1] in (1, 2, 3, 4) and s[3] > 4 for s in shapes)
    if needed or ambiguous:
        why = (
            "for PyTorch and ONNX models it is never assumed"
            if needed
            else f"x has shape {shapes[0]}, which looks like channels first"
        )
        raise InvalidArgumentError(
            f"layout is not stated and {why}; give layout='channels_first' for (N, C, H, W) or 'channels_last' for "
            "(N, H, W, C)"
        )
    return "channels_last"
