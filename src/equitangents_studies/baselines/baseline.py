"""Baselines: objects with `fit` and `predict`; an `Entry` makes one for a `BaselineProblem`, `run` measures it."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int, Num

from equitangents import actions
from equitangents.actions import Action
from equitangents.errors import InvalidArgumentError


@dataclass(frozen=True)
class BaselineProblem:
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
        """The group's action on images."""
        action: Action = actions.as_action("group", self.group, (1, *self.shape))
        return action


class Baseline(Protocol):
    """A classifier of images. It may have `parameters`, and `multiplications` of one prediction: numbers or None."""

    def fit(self, x: Float[np.ndarray, "n height width channels"], y: Int[np.ndarray, " n"]) -> object:
        """Learn from images, each of mean 0 and standard deviation 1, and labels from 0 to K − 1."""

    def predict(self, x: Float[np.ndarray, "n height width channels"]) -> Num[np.ndarray, "n ..."]:
        """Scores (N, K), the largest of which decides, or labels (N,)."""


Factory = Callable[..., Baseline]
"""Makes a baseline: a class or function without arguments, or with the `BaselineProblem`."""


@dataclass(frozen=True)
class Entry:
    """A baseline's name, title in tables, factory, and why it is unavailable for a problem ("": it is available)."""

    name: str
    title: str
    factory: Factory
    unavailable: Callable[[BaselineProblem], str] = lambda problem: ""

    def make(self, problem: BaselineProblem) -> Baseline:
        """A new, unfitted baseline; its factory gets the problem if it has a parameter without default.

        Raises InvalidArgumentError if the object cannot fit or predict.
        """
        try:
            parameters = [*inspect.signature(self.factory).parameters.values()]
        except ValueError:  # of a builtin type
            parameters = []
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        takes_problem = any(p.default is p.empty and p.kind in positional for p in parameters)
        made = self.factory(problem) if takes_problem else self.factory()
        for method in ("fit", "predict"):
            if not callable(getattr(made, method, None)):
                raise InvalidArgumentError("baseline", made, "fit(x, y) and predict(x)", self.name)
        return made


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predicted classes by set of inputs, the fitted baseline, and its costs; NaN if unknown.

    Seconds are processor seconds of this process, over all threads. Training includes compilation; inference is for
    1,000 images, after a first call.
    """

    labels: dict[str, Int[np.ndarray, " n"]]
    fitted: Any
    parameters: float
    multiplications: float
    training_seconds: float
    inference_seconds: float


def run(
    entry: Entry, problem: BaselineProblem, x: np.ndarray, y: np.ndarray, inputs: Mapping[str, np.ndarray]
) -> Outcome:
    """Fit on x (N, H, W, C) with labels y (N,), 0 to K − 1, then predict every one of `inputs`.

    Raises InvalidArgumentError, which names the baseline, for outputs that are no predictions.
    """
    baseline = entry.make(problem)
    begin = time.process_time()
    baseline.fit(x, y)
    trained = time.process_time() - begin
    labels, seconds, count = {}, 0.0, 0
    for i, (name, rows) in enumerate(inputs.items()):
        if i == 0:
            predicted(entry, baseline, problem, rows)  # what the first call compiles is not inference
        begin = time.process_time()
        labels[name] = predicted(entry, baseline, problem, rows)
        seconds, count = seconds + time.process_time() - begin, count + len(rows)
    parameters, multiplications = _amount(baseline, "parameters"), _amount(baseline, "multiplications")
    return Outcome(labels, baseline, parameters, multiplications, trained, 1000 * seconds / max(count, 1))


def predicted(entry: Entry, baseline: Baseline, problem: BaselineProblem, x: np.ndarray) -> Int[np.ndarray, " n"]:
    """The class of every image, from scores (N, K) or labels (N,).

    Raises InvalidArgumentError for other shapes, NaN, and labels that are no classes.
    """
    found = checked(f"baseline {entry.name!r}", baseline.predict(x), len(x), problem.classes)
    return found.argmax(axis=1).astype(np.int32) if found.ndim == 2 else found.astype(np.int32)


def checked(name: str, output: Any, n: int, K: int) -> Num[np.ndarray, "n ..."]:
    """Check the output of `predict` for n images: scores (n, K), or labels (n,) from 0 to K − 1.

    Raises InvalidArgumentError about the baseline `name` for anything else.
    """
    wrong = partial(InvalidArgumentError, name, expected=f"scores ({n}, {K}), or whole labels ({n},) from 0 to {K - 1}")
    found = np.asarray(output)
    if found.shape not in ((n,), (n, K)) or found.dtype.kind not in "biuf":
        raise wrong((found.shape, str(found.dtype)), verb="predicts")
    if not np.isfinite(found).all():
        raise wrong("NaN or infinite numbers", verb="predicts")
    if found.ndim == 1 and ((found != found.astype(np.int32)) | (found < 0) | (found >= K)).any():
        raise wrong((float(found.min()), float(found.max())), verb="predicts labels from, to")
    return found


def _amount(baseline: Baseline, what: str) -> float:
    """The baseline's attribute `what`, a number, or the number of entries of its tensors; else NaN."""
    value = getattr(baseline, what, None)
    value = value() if callable(value) else value
    if isinstance(value, Iterator):
        return float(sum(part.numel() for part in value))
    return math.nan if value is None else float(value)
