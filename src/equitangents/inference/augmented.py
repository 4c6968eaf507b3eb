"""The explicit problem of full augmentation: {(ρ_X(g) x_i, ρ_Y(g) y_i) : g ∈ G}, N|G| samples, g running slowest.

Equal samples may be merged: m copies of one input with one target act like one sample whose rows and columns of Θ and
K and whose target are multiplied by √m, at every time and with every ridge (the other m − 1 directions are in the
kernel of Θ and hold no target). So inputs that some g fixes need not make a singular system.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np

from equitangents._types import AnyAction, ArrayLike, Element, Numbers
from equitangents.errors import ShapeError
from equitangents.groups.group import GroupMap


def augment_inputs(action: AnyAction, x: ArrayLike) -> ArrayLike:
    """All ρ_X(g) x_i, shape (|G|·N, …), in the order of `action.orbit`; of a subset of an action its elements alone."""
    orbit = action.orbit(x)
    return orbit.reshape(-1, *x.shape[1:])


def augment_targets(label_action: GroupMap | None, y: np.ndarray, elements: Iterable[Element]) -> np.ndarray:
    """ρ_Y(g) y_i for all g of `elements`, shape (size·N, …); without a label action copies keep their targets."""
    if label_action is None:
        return np.concatenate([y] * len(list(elements)))
    moved = [np.asarray(label_action(int(g) if np.ndim(g) == 0 else g, y), dtype=np.float64) for g in elements]
    if moved[0].shape != y.shape:
        raise ShapeError(
            "label_action", moved[0].shape, y.shape, "it must keep the shape", verb="gives targets of shape"
        )
    return np.concatenate(moved)


def row_tolerances(a: Numbers) -> np.ndarray:
    """How far apart equal rows may be, (N,): symmetries given as matrices fix their inputs only up to rounding.

    1e-12 of the largest entry of all, though at most 1e-9 of the row's own largest entry: one large
    sample must not make all small ones equal. At least 16 units in the last place of that entry.
    """
    a = np.asarray(a)
    largest = np.abs(a.reshape(len(a), -1).astype(np.float64)).max(axis=1)
    return np.maximum(
        np.minimum(1e-12 * float(largest.max()), 1e-9 * largest), 16 * float(jnp.finfo(a.dtype).eps) * largest
    )


def row_digests(a: Numbers) -> list[bytes]:
    """A digest of each row: the same for rows that agree to rounding, as `row_tolerances` has it."""
    a = np.asarray(a)
    # Powers of two, as equal rows agree in their largest entry only to rounding; 1.37 moves steps off round numbers.
    with np.errstate(divide="ignore"):
        grids = np.exp2(np.floor(np.log2(1.37 * row_tolerances(a))))
    rows = a.reshape(len(a), -1).astype(np.float64)
    return [_digest(row, grid) if grid > 0 else b"" for row, grid in zip(rows, grids, strict=True)]


def _digest(row: np.ndarray, grid: float) -> bytes:
    steps = np.append(np.rint(row / grid), np.log2(grid))
    return hashlib.blake2b(steps.astype(np.int64).tobytes(), digest_size=16).digest()


def kinds(*digests: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """First index of each distinct row, and which of those every row equals; rows are equal if all digests are.

    >>> first, kind = kinds([b"a", b"b", b"a"])
    >>> first.tolist(), kind.tolist()
    ([0, 1], [0, 1, 0])
    """
    seen: dict[tuple[bytes, ...], int] = {}
    first: list[int] = []
    kind: list[int] = []
    for i, row in enumerate(zip(*digests, strict=True)):
        at = seen.setdefault(row, len(first))
        if at == len(first):
            first.append(i)
        kind.append(at)
    return np.array(first), np.array(kind, dtype=np.intp)
