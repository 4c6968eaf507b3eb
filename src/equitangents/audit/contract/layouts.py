"""Where images and sequences keep their channels: read off shapes where these leave no doubt.

(N, 3, 32, 32) has its channels first and (N, 32, 32, 3) last: of two readings one has a square grid, or a number of
channels that images have. Of (N, 8, 8, 8), and of (N, 3, 3, 32), either may be right.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

import numpy as np

from equitangents.errors import InvalidArgumentError

Layout = Literal["channels_last", "channels_first"]

Sizes = Sequence[object]
"""A shape as a file states it: numbers, or whatever stands for a size that may be any."""

Stated = Sequence[Sizes | None] | None
"""The shape of each input that a model's file states, [] if it states none; None: its layout may be assumed."""

_CHANNELS = (1, 2, 3, 4)
"""Channels that images may have.

Sequences only 1: four steps of many features are as likely as four channels of many steps.
"""
_LAYOUTS = ["channels_first", "channels_last"]  # (N, C, H, W) and (N, H, W, C)

logger = logging.getLogger("equitangents.audit.layouts")


def to_last(x: np.ndarray, layout: Layout | None) -> np.ndarray:
    """Channels moved from axis 1 to the end if that is where they are."""
    return np.moveaxis(x, 1, -1) if layout == "channels_first" else x


def from_last(x: np.ndarray, layout: Layout | None) -> np.ndarray:
    """The reverse of `to_last`."""
    return np.moveaxis(x, -1, 1) if layout == "channels_first" else x


def spatial(shape: tuple[int, ...], layout: Layout | None) -> tuple[int, ...]:
    """Numbers of positions of a batch of images."""
    return shape[2:] if layout == "channels_first" else shape[1:-1]


def looks_first(shape: Sequence[int]) -> bool:
    """Whether axis 1 has as many entries as images have channels, and the last has more."""
    return len(shape) > 2 and _few(shape[1], shape) and not _few(shape[-1], shape)


def layout_of(shape: Sequence[int], stated: Sizes | None = None) -> Layout | None:
    """The layout that the shape of a batch leaves no doubt of, or the shape that a file states; None where it does.

    A file that states one size beside the batch, and leaves all others open, states the channels, first or last.
    """
    if len(shape) < 3:
        return None
    known = [] if stated is None else [k for k in range(1, len(stated)) if isinstance(stated[k], int)]
    if stated is not None and len(stated) == len(shape) and known in ([1], [len(shape) - 1]):
        return "channels_first" if known == [1] else "channels_last"
    votes = {_by_grid(shape), _by_channels(shape)} - {None}
    return votes.pop() if len(votes) == 1 else None


def _by_grid(shape: Sequence[int]) -> Layout | None:
    """By which reading the grid, of two dimensions or more, has equal sides."""
    if len(shape) < 4 or shape[1] == shape[-1]:
        return None
    first, last = len(set(shape[2:])) == 1, len(set(shape[1:-1])) == 1
    return None if first == last else "channels_first" if first else "channels_last"


def _by_channels(shape: Sequence[int]) -> Layout | None:
    """By which reading there are as many channels as images have."""
    if looks_first(shape):
        return "channels_first"
    return "channels_last" if _few(shape[-1], shape) and not _few(shape[1], shape) else None


def _few(size: int, shape: Sequence[int]) -> bool:
    return size in (_CHANNELS if len(shape) > 3 else _CHANNELS[:1])


def settled_layout(shapes: Sequence[tuple[int, ...]], stated: Sequence[Sizes | None], needed: bool) -> Layout:
    """The layout of images of these shapes that nobody gave: read off them, else channels last.

    `needed`: of models for which the field has no habit the layout is read or asked for, never assumed; `stated`: the
    shapes that the model's file states, one for each.

    Raises:
        InvalidArgumentError: it would be a guess.
    """
    if not shapes:
        return "channels_last"
    if not needed:
        guess = next((s for s in shapes if len(s) == 4 and layout_of(s) == "channels_first"), None)
        if guess is None:
            return "channels_last"
        raise InvalidArgumentError(
            "layout", None, _LAYOUTS, f"x of shape {guess} looks like channels first, (N, C, H, W)"
        )
    known = zip(shapes, stated or [None] * len(shapes), strict=True)
    found = {layout for s, file in known if (layout := layout_of(s, file)) is not None}
    if len(found) != 1:
        raise InvalidArgumentError("layout", None, _LAYOUTS, f"x of shape {shapes[0]} does not tell it")
    (layout,) = found
    logger.info("layout: %s, read off the shape %s", layout, " and ".join(map(str, shapes)))
    return layout
