"""Parameters of ensembles of finite networks, checked before anything is computed; training data; digests.

Training data are all pairs (ρ_X(g) x_i, ρ_Y(g) y_i):

full    the data set is replaced by all N|G| pairs, g running slowest
random  every epoch visits each sample once, moved by a random element: copy g of sample i is row g·N + i
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import ArrayLike
from equitangents.actions.action import GroupAction, is_infinite
from equitangents.actions.subset import Augmentation, augmenting_elements, whole_action
from equitangents.ensembles.fields import moved_targets
from equitangents.ensembles.training.recipe import LOSSES
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.inference import augment_inputs
from equitangents.inference.augmented import augment_targets
from equitangents.progress import told_by
from equitangents.validation import check_choice, check_number, check_whole

OPTIMIZERS = ("gd", "sgd", "momentum", "adam")
_BATCH_SIZE = 32  # by default
_VERIFIED_SAMPLES = 4


def resolve_batch_size(optimizer: object, batch_size: int | None, samples: int) -> int:
    """Samples a step: all of them for "gd"; else `batch_size`, or 32 if None, at most all."""
    if optimizer != "gd":
        return min(_BATCH_SIZE if batch_size is None else int(batch_size), samples)
    if batch_size is not None:
        expected = "None with optimizer 'gd', which is full-batch gradient descent"
        raise InvalidArgumentError("batch_size", batch_size, expected, "or take optimizer 'sgd'")
    return samples


def check_settings(estimator: Any) -> None:
    """Raise InvalidArgumentError or InvalidTypeError for parameters that ensembles of every backend have."""
    p = estimator
    check_whole("members", p.members, 1)
    check_whole("epochs", p.epochs, 0)
    check_whole("seed", p.seed, 0, 2**32 - 1)
    check_whole("checkpoint_every", p.checkpoint_every, 1)
    for name in ("batch_size", "members_per_chunk", "memory_limit"):
        if getattr(p, name) is not None:
            check_whole(name, getattr(p, name), 1)
    check_choice("loss", p.loss, (None, *LOSSES))
    check_choice("dtype", p.dtype, ("float32", "float64"))
    check_choice("augmentation_mode", p.augmentation_mode, ("full", "random"))
    check_number("learning_rate", p.learning_rate, "a finite number above 0", lambda v: v > 0)
    check_number("momentum", p.momentum, "a number from 0 to below 1", lambda v: 0 <= v < 1)
    told_by(p.progress)


def check_actions(
    augmentation: Augmentation | None, label_action: GroupAction | None, x: ArrayLike, y: ArrayLike
) -> None:
    """Raise unless the two are actions of one group; NotAnActionError if they are not actions on the first samples.

    augmentation: an action, some of its elements (`ActionSubset`), or None.
    """
    if augmentation is None:
        if label_action is not None:
            raise InvalidArgumentError("label_action is given without augmentation; it moves labels along with inputs")
        return
    if is_infinite(augmentation):
        expected = "a finite group, such as actions.rotations(groups.icosahedral())"
        remedy = "or take elements that stand for all: actions.sampled(augmentation, count)"
        raise InvalidTypeError("augmentation", augmentation.group, expected, remedy, verb="is of")
    whole = whole_action(augmentation)
    for name, action, values in (("augmentation", whole, x), ("label_action", label_action, y)):
        if action is None:
            continue
        if not callable(action) or not hasattr(action, "group"):
            raise InvalidTypeError(name, action, "an action (equitangents.actions) or None")
        if action.group != whole.group:
            remedy = "the group of augmentation"
            raise InvalidArgumentError("label_action", action.group, whole.group, remedy, verb="is of")
        try:
            action.verify(values[:_VERIFIED_SAMPLES])
        except ShapeError as error:
            if name == "label_action":
                raise
            message = str(error).replace(str(np.shape(values[:_VERIFIED_SAMPLES])), str(np.shape(values)))
            raise ShapeError(f"augmentation by {action.name}: {message}{remedy('X', np.shape(values))}") from None


def check_probabilities(y: np.ndarray) -> None:
    """Raise unless the rows of y are probabilities."""
    wrong = np.flatnonzero((y < 0).any(axis=1) | (abs(y.sum(axis=1) - 1) > 1e-5))
    if len(wrong):
        expected = "rows ≥ 0 that sum to 1, also after augmentation, for loss 'cross_entropy'"
        raise InvalidArgumentError("y", y[wrong[0]].tolist(), expected, at=int(wrong[0]))


def check_record(record: object, record_at: object, epochs: int) -> tuple[dict[str, Any], tuple[int, ...]]:
    """(`record` as a dictionary, `record_at` sorted; None: every epoch from 0 on)."""
    if record is None:
        if record_at is not None:
            raise InvalidArgumentError("record_at is given without record, the inputs whose outputs are kept")
        return {}, ()
    if not isinstance(record, Mapping) or not all(isinstance(name, str) for name in record):
        raise InvalidTypeError("record", type(record), "a dictionary of names and inputs X", verb="is of type")
    if record_at is None:
        return dict(record), tuple(range(epochs + 1))
    if not isinstance(record_at, Iterable):
        raise InvalidTypeError("record_at", record_at, "a list of epochs")
    for epoch in record_at:
        check_whole("an epoch of record_at", epoch, 0, epochs)
    return dict(record), tuple(sorted({int(epoch) for epoch in record_at}))


@dataclass(frozen=True)
class Augmented:
    """Data x (rows, …), y (rows, outputs); an epoch visits `samples`, each drawn from `copies` rows.

    targets (N, outputs), or fields: those of the N samples before augmentation.
    """

    x: np.ndarray
    y: np.ndarray
    samples: int
    copies: int
    targets: np.ndarray


def augment(
    action: Augmentation | None, label_action: GroupAction | None, mode: str, x: ArrayLike, y: np.ndarray, dtype: str
) -> Augmented:
    """The data that are trained on, in `dtype`; `action` None leaves them as they are.

    Targets may be fields, (N, *positions, outputs), which go with their positions, and end in one row each. The copies
    are made once, before training; images that are resampled cost no more later than exact ones.
    """
    if action is None:
        return Augmented(np.asarray(x, dtype), np.asarray(y.reshape(len(y), -1), dtype), len(x), 1, y)
    elements = augmenting_elements(action)
    moved = np.asarray(augment_inputs(action, x), dtype)
    if y.ndim > 2:
        targets = np.asarray(moved_targets(action, label_action, y).reshape(len(moved), -1), dtype)
    else:
        targets = np.asarray(augment_targets(label_action, y, elements), dtype)
    if mode == "full":
        return Augmented(moved, targets, len(moved), 1, y)
    return Augmented(moved, targets, len(x), len(elements), y)


def array_digest(*arrays: ArrayLike) -> str:
    """A digest of shapes, types and values."""
    digest = hashlib.sha256()
    for array in arrays:
        a = np.ascontiguousarray(array)
        digest.update(f"{a.shape}{a.dtype}".encode())
        digest.update(a.tobytes())
    return digest.hexdigest()[:16]


def record_fingerprint(recorded: dict[str, np.ndarray]) -> dict[str, str]:
    """The inputs whose outputs are recorded, by name."""
    return {"record": json.dumps({name: array_digest(x) for name, x in sorted(recorded.items())})}


def check_same(fingerprint: dict[str, str], other: dict[str, str], what: str) -> None:
    """Raise InvalidArgumentError, naming what differs, unless the two fingerprints are equal."""
    differing = [name for name in fingerprint if fingerprint[name] != other.get(name)]
    if differing:
        changes = "; ".join(f"{name}: {other.get(name, 'absent')} there, {fingerprint[name]} now" for name in differing)
        raise InvalidArgumentError(f"{what} is of another run, differing in {changes}")
