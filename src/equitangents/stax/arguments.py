"""Checks of arguments of neural-tangents that have one meaning here: others raise NotImplementedError."""

from __future__ import annotations

from enum import Enum
from typing import Any

from equitangents.stax.nodes import Axes


def only(name: str, value: Any, *allowed: Any, instead: str) -> None:
    """Raise NotImplementedError, which names our own way, unless `value` is one of `allowed`."""
    value = setting(value)
    if not any(value is a or value == a for a in allowed):
        raise NotImplementedError(f"{name}={value!r} is not here; {instead}")


def setting(value: Any) -> Any:
    """The name of a setting that is given by an enumeration; anything else as it is."""
    return value.name if isinstance(value, Enum) else value


def axes(batch_axis: int, channel_axis: int) -> Axes | None:
    """The axes of inputs, None where they are the usual ones: batch first, channels last."""
    return None if (batch_axis, channel_axis) == (0, -1) else (batch_axis, channel_axis)
