"""A task whose symmetry moves inputs and targets: what networks learn from, and how predictions are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from equitangents.extending import FiniteNetwork
from equitangents_studies.common.moving_outputs.kernels import PairKernel, Symmetry

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
