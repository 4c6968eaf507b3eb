"""Kernels of networks whose outputs move with their inputs, from kernels of inputs and their moved copies.

Θ_H(x, x′) = (1/|H|) Σ_{h∈H} Θ(x, ρ_X(h)x′) ρ_Y(h), with Θ on pairs of positions, is the kernel of the network that is
equivariant under the subgroup H, where Θ(ρ(h)x, ρ(h)x′) = ρ_Y(h) Θ(x, x′) ρ_Y(h)ᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents import nn
from equitangents.actions import Action
from equitangents.extending import FiniteNetwork
from equitangents.solvers import solve
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.common import networks
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.systems.factors import log_factor_at_end

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


SETS = ("training", "test", "off the data")
PLAIN, RIGHT, WRONG = "plain", "right", "wrong"


@dataclass(frozen=True)
class Score:
    """How good predictions (N, …) are for targets (N, …), a number from 0 to `most`."""

    of: Callable[[np.ndarray, np.ndarray], float]
    most: float = math.inf


Sets = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training inputs and targets, test inputs and targets."""


@dataclass(frozen=True)
class Training:
    """`members` networks, full-batch gradient descent on all copies of `inputs` inputs, recorded after `steps`.

    The learning rate is `rate` times the largest at which descent in the limit of infinite width is stable.
    """

    net: FiniteNetwork
    members: int
    inputs: int
    steps: tuple[int, ...]
    seed: int
    rate: float = 0.3


@dataclass(frozen=True, eq=False)
class Problem:
    """A task whose symmetry moves inputs and targets, and the networks that learn it.

    `symmetries` by name, PLAIN, RIGHT and WRONG among them. `draw(k)` are training and test sets of a draw, with as
    many training inputs as the largest of `sizes`; `foreign` are inputs unlike them. `scores` of predictions and
    targets; `squared` is one.
    """

    name: str
    kernel: PairKernel
    symmetries: Mapping[str, Symmetry]
    positions: tuple[int, ...]
    draw: Callable[[int], Sets]
    foreign: np.ndarray
    sizes: tuple[int, ...]
    draws: int
    ridge: float
    scores: Mapping[str, Score]
    few: int
    units: tuple[float, ...]
    training: Training | None = None


def few_of(p: Problem) -> dict[str, np.ndarray]:
    """A few training inputs of the first draw, test inputs, and inputs unlike both."""
    x, _, test, _ = p.draw(0)
    return dict(zip(SETS, (x[: p.few], test[: p.few], p.foreign[: p.few]), strict=True))


SHOWN = 4  # test inputs whose predictions are kept for figures
_MOST_ROWS = 2400  # of the kernel of all moved copies, which is solved as it stands


def learnt(
    K: Float[np.ndarray, "m m"], B: Float[np.ndarray, "t m"], y: Float[np.ndarray, "m outputs"], ridge: float
) -> Float[np.ndarray, "t outputs"]:
    """What the kernel predicts after training to the end: B (K + ridge)⁻¹ y."""
    system = K + K.T
    system /= 2
    solution = solve(system, y, ridge=ridge, ridge_unit=1.0, solver="cholesky", overwrite=True)
    return np.asarray(B @ solution.coefficients)


def unit(K: Float[np.ndarray, "m m"]) -> float:
    """The mean diagonal, to which ridges are relative."""
    return float(np.diagonal(K).mean())


def without_negative(K: Float[np.ndarray, "m m"]) -> Float[np.ndarray, "m m"]:
    """A kernel known to a tolerance, with its negative eigenvalues set to 0."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    found: np.ndarray = (vectors * np.maximum(values, 0)) @ vectors.T
    return found


def scores_of_a_draw(p: Problem, k: int, task: Task) -> Arrays:
    """`score_name` (sizes,) of every score and symmetry, and `shown_name` (sizes, SHOWN, …), what is predicted of a few
    test inputs; `apart` (sizes,), how far training on all moved copies under the right symmetry is from its kernel,
    relative to the largest output, where they are not too many, as `explicit` (sizes,) says.
    """
    x, y, test, target = p.draw(k)
    grams = moved_kernels(p.kernel, p.symmetries, x, x, p.positions, lambda a, b: task.step(a / b, 4))
    cross = moved_kernels(p.kernel, p.symmetries, test, x, p.positions, lambda a, b: task.step(1 + a / b, 4))
    sizes = len(p.sizes)
    found: Arrays = {f"{score}_{name}": np.zeros(sizes) for name in p.symmetries for score in p.scores}
    copies = len(p.symmetries[RIGHT].chosen) * math.prod(p.positions)
    found["explicit"] = np.asarray(p.sizes) * copies <= _MOST_ROWS
    found["apart"] = np.full(sizes, np.nan)
    for i, (name, symmetry) in enumerate(p.symmetries.items()):
        if symmetry.whole is not None:
            grams[name] = without_negative(grams[name])
        each, shown = len(grams[name]) // len(x), []
        for j, size in enumerate(p.sizes):
            few = size * each
            K, B = grams[name][:few, :few], cross[name][:, :few]
            predicted = learnt(K, B, as_columns(y[:size], few), p.ridge * unit(K)).reshape(target.shape)
            for score, s in p.scores.items():
                found[f"{score}_{name}"][j] = s.of(predicted, target)
            shown.append(predicted[:SHOWN])
            if name == RIGHT and found["explicit"][j]:
                other = by_augmentation(p, x[:size], y[:size], test, p.ridge * unit(K))
                found["apart"][j] = largest_difference(other.reshape(target.shape), predicted)
        found[f"shown_{name}"] = np.stack(shown)
        task.step(2 + 2 * (i + 1) / len(p.symmetries), 4)
    return found


def by_augmentation(
    p: Problem,
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    test: Float[np.ndarray, "m ..."],
    ridge: float,
) -> Float[np.ndarray, "rows outputs"]:
    """What the plain kernel predicts of `test` after training on all copies of x with their targets.

    The ridge is that of the mean over copies: |G| times as large for their sum.
    """
    symmetry = p.symmetries[RIGHT]
    bare, copies = Symmetry("", symmetry.inputs), moved_copies(symmetry, x)
    K = moved_kernels(p.kernel, {"": bare}, copies, copies, p.positions)[""]
    B = moved_kernels(p.kernel, {"": bare}, test, copies, p.positions)[""]
    return learnt(K, B, as_columns(moved_targets(symmetry, y, p.positions), len(K)), ridge * len(symmetry.chosen))


def inputs_saved(
    sizes: Sequence[int],
    without: Float[np.ndarray, "draws sizes"],
    with_group: Float[np.ndarray, "draws sizes"],
    level: float = 0.95,
) -> Estimate:
    """How many times as many inputs the first kernel needs as the second for the smallest error that both reach.

    Of mean errors over draws, sizes interpolated on logarithms; with the bootstrap's interval of its logarithm
    over draws. No more than the largest over the smallest size can be measured.
    """
    n = np.asarray(sizes, np.float64)
    logs = lambda means: np.array([log_factor_at_end(n, first, second) for first, second in means])
    most = math.log(n[-1] / n[0])
    found = bootstrap(np.stack([without, with_group], axis=1), logs, confidence=level, bounds=(-most, most))
    return Estimate(math.exp(found.value), math.exp(found.low), math.exp(found.high), level)
