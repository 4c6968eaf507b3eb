"""Kernels of networks whose outputs move with their inputs, from kernels of inputs and their moved copies.

Θ_H(x, x′) = (1/|H|) Σ_{h∈H} Θ(x, ρ_X(h)x′) ρ_Y(h), with Θ on pairs of positions, is the kernel of the network that is
equivariant under the subgroup H, where Θ(ρ(h)x, ρ(h)x′) = ρ_Y(h) Θ(x, x′) ρ_Y(h)ᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents import nn
from equitangents.actions import Action
from equitangents_studies.common import networks

STD: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}


def ends_on_positions(hidden_layers: int, channels: int, outputs: int) -> nn.Sequential:
    """3×3 windows, ReLU, and `outputs` numbers at every position."""
    hidden = networks.hidden(hidden_layers, lambda: nn.Conv(channels, (3, 3), padding="circular", **STD))
    return nn.Sequential(*hidden, nn.Dense(outputs, **STD))


PairKernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Θ(x, x′) on pairs of positions: inputs (N₁, …) and (N₂, …) to (N₁, P, N₂, P); P is 1 without positions."""

_TILE = 2**22  # entries of a kernel that are moved at a time


@dataclass(frozen=True, eq=False)
class Symmetry:
    """What moves inputs (N, …) and their targets (N, *positions, fibre) together; nothing, without `outputs`.

    `elements` of the group of both actions form a subgroup; None: all. `fibre` is how many components of a target the
    group mixes; others are outputs of their own. `whole(x1, x2)` is the kernel (N₁, fibre, N₂, fibre) of a network
    that is equivariant under a group with infinitely many elements, of which those of `inputs` are some.
    """

    title: str
    inputs: Action
    outputs: Action | None = None
    elements: tuple[int, ...] | None = None
    fibre: int = 1
    whole: PairKernel | None = None

    @property
    def chosen(self) -> tuple[int, ...]:
        """The elements of the subgroup."""
        group = self.inputs.group
        if self.outputs is None:
            return (group.identity,)
        return tuple(group.elements) if self.elements is None else self.elements


def moved_kernels(
    kernel: PairKernel,
    symmetries: Mapping[str, Symmetry],
    x1: Float[np.ndarray, "n ..."],
    x2: Float[np.ndarray, "m ..."],
    positions: tuple[int, ...],
    step: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Float[np.ndarray, "rows columns"]]:
    """Θ_H of every symmetry, (N₁·P·fibre, N₂·P·fibre), float64; what several share is computed once.

    `positions` are those of the targets; `step(done, total)` counts moved copies of all of x2.
    """
    copies: dict[tuple[Action, int], list[str]] = {}
    for name, symmetry in symmetries.items():
        for g in symmetry.chosen if symmetry.whole is None else ():
            copies.setdefault((symmetry.inputs, g), []).append(name)
    count = int(np.prod(positions, dtype=int))
    sums = {name: np.zeros((len(x1) * count * s.fibre, len(x2) * count * s.fibre)) for name, s in symmetries.items()}
    for name, symmetry in symmetries.items():
        if symmetry.whole is not None:
            sums[name] += np.asarray(symmetry.whole(x1, x2), np.float64).reshape(sums[name].shape)
    tile = max(1, _TILE // (len(x2) * count**2))
    for done, ((action, g), names) in enumerate(copies.items(), 1):
        moved = np.asarray(action(g, x2))
        for start in range(0, len(x1), tile):
            block = np.asarray(kernel(x1[start : start + tile], moved), np.float64)
            for name in names:
                s = symmetries[name]
                rows = slice(start * count * s.fibre, (start + len(block)) * count * s.fibre)
                sums[name][rows] += moved_block(block, s, g, positions) / len(s.chosen)
        step(done, len(copies))
    return sums


def moved_block(
    block: Float[np.ndarray, "n p m q"], symmetry: Symmetry, g: int, positions: tuple[int, ...]
) -> Float[np.ndarray, "rows columns"]:
    """Θ(x, ρ_X(g)x′) ρ_Y(g) as a matrix: ρ_Y(g⁻¹), which is orthogonal, moves each of its rows."""
    n, p, m, q = block.shape
    if symmetry.outputs is None:
        return block.reshape(n * p, m * q)
    k, back = symmetry.fibre, symmetry.outputs.group.inverse(g)
    found = np.empty((n, p, k, m, q * k))
    for i in range(k):
        rows = np.zeros((n, p, m, *positions, k))
        rows[..., i] = block.reshape(n, p, m, *positions)
        moved = np.asarray(symmetry.outputs(back, rows.reshape(-1, *positions, k)))
        found[:, :, i] = moved.reshape(n, p, m, q * k)
    return found.reshape(n * p * k, m * q * k)


def as_columns(y: Float[np.ndarray, "n ..."], rows: int) -> Float[np.ndarray, "rows outputs"]:
    """Targets as right-hand sides for a kernel's matrix of so many rows."""
    return np.asarray(y, np.float64).reshape(rows, -1)


def moved_copies(symmetry: Symmetry, x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "copies ..."]:
    """All ρ_X(g)x, one element after another."""
    return np.concatenate([np.asarray(symmetry.inputs(g, x)) for g in symmetry.chosen])


def moved_targets(
    symmetry: Symmetry, y: Float[np.ndarray, "n ..."], positions: tuple[int, ...]
) -> Float[np.ndarray, "copies ..."]:
    """All ρ_Y(g)y in the order of `moved_copies`; outputs beyond those that the group mixes move alike."""
    assert symmetry.outputs is not None
    fields = np.asarray(y, np.float64).reshape(len(y), *positions, symmetry.fibre, -1)
    alike = np.moveaxis(fields, -1, 1)  # (N, outputs, *positions, fibre)
    copies = [
        np.asarray(symmetry.outputs(g, alike.reshape(-1, *alike.shape[2:]))).reshape(alike.shape)
        for g in symmetry.chosen
    ]
    return np.moveaxis(np.concatenate(copies), 1, -1).reshape(-1, *y.shape[1:])
