"""Sequences (N, T) or (N, T, C): shifted around, reversed, with the other sign; and complex amplitudes with a phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from equitangents._types import ArrayLike, Element
from equitangents.actions.given_maps import GivenMap
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup
from equitangents.groups.translation_group import TranslationGroup


@final
class CircularShifts(GivenMap):
    """Element t takes step i to i + t modulo the length."""

    group: TranslationGroup
    channels_last: bool

    def __init__(self, group: TranslationGroup, channels: bool):
        vars(self).update(group=group, channels_last=channels, name="circular shifts of sequences")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Axis 1 is as long as the group says."""
        length = self.group.order
        if x.ndim not in (2, 3) or x.shape[1] != length or len(self.group.shape) != 1:
            raise ShapeError(
                name, x.shape, "sequences (N, length) or (N, length, C)", "of the length that the action moves"
            )

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """(ρ(t) x)[i + t] = x[i]."""
        return np.roll(x, int(g), axis=1)

    def _key(self) -> tuple[Any, ...]:
        return (self.channels_last,)


@final
class Reversal(GivenMap):
    """Element 1 runs sequences backwards."""

    channels_last: bool

    def __init__(self, group: SymmetryGroup, channels: bool):
        vars(self).update(group=group, channels_last=channels, name="sequences, reversed")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """There is an axis of steps."""
        if x.ndim < 2:
            raise ShapeError(name, x.shape, "sequences (N, T) or (N, T, C)")

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """The steps in the reverse order."""
        return x[:, ::-1] if g else x

    def _key(self) -> tuple[Any, ...]:
        return (self.channels_last,)


@final
class SignChange(GivenMap):
    """Element 1 takes x to −x."""

    def __init__(self, group: SymmetryGroup):
        vars(self).update(group=group, name="values, with the other sign")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Numbers that have a sign."""
        if x.dtype.kind in "ub":
            raise InvalidTypeError(name, x.dtype, remedy="numbers of this type have no sign", verb="has dtype")

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """Either x or −x."""
        return -x if g else x

    def _key(self) -> tuple[Any, ...]:
        return ()


@final
class PhaseTurns(GivenMap):
    """Complex amplitudes, such as quantum states: rotation by φ multiplies by exp(iφ), reflection conjugates first."""

    motion: Callable[[Any], tuple[float, bool]]

    def __init__(self, group: SymmetryGroup, motion: Callable[[Any], tuple[float, bool]]):
        vars(self).update(group=group, motion=motion, name="states, turned in phase")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Only complex numbers have a phase."""
        if x.dtype.kind != "c":
            raise InvalidTypeError(
                name, x.dtype, remedy="a phase turns complex numbers (complex64, complex128)", verb="has dtype"
            )

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """exp(iφ) x, or exp(iφ) x̄."""
        degrees, reflected = self.motion(g)
        return ((x.conj() if reflected else x) * np.exp(1j * np.radians(degrees))).astype(x.dtype)

    def _key(self) -> tuple[Any, ...]:
        return (self.motion,)
