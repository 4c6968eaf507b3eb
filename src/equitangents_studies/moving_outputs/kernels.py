"""Kernels of networks whose outputs move with their inputs, from kernels of inputs and their moved copies.

Θ_H(x, x′) = (1/|H|) Σ_{h∈H} Θ(x, ρ_X(h)x′) ρ_Y(h), with Θ on pairs of positions, is the kernel of the network that is
equivariant under the subgroup H, where Θ(ρ(h)x, ρ(h)x′) = ρ_Y(h) Θ(x, x′) ρ_Y(h)ᵀ.
Augmentation is explicit beside it: N|H| inputs and targets, the network's own kernel, at times t by
μ_t = B Θ⁻¹ (1 − e^{−Θt/N}) Y; and finite networks are trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.extending import FiniteNetwork
from equitangents.solvers import solve
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.study import Arrays, RunFolder, Task, at_least, check

STD: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}


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


def squared(predicted: np.ndarray, target: np.ndarray) -> float:
    """Mean squared error relative to the mean square of the targets."""
    return float(((predicted - target) ** 2).mean() / (target**2).mean())


Sets = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training inputs and targets, test inputs and targets."""


@dataclass(frozen=True)
class CommonSettings:
    """In each of `draws` draws, training sets of `sizes` inputs and `test` further ones, learnt with a `ridge` relative
    to the kernel's mean diagonal. `few` inputs are trained on in all orientations, at times in `units`. `members`
    networks are trained on `trained` inputs and recorded after `steps`.
    """

    sizes: tuple[int, ...] = (2, 4, 8, 16)
    test: int = 12
    draws: int = 12
    hidden_layers: int = 2
    ridge: float = 1e-2
    few: int = 2
    units: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0, float("inf"))
    members: int = 64
    trained: int = 4
    steps: tuple[int, ...] = (1, 10, 100)
    seed: int = 0


def check_common(s: CommonSettings, held: float = math.inf, **further: tuple[int, ...]) -> None:
    """Sizes that increase, also `further` ones; inputs enough, of which `held` are there; networks for an interval."""
    at_least(s, test=1, draws=2, hidden_layers=1, few=1, members=5)
    for name, sizes in {"sizes": s.sizes, **further}.items():
        check(list(sizes) == sorted(set(sizes)) and len(sizes) >= 2, name, sizes, "two or more, increasing")
        check(min(sizes) >= 1, name, sizes, "at least 1 each")
    fits = s.sizes[-1] + s.test <= held
    check(fits, "sizes", s.sizes, f"so few that they and {s.test} test images are at most {held}")
    least = min(s.test, s.sizes[-1], *(sizes[-1] for sizes in further.values()))
    check(s.ridge > 0, "ridge", s.ridge, "positive")
    check(s.few <= least, "few", s.few, f"at most {least}, inputs of a draw")
    check(1 <= s.trained <= s.sizes[-1], "trained", s.trained, f"between 1 and {s.sizes[-1]}, the largest training set")
    increasing = list(s.steps) == sorted(set(s.steps)) and len(s.steps) >= 1 and min(s.steps) >= 0
    check(increasing, "steps", s.steps, "one or more, increasing from 0 or more")
    check(len(s.units) >= 1 and min(s.units) > 0, "units", s.units, "positive times")


@dataclass(frozen=True, eq=False)
class Problem:
    """A task whose symmetry moves inputs and targets, and the networks that learn it.

    `symmetries` by name, PLAIN, RIGHT and WRONG among them. `draw(k)` are training and test sets of a draw, with as
    many training inputs as the largest of `sizes`; `foreign` are inputs unlike them. `scores` of predictions and
    targets; `squared` is one. `net` is trained at finite width.
    """

    name: str
    settings: CommonSettings
    kernel: PairKernel
    symmetries: Mapping[str, Symmetry]
    positions: tuple[int, ...]
    draw: Callable[[int], Sets]
    foreign: np.ndarray
    sizes: tuple[int, ...]
    ridge: float
    scores: Mapping[str, Score]
    net: FiniteNetwork | None = None


def few_of(p: Problem) -> dict[str, np.ndarray]:
    """A few training inputs of the first draw, test inputs, and inputs unlike both."""
    x, _, test, _ = p.draw(0)
    few = p.settings.few
    return dict(zip(SETS, (x[:few], test[:few], p.foreign[:few]), strict=True))


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
    """`score_name` (sizes,) of every score and symmetry; `apart` (sizes,), how far training on all moved copies under
    the right symmetry is from its kernel, relative to the largest output, where they are not too many, as `explicit`
    (sizes,) says.
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
        each = len(grams[name]) // len(x)
        for j, size in enumerate(p.sizes):
            few = size * each
            K, B = grams[name][:few, :few], cross[name][:, :few]
            predicted = learnt(K, B, as_columns(y[:size], few), p.ridge * unit(K)).reshape(target.shape)
            for score, s in p.scores.items():
                found[f"{score}_{name}"][j] = s.of(predicted, target)
            if name == RIGHT and found["explicit"][j]:
                other = by_augmentation(p, x[:size], y[:size], test, p.ridge * unit(K))
                found["apart"][j] = largest_difference(other.reshape(target.shape), predicted)
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


MODELS = ("augmented", "equivariant", "plain")


def over_time(p: Problem) -> dict[str, Float[np.ndarray, "sets times"]]:
    """`error_model`: relative equivariance errors; `apart`: largest differences of augmented and equivariant means,
    after training on the few training inputs of `few_of`.

    Times are in units of N/λ_max of the equivariant kernel. An error is the root mean square of f(ρ(g)x) − ρ(g)f(x)
    over all g but the identity, relative to that of f; a difference is relative to the largest output of its set.
    """
    symmetry, sets = p.symmetries[RIGHT], few_of(p)
    inputs, group = symmetry.inputs, symmetry.inputs.group
    shape = (*p.positions, symmetry.fibre)
    x = sets["training"]
    y = p.draw(0)[1][: len(x)].reshape(len(x), *shape, -1)[..., 0]
    data = {
        "augmented": (moved_copies(symmetry, x), moved_targets(symmetry, y, p.positions)),
        "equivariant": (x, y),
        "plain": (x, y),
    }
    bare = Symmetry("", inputs)
    means: dict[str, dict[str, np.ndarray]] = {name: {} for name in MODELS}
    unit = 1.0
    for name in ("equivariant", "augmented", "plain"):
        seen, targets = data[name]
        one = symmetry if name == "equivariant" else bare
        built = lambda a, seen=seen, one=one: moved_kernels(p.kernel, {"": one}, a, seen, p.positions)[""]
        K = built(seen)
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        if name == "equivariant":
            unit = float(values[-1])
        rates = values / unit * (len(x) / len(seen))
        projected = vectors.T @ as_columns(targets, len(K))
        for key, z in sets.items():
            B = built(moved_copies(symmetry, z)) @ vectors
            found = np.stack([B @ (grown(values, rates, t)[:, None] * projected) for t in p.settings.units])
            means[name][key] = found.reshape(len(p.settings.units), len(symmetry.chosen), len(z), *shape)
    arrays = {
        f"error_{name}": np.array([[_error(symmetry, group.identity, m) for m in means[name][key]] for key in sets])
        for name in MODELS
    }
    pairs = {key: zip(means["augmented"][key], means["equivariant"][key], strict=True) for key in sets}
    arrays["apart"] = np.array([[largest_difference(a, b) for a, b in pairs[key]] for key in sets])
    return arrays


def grown(values: np.ndarray, rates: np.ndarray, time: float) -> np.ndarray:
    """(1 − e^{−rate·time})/λ."""
    return -np.expm1(-rates * time) / values if np.isfinite(time) else 1 / values


def _error(symmetry: Symmetry, identity: int, mean: Float[np.ndarray, "order n ..."]) -> float:
    """Relative root mean square of f(ρ(g)x) − ρ(g) f(x)."""
    outputs = symmetry.outputs
    assert outputs is not None
    at = symmetry.chosen.index(identity)
    expected = np.stack([np.asarray(outputs(g, mean[at])) for g in symmetry.chosen])
    others = [i for i in range(len(mean)) if i != at]
    return float(np.sqrt(((mean - expected)[others] ** 2).mean() / (mean[at] ** 2).mean()))


_RATE = 0.3  # of the largest learning rate at which descent in the limit of infinite width is stable


def train(folder: RunFolder, p: Problem, net: FiniteNetwork) -> dict[str, np.ndarray]:
    """A stage of the run: full-batch gradient descent on all copies of the first inputs of the first draw, recorded on
    the orbits of the few inputs of every set: by set, f(ρ(g)x) − ρ(g)f(x), all g but the identity, (steps, members,
    values).
    """
    symmetry, sets, s = p.symmetries[RIGHT], few_of(p), p.settings
    x, y, _, _ = p.draw(0)
    x, y = x[: s.trained], y[: s.trained]
    K = moved_kernels(p.kernel, {"": symmetry}, x, x, p.positions)[""]
    largest = 2 * len(x) / float(np.linalg.eigvalsh((K + K.T) / 2)[-1])
    compute = partial(
        train_to_last,
        folder.checkpoints(f"{p.name}-trained"),
        net,
        x,
        y,
        record={key: moved_copies(symmetry, z) for key, z in sets.items()},
        record_at=s.steps,
        keep=partial(deviations, p, {key: len(z) for key, z in sets.items()}),
        augmentation=symmetry.inputs,
        label_action=symmetry.outputs,
        members=s.members,
        learning_rate=_RATE * largest,
        dtype="float64",
        seed=s.seed,
    )
    arrays = folder.stage(f"{p.name}-trained", f"{p.name}: {s.members} networks", compute)
    return {key: arrays[f"off_{i}"] for i, key in enumerate(sets)}


def deviations(p: Problem, sizes: Mapping[str, int], recorded: Arrays) -> Arrays:
    """`off_i` of the i-th set, from outputs of networks on orbits of so many inputs."""
    symmetry = p.symmetries[RIGHT]
    elements = len(symmetry.chosen)
    at = symmetry.chosen.index(symmetry.inputs.group.identity)
    others = [i for i in range(elements) if i != at]
    found: Arrays = {}
    for i, (key, n) in enumerate(sizes.items()):
        f = np.asarray(recorded[key], np.float64)
        f = f.reshape(*f.shape[:2], elements, n, *f.shape[3:])
        first = f[:, :, at]
        moved = moved_targets(symmetry, first.reshape(-1, *first.shape[3:]), p.positions)
        off = f - np.moveaxis(moved.reshape(elements, *first.shape), 0, 2)
        found[f"off_{i}"] = off[:, :, others].reshape(*f.shape[:2], -1)
    return found
