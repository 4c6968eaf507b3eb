"""What a baseline is: any object with `fit` and `predict`; an `Entry` makes it for a `Problem`, `run` measures it."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from jaxtyping import Float, Int, Num

from equitangents import actions
from equitangents.actions import Action
from equitangents.errors import EquitangentsError, InvalidArgumentError


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


Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Cost:
    """What a baseline takes; NaN where it does not say.

    Seconds are of this process's processors, all threads together, and contain what is compiled on the first call in
    training; those of inference are for 1,000 images, after a first call.
    """

    parameters: float
    multiplications: float
    training_seconds: float
    inference_seconds: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predicted classes by set of inputs, what they cost, and the fitted baseline."""

    labels: dict[str, Int[np.ndarray, " n"]]
    cost: Cost
    fitted: Any


def run(entry: Entry, problem: Problem, x: np.ndarray, y: np.ndarray, inputs: Mapping[str, np.ndarray]) -> Outcome:
    """Fit on x (N, H, W, C) with labels y (N,), 0 to K − 1, then predict every one of `inputs`.

    Raises InvalidArgumentError, which names the baseline, for what it raises and for outputs that are no predictions.
    """
    baseline = entry.make(problem)
    begin = time.process_time()
    _asked(entry, "fit", baseline.fit, x, y)
    trained = time.process_time() - begin
    labels, seconds, count = {}, 0.0, 0
    for i, (name, rows) in enumerate(inputs.items()):
        if i == 0:
            predicted(entry, baseline, problem, rows)  # what the first call compiles is not inference
        begin = time.process_time()
        labels[name] = predicted(entry, baseline, problem, rows)
        seconds, count = seconds + time.process_time() - begin, count + len(rows)
    parameters, multiplications = _amount(baseline, "parameters"), _amount(baseline, "multiplications")
    cost = Cost(parameters, multiplications, trained, 1000 * seconds / max(count, 1))
    return Outcome(labels, cost, baseline)


def predicted(entry: Entry, baseline: Baseline, problem: Problem, x: np.ndarray) -> Int[np.ndarray, " n"]:
    """The class of every image, from scores (N, K) or labels (N,).

    Raises InvalidArgumentError for other shapes, NaN, and labels that are no classes.
    """
    output = _asked(entry, "predict", baseline.predict, x)
    found = checked(f"baseline {entry.name!r}", output, len(x), problem.classes)
    return found.argmax(axis=1).astype(np.int32) if found.ndim == 2 else found.astype(np.int32)


def checked(said: str, output: Any, n: int, K: int) -> Num[np.ndarray, "n ..."]:
    """What `predict` gave for n images: scores (n, K), or labels (n,) from 0 to K − 1.

    Raises InvalidArgumentError, which begins with `said`, for anything else.
    """
    try:
        found = np.asarray(output)
    except Exception as error:
        raise InvalidArgumentError(f"{said}: predict gave no array: {error}") from error
    wrong = f"{said}: predict gave shape {found.shape} and dtype {found.dtype} for {n} images of {K} "
    if found.shape not in ((n,), (n, K)) or found.dtype.kind not in "biuf":
        raise InvalidArgumentError(wrong + f"classes; expected scores ({n}, {K}) or labels ({n},)")
    if not np.isfinite(found).all():
        rows = np.flatnonzero(~np.isfinite(found.reshape(n, -1)).all(axis=1))
        raise InvalidArgumentError(f"{said}: predict gave NaN or infinite numbers for {len(rows)} of {n} images")
    if found.ndim == 1 and ((found != found.astype(np.int32)) | (found < 0) | (found >= K)).any():
        raise InvalidArgumentError(
            f"{said}: predict gave labels from {found.min():g} to {found.max():g}; expected whole "
            f"numbers from 0 to {K - 1}, or scores ({n}, {K})"
        )
    return found


def _amount(baseline: Baseline, what: str) -> float:
    """A number that the baseline says of itself, or how many numbers its tensors hold; else NaN."""
    value = getattr(baseline, what, None)
    value = value() if callable(value) else value
    if isinstance(value, Iterable) and not isinstance(value, str | np.ndarray):
        parts = list(value)
        return float(sum(part.numel() for part in parts)) if all(hasattr(part, "numel") for part in parts) else math.nan
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        return math.nan


def _asked(entry: Entry, method: str, call: Callable[..., Answer], *arguments: np.ndarray) -> Answer:
    try:
        return call(*arguments)
    except EquitangentsError:
        raise
    except Exception as error:
        shapes = ", ".join(str(np.shape(a)) for a in arguments)
        raise InvalidArgumentError(
            f"baseline {entry.name!r}: {method} raised {type(error).__name__} for arrays of shape {shapes}: {error}"
        ) from error
