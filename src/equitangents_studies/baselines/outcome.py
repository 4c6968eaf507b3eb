"""One baseline on one problem: it is fitted, asked, checked and measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int, Num

from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents_studies.baselines.baseline import Baseline, Entry, Problem

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
