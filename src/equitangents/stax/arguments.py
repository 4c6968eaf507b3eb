"""Checks of arguments of neural-tangents that have one meaning here: others raise NotImplementedError."""

from __future__ import annotations

from enum import Enum
from typing import Any


def only(name: str, value: Any, *allowed: Any, instead: str) -> None:
    """Raise NotImplementedError, which names our own way, unless `value` is one of `allowed`."""
    value = setting(value)
    if not any(value is a or value == a for a in allowed):
        raise NotImplementedError(f"{name}={value!r} is not here; {instead}")


def setting(value: Any) -> Any:
    """The name of a setting that is given by an enumeration; anything else as it is."""
    return value.name if isinstance(value, Enum) else value


def channel_last(batch_axis: int, channel_axis: int) -> None:
    """Inputs are (N, *positions, channels)."""
    instead = "move the axes of the inputs: here they are (N, *positions, channels)"
    only("batch_axis", batch_axis, 0, instead=instead)
    only("channel_axis", channel_axis, -1, instead=instead)
