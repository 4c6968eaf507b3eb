"""Arguments of neural-tangents as ours: settings, windows, axes; others raise NotImplementedError."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from equitangents import nn
from equitangents.stax.tree import Axes

_PADDINGS = {"SAME": "zero", "VALID": "valid", "CIRCULAR": "circular"}


class AttentionMechanism(Enum):
    """Function of attention logits."""

    SOFTMAX = "SOFTMAX"
    IDENTITY = "IDENTITY"
    ABS = "ABS"
    RELU = "RELU"


class PositionalEmbedding(Enum):
    """Positional embedding of attention; only NONE (positions as channels of the input)."""

    NONE = "NONE"
    SUM = "SUM"
    CONCAT = "CONCAT"


class AggregateImplementation(Enum):
    """Form of graphs: weights of all pairs of nodes, DENSE, or lists of edges, SPARSE."""

    DENSE = "DENSE"
    SPARSE = "SPARSE"


def only(name: str, value: object, *allowed: object, instead: str) -> None:
    """Raise NotImplementedError with a remedy unless `value` is one of `allowed`."""
    value = value.name if isinstance(value, Enum) else value
    if not any(value is a or value == a for a in allowed):
        raise NotImplementedError(f"{name}={value!r} is not here; {instead}")


def setting(value: str | Enum) -> str:
    """The name of a setting from an enumeration or a text."""
    return value.name if isinstance(value, Enum) else value


def axes(batch_axis: int, channel_axis: int) -> Axes | None:
    """The axes of inputs, None where they are the usual ones: batch first, channels last."""
    return None if (batch_axis, channel_axis) == (0, -1) else (batch_axis, channel_axis)


def weights(
    channels: int, W_std: float, b_std: float | None, parametrisation: str, s: Sequence[int]
) -> tuple[int, dict[str, Any]]:
    """Channels and weights of a layer; b_std None is no bias, 0.0 one that starts at 0."""
    how = parametrisation.lower()
    given = {"W_std": W_std, "b_std": b_std or 0.0, "parametrisation": how}
    if how != "standard":
        return channels, given
    return channels * s[1], {**given, "bias": b_std is not None, "width_scale": float(s[0])}


def padded(padding: str) -> str:
    """Our name of a padding."""
    name = str(padding).rsplit(".", maxsplit=1)[-1].upper()
    only("padding", name, *_PADDINGS, instead=f"use one of {', '.join(_PADDINGS)}")
    return _PADDINGS[name]


def windows(
    window: Sequence[int], strides: Sequence[int] | None, numbers: Sequence[str | None] | None
) -> tuple[tuple[int, ...], tuple[int, ...], Axes | None, Axes | None]:
    """(window, strides, axes of the input, axes of the output): dimensions in the order that the input has them in."""
    window = tuple(window)
    strides = (1,) * len(window) if strides is None else tuple(strides)
    if numbers is None:
        return window, strides, None, None
    read, filters, written = numbers
    assert read is not None
    written = read if written is None else written
    grid = [c for c in read if c not in "NC"]
    order = grid if filters is None else [c for c in filters if c not in "IO"]
    if [c for c in written if c not in "NC"] != grid:
        raise NotImplementedError(
            f"dimension_numbers={tuple(numbers)!r} are not here: outputs have the dimensions of positions in the order "
            "of the inputs; move the axes of the inputs, (N, *positions, channels)"
        )
    found = [(spec.index("N"), spec.index("C")) for spec in (read, written)]
    usual = [axes(n, -1 if c == len(read) - 1 else c) for n, c in found]
    at = [order.index(c) for c in grid]
    both = usual if usual[0] == usual[1] is None else found
    return tuple(window[i] for i in at), tuple(strides[i] for i in at), both[0], both[1]


def pooled_axes(before: Axes | None) -> Axes | None:
    """The axes after all positions are gone."""
    if before is None:
        return None
    batch, channel = before
    first = channel is not None and 0 <= channel < batch
    return (1, 0) if first else (0, -1)


def mean_pool(window: Sequence[int], strides: Sequence[int] | None, padding: str) -> nn.AvgPool:
    """A pool with default stride 1."""
    window = tuple(window)
    return nn.AvgPool(window, (1,) * len(window) if strides is None else tuple(strides), padded(padding))
