"""Remedies for arrays that are images in another form: flattened, or with channels first."""

from __future__ import annotations

_CHANNELS = (1, 2, 3, 4)


def remedy(x: str, shape: tuple[int, ...]) -> str:
    """A sentence about inputs of `shape`, called `x`, that should be images (N, H, W, C); or nothing."""
    return flattened(x, shape) + channels_first(x, shape)


def channels_first(x: str, shape: tuple[int, ...]) -> str:
    """A sentence if inputs of `shape` look like images (N, C, H, W); or nothing."""
    if not looks_channels_first(shape):
        return ""
    return (
        f". {x} has shape {shape}, which looks like channels first, (N, C, H, W); arrays are channels last, "
        f"(N, H, W, C): numpy.moveaxis({x}, 1, -1)"
    )


def looks_channels_first(shape: tuple[int, ...]) -> bool:
    """Whether the second axis is short enough for channels, and the last one is not."""
    return len(shape) == 4 and shape[1] in _CHANNELS and min(shape[2:]) > max(_CHANNELS)


def flattened(x: str, shape: tuple[int, ...]) -> str:
    """A sentence if the rows of inputs of `shape` may be images, flattened; or nothing.

    >>> flattened("x", (10, 64))
    '. If the rows of x are flattened images (H, W, C), e.g. (8, 8, 1), reshape them: x.reshape(-1, 8, 8, 1)'
    """
    if len(shape) != 2:
        return ""
    features = shape[1]
    sides = ((round((features / c) ** 0.5), c) for c in (1, 3))
    example = next((f"{n}, {n}, {c}" for n, c in sides if n > 1 and c * n * n == features), None)
    shown = f", e.g. ({example})" if example else ""
    sizes = example or "H, W, C"
    way = f"give input_shape=({sizes})" if x == "X" else f"reshape them: {x}.reshape(-1, {sizes})"
    return f". If the rows of {x} are flattened images (H, W, C){shown}, {way}"
