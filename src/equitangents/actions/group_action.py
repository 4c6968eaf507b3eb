"""Interface of actions of finite and compact groups: maps ρ(g) of batches of signals.

`Action` is of a finite group, whose elements are numbered; `CompactAction` of a group whose elements are drawn, or
taken at the nodes of a quadrature. Audits, measures, ensembles and plans ask what stands here, whoever wrote the
action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self, TypeGuard

import numpy as np

from equitangents._types import Element, Elements, Tree
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup
from equitangents.groups.group_maps import GroupMap


class GroupAction(ABC):
    """An action of `group` on batches of signals x (N, …); immutable, hashable, equal if it is the same map."""

    group: SymmetryGroup
    name: str
    exact: bool = True
    """Whether ρ(g) ρ(h) = ρ(g·h) holds to rounding; False for resampled images."""
    channels_last: bool = False
    """Whether signals are images or grids (N, *positions, C), so that a model may keep their channels elsewhere."""
    permutes_entries: bool = False
    """Whether the entries of the last axis change places, so that scores of classes stay scores."""
    needs_floats: bool = False
    """Whether whole numbers cannot be moved."""
    linear: bool = False
    """Whether ρ(g) is known to be linear, where `moves` does not say so."""
    mask: str | None = None
    """What of an image is set to zero by every element, the identity too."""

    @abstractmethod
    def __call__(self, g: Element, x: Tree) -> Tree:
        """ρ(g) x for signals x (N, …)."""

    @abstractmethod
    def orbit(self, x: Tree, elements: Elements = None) -> Tree:
        """ρ(g) x along a new first axis, for `elements`; without them, for the nodes of a mean over the group."""

    def moves(self, g: Element, shape: Sequence[int]) -> tuple[np.ndarray, bool] | None:
        """(images of positions, whether values stay unchanged) of ρ(g) on signals of `shape`; None if not known.

        `shape` is (*positions, channels). Values that change are those of all positions by one orthogonal matrix.
        Of a compact group with g = None, what holds for every element.
        """
        return None

    def is_linear(self, shape: Sequence[int]) -> bool:
        """Whether ρ(g) is known to be linear on signals of `shape`, for every g."""
        return self.linear or self.moves(None, shape) is not None

    def is_isometry(self, g: Element, shape: Sequence[int]) -> bool:
        """Whether ρ(g) is known to keep the inner product of any two signals of `shape`."""
        return self.moves(g, shape) is not None

    @abstractmethod
    def verify(self, x: Tree) -> None:
        """Check on signals x that ρ(g) ρ(h) = ρ(g·h); raises NotAnActionError with a counterexample."""

    @abstractmethod
    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """A non-empty list of elements as an array, in the group's own form, or an error that names `name`."""

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """A hashable value that, with the type and the group, fixes the map."""

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError or InvalidTypeError, naming `name`, unless x fits."""
        try:
            self(self.group.identity, x[:1, None] if x.ndim == 1 else x[:1])
        except (ShapeError, InvalidTypeError) as error:
            raise type(error)(f"{name}, shape {x.shape}: {error}") from None

    def one_by_one(self, elements: Sequence[Element], x: Tree) -> Iterator[Any]:
        """Yield ρ(g) x for each element."""
        for g in elements:
            yield self(g, x)

    def angle(self, g: Element) -> float | None:
        """Degrees, if ρ(g) is a rotation."""
        return self.group.angle(g)

    def moves_exactly(self, g: Element) -> bool:
        """Whether ρ(g) moves values without resampling them."""
        return self.exact

    def more_accurate(self) -> GroupAction | None:
        """This action with a more accurate interpolation; None if there is none."""
        return None

    def in_numpy(self) -> GroupAction:
        """This action for NumPy arrays, in its fastest form for many elements."""
        return self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, GroupAction) or type(self) is not type(other):
            return False
        return self._key() == other._key() and self.group == other.group

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, self.group, self._key()))

    def __hash__(self) -> int:
        return self._hash

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"actions are immutable; cannot set {name}")

    def __repr__(self) -> str:
        return f"<action {self.name} of {self.group.name}{'' if self.exact else ', resampled'}>"


def is_infinite(action: object) -> TypeGuard[GroupMap]:
    """Whether the elements of the group of `action` cannot be listed, nor summed over."""
    group = getattr(action, "group", None)
    return isinstance(group, SymmetryGroup) and group.elements is None
