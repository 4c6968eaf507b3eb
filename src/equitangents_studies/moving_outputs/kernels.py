"""Kernels of networks whose outputs move with their inputs, from kernels of inputs and their moved copies.

Θ_H(x, x′) = (1/|H|) Σ_{h∈H} Θ(x, ρ_X(h)x′) ρ_Y(h), with Θ on pairs of positions, is the kernel of the network that is
equivariant under the subgroup H, where Θ(ρ(h)x, ρ(h)x′) = ρ_Y(h) Θ(x, x′) ρ_Y(h)ᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.solvers import solve

PairKernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Θ(x, x′) on pairs of positions: inputs (N₁, …) and (N₂, …) to (N₁, P, N₂, P); P is 1 without positions."""

_TILE = 2**22  # entries of a kernel that are moved at a time


@dataclass(frozen=True, eq=False)
class Symmetry:
    """Actions on inputs (N, …) and on their targets (N, *positions, fibre); without `outputs` no symmetry is built in.

    `elements` of the group of both actions form a subgroup; None: all. `fibre` is the number of components of a target
    that the group mixes; other components are independent outputs.
    """

    title: str
    inputs: Action
    outputs: Action | None = None
    elements: tuple[int, ...] | None = None
    fibre: int = 1

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
    """Θ_H of every symmetry, (N₁·P·fibre, N₂·P·fibre), float64; shared copies are computed once.

    `positions` are those of the targets; `step(done, total)` counts moved copies of all of x2.
    """
    count, sums = math.prod(positions), {}
    copies: dict[tuple[Action, int], list[str]] = {}
    for name, s in symmetries.items():
        shape = (len(x1) * count * s.fibre, len(x2) * count * s.fibre)
        sums[name] = np.zeros(shape)
        for g in s.chosen:
            copies.setdefault((s.inputs, g), []).append(name)
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
    """Θ(x, ρ_X(g)x′) ρ_Y(g) as a matrix, by moving each row with ρ_Y(g⁻¹), since ρ_Y is orthogonal."""
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


def moved_copies(symmetry: Symmetry, x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "copies ..."]:
    """All ρ_X(g)x, one element after another."""
    return np.concatenate([np.asarray(symmetry.inputs(g, x)) for g in symmetry.chosen])


def moved_targets(
    symmetry: Symmetry, y: Float[np.ndarray, "n ..."], positions: tuple[int, ...]
) -> Float[np.ndarray, "copies ..."]:
    """All ρ_Y(g)y in the order of `moved_copies`; components beyond `fibre` move in the same way."""
    assert symmetry.outputs is not None
    fields = np.asarray(y, np.float64).reshape(len(y), *positions, symmetry.fibre, -1)
    alike = np.moveaxis(fields, -1, 1)  # (N, outputs, *positions, fibre)
    flat = alike.reshape(-1, *alike.shape[2:])
    copies = [np.asarray(symmetry.outputs(g, flat)).reshape(alike.shape) for g in symmetry.chosen]
    return np.moveaxis(np.concatenate(copies), 1, -1).reshape(-1, *y.shape[1:])


def learnt(
    K: Float[np.ndarray, "m m"], B: Float[np.ndarray, "t m"], y: Float[np.ndarray, "n ..."], ridge: float
) -> Float[np.ndarray, "t outputs"]:
    """Prediction of the fully trained kernel, B (K + ridge)⁻¹ y."""
    system = (K + K.T) / 2
    y = np.asarray(y, np.float64).reshape(len(K), -1)
    solution = solve(system, y, ridge=ridge, ridge_unit=1.0, solver="cholesky", overwrite=True)
    return np.asarray(B @ solution.coefficients)


def unit(K: Float[np.ndarray, "m m"]) -> float:
    """The mean diagonal, to which ridges are relative."""
    return float(np.diagonal(K).mean())
