"""The action of a group on one array of a model's inputs or outputs, NumPy arrays of any layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents._types import AnyAction, ArrayLike, Element
from equitangents.actions import GroupAction
from equitangents.actions.action import image_hint
from equitangents.actions.kinds import Kinds
from equitangents.audit.contract.trees import Layout, from_last, to_last
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup
from equitangents.metrics.measure import norms


class Comparison(ABC):
    """Replaces ‖a − b‖ for one output."""

    share: bool
    """Whether the error is a share, between 0 and 1, without a divisor."""
    label: str
    """Name of the error."""

    @abstractmethod
    def compare(
        self, a: np.ndarray, b: np.ndarray
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n D"], Float[np.ndarray, "3 n"] | None]:
        """(errors of a where b is expected, numbers of a that are those of b where both agree, what was matched).

        The last, for sets: IoU, share missed, share extra, nan if there is none; None for other outputs.
        """


@final
@dataclass(frozen=True, eq=False)
class LeafAction:
    """An action on one array (N, …) whose channels are where `layout` says, if they are channels at all."""

    action: GroupAction
    layout: Layout | None = None
    """Layout of images or grids; None for other arrays."""
    compared: Comparison | None = None
    """Replaces ‖a − b‖, for outputs that are not plain numbers."""
    title: str | None = None
    """Name, if not that of the action."""
    complex_pairs: bool = False
    """Whether the array holds complex numbers as pairs of real ones along an additional last axis."""

    @property
    def name(self) -> str:
        """Name of the action."""
        return self.title or self.action.name

    def check(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError or InvalidTypeError, naming `name`, unless the action can act on x."""
        x = _as_complex(x) if self.complex_pairs else x
        last = to_last(x, self.layout)
        try:
            self.action.check_signals(name, last.real if self._by_parts(last) else last)
        except (ShapeError, InvalidTypeError) as error:
            if self.layout is None:
                raise
            message = str(error).replace(str(last.shape), str(x.shape))
            hint = f" (images are taken as {self.layout}; is layout right?)" + image_hint(name, x.shape)
            raise type(error)(message + hint) from None

    def act(self, g: Element, x: np.ndarray) -> np.ndarray:
        """The array moved by g, in its layout."""
        signals = self._as_signals(x)
        if self._by_parts(signals):
            return self._as_given(self.action(g, signals.real.copy()) + 1j * self.action(g, signals.imag.copy()), x)
        return self._as_given(self.action(g, signals), x)

    def orbit(self, elements: Sequence[Element], x: np.ndarray) -> Iterator[np.ndarray]:
        """ρ(g) x for one element after another."""
        signals = self._as_signals(x)
        if self._by_parts(signals):
            parts = (self.action.one_by_one(elements, part.copy()) for part in (signals.real, signals.imag))
            yield from (self._as_given(a + 1j * b, x) for a, b in zip(*parts, strict=True))
            return
        for moved in self.action.one_by_one(elements, signals):
            yield self._as_given(moved, x)

    def more_accurate(self) -> LeafAction | None:
        """An action that interpolates better, as a reference; None if there is none."""
        better = self.action.more_accurate()
        return None if better is None else replace(self, action=better)

    def _by_parts(self, signals: np.ndarray) -> bool:
        """Whether the signals are complex and the action, which is linear over the real numbers, takes real ones."""
        if signals.dtype.kind != "c":
            return False
        try:
            self.action.check_signals("x", signals)
        except InvalidTypeError:
            return True
        except ShapeError:
            return False
        return False

    def _as_signals(self, x: np.ndarray) -> np.ndarray:
        x = _as_complex(x) if self.complex_pairs else x
        return to_last(x[:, None] if x.ndim == 1 else x, self.layout)

    def _as_given(self, moved: ArrayLike, x: np.ndarray) -> np.ndarray:
        if self.complex_pairs:
            z = from_last(np.asarray(moved), self.layout).reshape(x.shape[:-1])
            return np.stack([z.real, z.imag], axis=-1).astype(x.dtype, copy=False)
        y = from_last(np.asarray(moved), self.layout).reshape(x.shape)
        if not self.action.exact:
            y = np.ascontiguousarray(y)
        becomes_real = self.action.needs_floats and x.dtype.kind not in "fc"
        return y if becomes_real else y.astype(x.dtype, copy=False)


class Actions(tuple["LeafAction | None", ...]):
    """ρ(g) on every array of a model's inputs, or of its outputs, in order; None for an array that stays."""

    @property
    def exact(self) -> bool:
        """Whether no array is resampled."""
        return all(a is None or a.action.exact for a in self)

    @property
    def comparisons(self) -> list[Comparison | None]:
        """Comparisons that replace ‖a − b‖; None for plain numbers."""
        return [None if a is None else a.compared for a in self]

    @property
    def compared(self) -> bool:
        """Whether some array is not plain numbers."""
        return any(by is not None for by in self.comparisons)

    def moves_exactly(self, g: Element) -> bool:
        """Whether g resamples no array."""
        return all(a is None or a.action.moves_exactly(g) for a in self)

    def act(self, g: Element, arrays: Iterable[Any]) -> list[Any]:
        """ρ(g) of every array."""
        pairs = zip(self, arrays, strict=True)
        return [x if a is None else a.act(g, x) for a, x in pairs]

    def orbit(self, elements: Sequence[Element], arrays: Sequence[Any]) -> Iterator[list[Any]]:
        """ρ(g) of every array for one element after another."""
        still = lambda x: (x for _ in elements)
        parts = [still(x) if a is None else a.orbit(elements, x) for a, x in zip(self, arrays, strict=True)]
        yield from (list(leaves) for leaves in zip(*parts, strict=True))

    def differences(self, a: Iterable[np.ndarray], b: Iterable[np.ndarray]) -> Float[np.ndarray, "arrays n"]:
        """‖a − b‖ of every array and input."""
        return np.array([differences(x, y, by) for x, y, by in zip(a, b, self.comparisons, strict=True)])

    def sizes(self, a: Iterable[np.ndarray]) -> Float[np.ndarray, "arrays n"]:
        """‖a‖ of every array and input; 1 for class numbers and shares."""
        one = lambda x, by: x.dtype.kind == "i" if by is None else by.share
        return np.array(
            [np.ones(len(x)) if one(x, by) else norms(x) for x, by in zip(a, self.comparisons, strict=True)]
        )

    def profiles(self, a: Iterable[np.ndarray], b: Iterable[np.ndarray]) -> list[np.ndarray]:
        """The arrays `a`; for those that are not plain numbers, their agreement with `b`."""
        return [x if by is None else by.compare(x, y)[1] for by, x, y in zip(self.comparisons, a, b, strict=True)]


def differences(a: np.ndarray, b: np.ndarray, compared: Comparison | None = None) -> Float[np.ndarray, " n"]:
    """‖a − b‖ for every input, by the comparison if there is one; for class numbers 1 if they differ."""
    if compared is not None:
        return compared.compare(a, b)[0]
    return (a != b).astype(np.float64) if a.dtype.kind == "i" else norms(a - b)


@dataclass(frozen=True, eq=False)
class Place:
    """Context of an array in an audit: the group, its shape and layout."""

    group: SymmetryGroup
    kinds: Kinds | None
    """The group's actions on arrays of every kind; None if only the user's actions are known."""
    shape: tuple[int, ...]
    layout: Layout | None
    grid: tuple[int, ...] | None = None
    """Positions of the model's images, which contain boxes and keypoints."""

    @property
    def channels(self) -> Layout | None:
        """The layout of an array with positions and channels."""
        return self.layout if len(self.shape) > 2 else None


class LeafKind(ABC):
    """A kind of array by its action, for `inputs=` or `output_action` of an audit."""

    items: AnyAction = None
    """The kind of the items of the array, if they have one."""
    by_name: bool = True
    """Whether the group must be given by its name."""

    @abstractmethod
    def leaf(self, place: Place, items: LeafAction | None) -> LeafAction:
        """The action on an array in this context; `items`: the action on its items."""

    def check(self, name: str, y: np.ndarray) -> None:  # noqa: B027
        """Raise ShapeError unless y can be of this kind."""

    def __repr__(self) -> str:
        return f"equitangents.audit.{type(self).__name__}()"


def leaf(action: GroupAction, layout: Layout | None) -> LeafAction:
    """An action on an array of this layout, in its fastest form."""
    return LeafAction(action.in_numpy(), (layout or "channels_last") if action.channels_last else None)


def _as_complex(pairs: np.ndarray) -> np.ndarray:
    return pairs[..., 0] + 1j * pairs[..., 1]
