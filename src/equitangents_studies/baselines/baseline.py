"""What a baseline is: any object with `fit` and `predict`; an `Entry` makes it for a `Problem`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int, Num

from equitangents import actions
from equitangents.actions import Action
from equitangents.errors import InvalidArgumentError


@dataclass(frozen=True)
class Problem:
    """Classification of images (N, H, W, C) whose class no element of `group` changes.

    Args:
        group: its name, such as "C4", "C8" or "D4".
        shape: (H, W, C) of an image.
        classes: how many; labels are 0 to classes − 1.
        seed: of everything that is random.
        channels: of the layers of the plain convolutional network; other networks are as wide as gives them about
            as many parameters.
        members: of an ensemble.
        group_members: of an ensemble of group-convolutional networks.
        epochs: how often every training image is seen.
        batch: images a step.
        learning_rate: of Adam, for weights of unit variance.
        kernel_images: how many training images kernel machines use, the first ones; their cost grows as the cube.
    """

    group: str
    shape: tuple[int, int, int]
    classes: int
    seed: int = 0
    channels: tuple[int, ...] = (12, 16)
    members: int = 10
    group_members: int = 3
    epochs: int = 10
    batch: int = 32
    learning_rate: float = 0.01
    kernel_images: int = 1000

    @cached_property
    def action(self) -> Action:
        """How the group moves images."""
        action: Action = actions.as_action("group", self.group, (1, *self.shape))
        return action


class Baseline(Protocol):
    """A classifier of images. It may have `parameters`, and `multiplications` of one prediction: numbers or None."""

    def fit(self, x: Float[np.ndarray, "n height width channels"], y: Int[np.ndarray, " n"]) -> object:
        """Learn from images, each of mean 0 and standard deviation 1, and labels from 0 to K − 1."""

    def predict(self, x: Float[np.ndarray, "n height width channels"]) -> Num[np.ndarray, "n ..."]:
        """Scores (N, K), the largest of which decides, or labels (N,)."""


class CountedBaseline(Baseline, Protocol):
    """A baseline that says what it costs."""

    @property
    def parameters(self) -> int:
        """How many numbers are learnt."""

    @property
    def multiplications(self) -> int:
        """How many multiplications one prediction takes."""


Factory = Callable[..., Baseline]
"""What makes a baseline: a class or function of nothing, or of the `Problem`."""


@dataclass(frozen=True)
class Entry:
    """A baseline's name, what tables call it, how it is made, and why it cannot be where it cannot."""

    name: str
    title: str
    factory: Factory
    unavailable: Callable[[Problem], str] = lambda problem: ""

    def make(self, problem: Problem) -> Baseline:
        """A new baseline, not fitted. Raises InvalidArgumentError where it cannot be made, fit or predict."""
        try:
            made = _made(self.factory, problem)
        except Exception as error:
            raise InvalidArgumentError(
                f"baseline {self.name!r} could not be made: {type(error).__name__}: {error}"
            ) from error
        for method in ("fit", "predict"):
            if not callable(getattr(made, method, None)):
                raise InvalidArgumentError("baseline", made, "fit(x, y) and predict(x)", self.name)
        return made


def _made(factory: Factory, problem: Problem) -> Baseline:
    """Of the `Problem` where a parameter has no default."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # of a builtin type
        return factory()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return factory(problem) if any(p.default is p.empty and p.kind in positional for p in parameters) else factory()
