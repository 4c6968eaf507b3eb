"""Finite networks trained on all moved copies: how far single ones, and their mean, are from moving as they should.

Training on all moved copies, and the equivariant kernel without them, at every time: on the data and off them.

μ_t = B Θ⁻¹ (1 − e^{−Θt/N}) Y by the eigenvalues of Θ. Augmentation is explicit: N|G| inputs and targets, the network's
own kernel, no shortcut that rests on a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, bootstrap, second_moment_share, t_interval
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, check
from equitangents_studies.moving_outputs.kernels import (
    PLAIN,
    RIGHT,
    Problem,
    Symmetry,
    Training,
    as_columns,
    few_of,
    inputs_saved,
    moved_copies,
    moved_kernels,
    moved_targets,
    scores_of_a_draw,
)

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
    x, y = sets["training"], p.draw(0)[1][: p.few].reshape(p.few, *shape, -1)[..., 0]
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
            found = np.stack([B @ (grown(values, rates, t)[:, None] * projected) for t in p.units])
            means[name][key] = found.reshape(len(p.units), len(symmetry.chosen), len(z), *shape)
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


_SCORED = "scored"


@dataclass(frozen=True, eq=False)
class Trained:
    """`off[set]` (steps, members, values) is f(ρ(g)x) − ρ(g)f(x), all g but the identity; `outputs[set]` are f(x).

    `scores` are those of the members' mean on test inputs after the last step.
    """

    training: Training
    off: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    scores: Mapping[str, float]

    def share(self, name: str, step: int, level: float = 0.95) -> Estimate:
        """(E off)² / E off² over networks: what is left of the squared error of single ones in infinitely many."""
        off = self.off[name][step]
        return second_moment_share(off, off, confidence=level)

    def errors(self, name: str, step: int) -> tuple[float, float]:
        """Root mean square of `off` relative to that of single networks' outputs: of these, and of the mean of all."""
        off, f = self.off[name][step], self.outputs[name][step]
        of = lambda a: math.sqrt((a**2).mean() / (f**2).mean())
        return of(off), of(off.mean(axis=0))


def train(folder: RunFolder, p: Problem, t: Training) -> Trained:
    """A stage of the run: training on the first inputs of the first draw, recorded on the orbits of the few inputs of
    every set and on test inputs.
    """
    symmetry, sets = p.symmetries[RIGHT], few_of(p)
    x, y, test, target = p.draw(0)
    x, y = x[: t.inputs], y[: t.inputs]
    K = moved_kernels(p.kernel, {"": symmetry}, x, x, p.positions)[""]
    largest = 2 * len(x) / float(np.linalg.eigvalsh((K + K.T) / 2)[-1])
    record = {key: moved_copies(symmetry, z) for key, z in sets.items()}
    compute = partial(
        train_to_last,
        folder.checkpoints(f"{p.name}-trained"),
        t.net,
        x,
        y,
        record={**record, _SCORED: test},
        record_at=t.steps,
        keep=partial(_kept, p, {key: len(z) for key, z in sets.items()}, target),
        augmentation=symmetry.inputs,
        label_action=symmetry.outputs,
        members=t.members,
        learning_rate=t.rate * largest,
        dtype="float64",
        seed=t.seed,
    )
    arrays = folder.stage(f"{p.name}-trained", f"{p.name}: {t.members} networks", compute)
    return Trained(
        t,
        {key: arrays[f"off_{i}"] for i, key in enumerate(sets)},
        {key: arrays[f"outputs_{i}"] for i, key in enumerate(sets)},
        {score: float(arrays[f"score_{score}"]) for score in p.scores},
    )


def _kept(p: Problem, sizes: Mapping[str, int], target: np.ndarray, recorded: Arrays) -> Arrays:
    """Deviations and outputs of every set, and scores of the mean."""
    symmetry = p.symmetries[RIGHT]
    elements = len(symmetry.chosen)
    at = symmetry.chosen.index(symmetry.inputs.group.identity)
    others = [i for i in range(elements) if i != at]
    found: Arrays = {}
    for i, (key, n) in enumerate(sizes.items()):
        f = np.asarray(recorded[key], np.float64)
        f = f.reshape(*f.shape[:2], elements, n, *f.shape[3:])
        first = f[:, :, at]
        flat = first.reshape(-1, *first.shape[3:])
        moved = moved_targets(symmetry, flat, p.positions).reshape(elements, *first.shape)
        off = f - np.moveaxis(moved, 0, 2)
        found[f"off_{i}"] = off[:, :, others].reshape(*f.shape[:2], -1)
        found[f"outputs_{i}"] = first.reshape(*f.shape[:2], -1)
    mean = np.asarray(recorded[_SCORED][-1], np.float64).mean(axis=0).reshape(target.shape)
    return found | {f"score_{name}": np.array(score.of(mean, target)) for name, score in p.scores.items()}


@dataclass(frozen=True, eq=False)
class Learning:
    """`scores[score][symmetry]` (draws, sizes), none above `most[score]`; `errors[model]` and `apart` (sets, times), as
    `over_time` has them.

    `augmented` (draws, sizes) are relative differences of predictions after training on all moved copies, at
    the sizes where `explicit` is true. `shown[symmetry]` (sizes, inputs, …) are predictions of the first draw.
    """

    sizes: tuple[int, ...]
    titles: Mapping[str, str]
    units: tuple[float, ...]
    scores: Mapping[str, Mapping[str, np.ndarray]]
    most: Mapping[str, float]
    explicit: np.ndarray
    augmented: np.ndarray
    shown: Mapping[str, np.ndarray]
    errors: Mapping[str, np.ndarray]
    apart: np.ndarray
    trained: Trained | None = None

    def mean(self, score: str, symmetry: str, size: int) -> Estimate:
        """A score's mean over draws at the given place in the sizes."""
        return t_interval(self.scores[score][symmetry][:, size], bounds=(0, self.most[score]))

    def excess(self, symmetry: str, level: float = 0.95) -> Estimate:
        """Mean squared error over that of the plain kernel, with the largest training set; interval over draws."""
        squared = self.scores["squared"]
        pairs = np.stack([squared[symmetry][:, -1], squared[PLAIN][:, -1]], axis=1)
        found = bootstrap(pairs, lambda means: np.log(means[:, 0] / means[:, 1]), confidence=level)
        return Estimate(math.exp(found.value), math.exp(found.low), math.exp(found.high), level)

    def saved(self, symmetry: str, level: float = 0.95) -> Estimate:
        """How many times as many inputs the plain kernel needs for the same squared error."""
        squared = self.scores["squared"]
        return inputs_saved(self.sizes, squared[PLAIN], squared[symmetry], level)


def measure_learning(p: Problem, folder: RunFolder) -> Learning:
    """A stage for every draw, and one for training time."""
    work: dict[int | str, Stage] = {
        k: Stage(f"{p.name}-{k}", f"{p.name}: draw {k + 1} of {p.draws}", partial(scores_of_a_draw, p, k))
        for k in range(p.draws)
    }
    title = f"{p.name}: equivariance over training time"
    work["times"] = Stage(f"{p.name}-times", title, lambda task: over_time(p))
    found = folder.stages(work)
    draws, time = [found[k] for k in range(p.draws)], found["times"]
    return Learning(
        sizes=p.sizes,
        titles={name: s.title for name, s in p.symmetries.items()},
        units=p.units,
        scores={
            score: {name: np.stack([d[f"{score}_{name}"] for d in draws]) for name in p.symmetries}
            for score in p.scores
        },
        most={name: score.most for name, score in p.scores.items()},
        explicit=draws[0]["explicit"],
        augmented=np.stack([d["apart"] for d in draws]),
        shown={name: draws[0][f"shown_{name}"] for name in p.symmetries},
        errors={model: time[f"error_{model}"] for model in MODELS},
        apart=time["apart"],
        trained=None if p.training is None else train(folder, p, p.training),
    )


def check_sizes(name: str, sizes: Sequence[int]) -> None:
    """Two or more training sizes that increase."""
    check(list(sizes) == sorted(set(sizes)) and len(sizes) >= 2, name, tuple(sizes), "two or more, increasing")
    check(min(sizes) >= 1, name, tuple(sizes), "at least 1 each")


def check_asked(s: Any, sizes: Sequence[int], noun: str) -> None:
    """What settings of such a study ask for beside their own: a ridge, times, and inputs that a draw has.

    `sizes` are those of the largest training sets of each task, `noun` what inputs are called.
    """
    check(s.ridge > 0, "ridge", s.ridge, "positive")
    least = min(*sizes, s.test)
    check(s.few <= least, "few", s.few, f"at most {least}, {noun} of a draw")
    check_training(s.members, s.trained, s.sizes[-1], s.steps)
    check(len(s.units) >= 1 and min(s.units) > 0, "units", s.units, "positive times")


def check_training(members: int, inputs: int, most: int, steps: Sequence[int]) -> None:
    """Networks enough for an interval, on inputs that a draw has, at steps that increase."""
    check(members >= 5, "members", members, "at least 5")
    check(1 <= inputs <= most, "trained", inputs, f"between 1 and {most}, the largest training set")
    check(list(steps) == sorted(set(steps)) and len(steps) >= 1, "steps", tuple(steps), "one or more, increasing")
    check(min(steps, default=0) >= 0, "steps", tuple(steps), "at least 0 each")


def every_time(units: Sequence[float]) -> str:
    """Times as a sentence has them."""
    return ", ".join("∞" if np.isinf(t) else f"{t:g}" for t in units)
