"""Changes of inputs by a strength that form no group, such as speed, gain or brightness: f(T_s x) beside f(x).

There are no products and no inverses: nothing is asked but how far outputs move at every strength.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import numpy as np
import numpy.typing as npt

from equitangents._types import AnyAction, Tree
from equitangents.actions.given_maps import GivenMap
from equitangents.audit.contract.layouts import Layout
from equitangents.audit.contract.leaf_actions import Actions, LeafAction
from equitangents.audit.contract.named_changes import CHANGES, of_layout
from equitangents.audit.contract.trees import Batch, Inputs, Shared, to_numpy
from equitangents.audit.contract.unordered import PixelClasses, Stays, Unordered, as_sets
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup

Strength = tuple[str, float]
"""A transform's name, and a strength."""


@final
class Transform:
    """A change of the inputs by a strength, without a group's law; in place of a group, or in `transforms=`.

    Args:
        fn: a function of the inputs and one strength, fn(x, s), batches in and batches out, NumPy; or the name of one:
            "gain", "brightness", "contrast", "offset", "speed", "shift", "scale", "crop" (of the first input).
        strengths: the strengths to try.
        reference: the strength whose output others are compared with; None: the output for x as it is.
        outputs: a function of outputs and a strength, outputs(y, s), that says how outputs should change; None: they
            should stay.
        name: what it is called in reports; None: the function's own name.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(20, 50))
    >>> loudness = et.audit.Transform("gain", [0.5, 0.9, 1.1, 2.0])
    >>> report = et.audit(lambda x: (x > 0).mean(1), loudness, x, off_data=False)
    >>> report.verdict, [point.strength for point in report.transforms[0].points]
    ('equivariant', [0.5, 0.9, 1.1, 2.0])
    """

    def __init__(
        self,
        fn: Callable[[Any, float], Any] | str,
        strengths: npt.ArrayLike,
        *,
        reference: float | None = None,
        outputs: Callable[[Any, float], Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.known = fn if isinstance(fn, str) else None
        if self.known is not None and self.known not in CHANGES:
            raise InvalidArgumentError(f"fn is {fn!r}; expected a function or one of {', '.join(CHANGES)}")
        if self.known is None and not callable(fn):
            raise InvalidTypeError("fn", fn, "a function fn(x, strength)")
        if outputs is not None and not callable(outputs):
            raise InvalidTypeError("outputs", outputs, "a function outputs(y, strength) or None")
        self.fn, self.reference, self.outputs = fn, reference, outputs
        self.strengths = _check_strengths(strengths)
        own = self.known or getattr(fn, "__name__", type(fn).__name__)
        self.name = name or ("the transform" if own == "<lambda>" else own)
        self.still: float | None = reference if self.known is None else CHANGES[self.known][1]

    def of(self, layout: Layout | None) -> Callable[[Any, float], Any]:
        """The change of a tree of inputs; None: channels are last."""
        if callable(self.fn):
            return self.fn
        change = of_layout(CHANGES[self.fn][0], layout or "channels_last")

        def first(x: Tree, s: float) -> Tree:
            key = next(iter(x)) if isinstance(x, dict) else None
            leaves, structure = jax.tree.flatten(x if key is None else x[key])
            array = np.asarray(leaves[0])
            changed = jax.tree.unflatten(structure, [change(array, s), *leaves[1:]])
            return changed if key is None else {**x, key: changed}

        return first

    def __repr__(self) -> str:
        return f"equitangents.audit.Transform({self.name!r}, {self.strengths})"


@final
class Strengths:
    """What stands where a group does: the strengths of some transforms, none of which undoes another."""

    identity: Any = None
    flows: tuple[()] = ()
    default_draws = 0
    draws_are_independent = False

    def __init__(self, transforms: Mapping[str, Transform]):
        self.elements: list[Strength] = [(name, s) for name, t in transforms.items() for s in t.strengths]
        self.name = " and ".join(_range(name, t.strengths) for name, t in transforms.items())

    def inverse(self, g: Strength | None) -> Any:
        """There is none; the element itself, which whoever asks must not use."""
        return g

    def label(self, g: Strength | None) -> str:
        """The strength, after the transform's name where there are several."""
        if g is None:
            return "as given"
        return f"{g[0]} {g[1]:g}"

    def parameter(self, g: Strength | None) -> Any:
        """The strength as a plain number."""
        return None if g is None else g[1]


@dataclass(frozen=True, eq=False)
class Changes:
    """What some transforms make of the inputs, and of outputs that are expected to follow."""

    group: SymmetryGroup
    """Their `Strengths`, where a group would be."""
    transforms: Mapping[str, Transform]
    like: Inputs
    layout: Layout | None

    def start(self, x: Inputs) -> Inputs:
        """The inputs whose outputs others are compared with."""
        references = {t.reference for t in self.transforms.values()}
        if references == {None}:
            return x
        name, transform = next(iter(self.transforms.items()))
        if len(references) > 1 or len(self.transforms) > 1:
            raise InvalidArgumentError("transforms with a reference are audited one at a time")
        assert transform.reference is not None
        return x.replaced(self.move((name, transform.reference), x.leaves))

    def move(self, g: Strength | None, leaves: Sequence[Any]) -> list[Any]:
        """T_s of one batch; None, as it is given."""
        if g is None:
            return list(leaves)
        name, s = g
        part, transform = self.like.replaced(leaves), self.transforms[name]
        if transform.known is not None:  # which reads the batch first, wherever the model has it
            part = replace(part, axes=())
        fn = transform.of(self.layout)
        return _changed(part, fn, name, s)

    def output_actions(
        self, given: Sequence[Any], leaves: Sequence[np.ndarray], complex_pairs: Sequence[bool]
    ) -> Actions:
        """How every output should follow: it stays, unless a transform says otherwise; sets and masks as such."""
        follows = any(t.outputs is not None for t in self.transforms.values())
        found: list[LeafAction | None] = []
        for i, (part, y) in enumerate(zip(given, leaves, strict=True)):
            compared = _comparison(part)
            action = _Followed(self.group, self.transforms, i) if follows else Stays(self.group, "stays")
            if isinstance(part, Unordered):
                part.check("f(x)", y)
            plain = compared is None and not follows
            title = "sets in any order" if isinstance(part, Unordered) else None
            paired = bool(complex_pairs) and complex_pairs[i]
            found.append(None if plain else LeafAction(action, compared=compared, title=title, complex_pairs=paired))
        return Actions(found)


@final
class _Followed(GivenMap):
    """What a transform says of one of the outputs; functions of several outputs get that one alone."""

    def __init__(self, group: SymmetryGroup, transforms: Mapping[str, Transform], place: int):
        vars(self).update(group=group, name="as the transform says", transforms=transforms, place=place)

    transforms: Mapping[str, Transform]
    place: int

    def __call__(self, g: Strength | None, x: Tree) -> Tree:
        if g is None or (outputs := self.transforms[g[0]].outputs) is None:
            return x
        y = np.asarray(outputs(x, g[1]))
        if y.shape != x.shape:
            raise ShapeError(f"outputs turns shape {x.shape} into {y.shape}; it must keep the shape")
        return y

    def _key(self) -> tuple[Any, ...]:
        return (self.place,)


Transforms = Transform | Sequence[Transform] | Mapping[str, Transform]
"""One change, a list of changes, or changes by name."""


def is_transforms(given: object) -> bool:
    """Whether these are transforms and no group."""
    parts = [part for _, part in _listed(given)]
    return bool(parts) and all(isinstance(part, Transform) for part in parts)


def _listed(given: AnyAction) -> list[tuple[str | None, Any]]:
    """What is given, one by one, with the names of a mapping's entries."""
    if isinstance(given, Mapping):
        return [(str(name), part) for name, part in given.items()]
    return [(None, part) for part in (given if isinstance(given, list | tuple) else [given])]


def named_transforms(given: AnyAction) -> dict[str, Transform]:
    """Transforms by name; an error for anything else, and for two of one name."""
    if not is_transforms(given):
        raise InvalidTypeError(
            "transforms", given, "equitangents.audit.Transform(...), a list of them, or a dictionary"
        )
    found: dict[str, Transform] = {}
    for name, t in _listed(given):
        if name is None and t.name in found:
            raise InvalidArgumentError(f"two transforms are called {t.name!r}; give them names, name=")
        found[t.name if name is None else name] = t
    return found


def without_motion(output_action: AnyAction) -> Any:
    """What a tree of output actions says beside how outputs move: which are sets, masks, and where batches are."""
    leaf = lambda part: part is None or isinstance(part, Batch | Unordered)
    return jax.tree.map(lambda part: part if _comparison(part) is not None or isinstance(part, Batch) else None,
                        output_action, is_leaf=leaf)  # fmt: skip


def _comparison(part: AnyAction) -> Any:
    if isinstance(part, Batch):
        return _comparison(part.value)
    sets = as_sets(part)
    if sets is not None:
        return sets.comparison
    return PixelClasses() if isinstance(part, str) and part == "masks" else None


def _changed(part: Inputs, fn: Callable[[Any, float], Any], name: str, s: float) -> list[Any]:
    y = fn(part.tree(), s)
    leaves, structure = jax.tree.flatten(y)
    if structure != part.structure and len(leaves) != len(part.leaves):
        raise InvalidTypeError(
            f"{name}, a function of the inputs and a strength, returned {len(leaves)} arrays for {len(part.leaves)}"
        )
    axes = part.axes or (0,) * len(part.leaves)
    found: list[Any] = []
    for before, after, axis in zip(part.leaves, leaves, axes, strict=True):
        if isinstance(before, Shared):
            found.append(before)
            continue
        array = to_numpy(after, name)
        array = np.ascontiguousarray(np.moveaxis(array, axis, 0)) if axis and array.ndim > axis else array
        if array.ndim != before.ndim or len(array) != len(before):
            raise ShapeError(
                f"{name} at {s:g} turns shape {before.shape} into {array.shape}; expected as many inputs. It is called "
                "as fn(x, strength)"
            )
        found.append(array.astype(before.dtype) if before.dtype.kind == array.dtype.kind == "f" else array)
    return found


def _check_strengths(strengths: npt.ArrayLike) -> list[float]:
    try:
        values = np.asarray(strengths, np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError("strengths", strengths, "numbers") from None
    if values.ndim == 0:
        values = values[None]
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise InvalidArgumentError("strengths", strengths, "a list of finite numbers")
    if len(np.unique(values)) != len(values):
        raise InvalidArgumentError("strengths", strengths, "every strength once")
    return [float(v) for v in np.sort(values)]


def _range(name: str, strengths: Sequence[float]) -> str:
    low, high = min(strengths), max(strengths)
    return f"{name} of {low:g}" if math.isclose(low, high) else f"{name} from {low:g} to {high:g}"
