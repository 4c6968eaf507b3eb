"""What is measured of outputs that move: scores on growing training sets, and equivariance over training time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from equitangents.statistics import Estimate, bootstrap, t_interval
from equitangents_studies.common.moving_outputs.growing_sets import inputs_saved, scores_of_a_draw
from equitangents_studies.common.moving_outputs.problem import PLAIN, Problem
from equitangents_studies.common.moving_outputs.trained import MODELS, Trained, over_time, train
from equitangents_studies.framework.study import RunFolder, Stage, check


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
