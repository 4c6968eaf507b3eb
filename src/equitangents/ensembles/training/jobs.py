"""From an estimator's parameters and data to a run: what every backend is asked for, and what is done by all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from equitangents._types import AnyModel, InputShape, Numbers, Targets, Tree
from equitangents.actions import as_action
from equitangents.actions.kinds import ActionLike
from equitangents.actions.subset import ActionSubset, Augmentation, augmenting_elements
from equitangents.ensembles.fields.targets import Positions
from equitangents.ensembles.training.batches import Augmented, augment
from equitangents.ensembles.training.plan import Plan, device_bytes, on_cpu
from equitangents.ensembles.training.run import Assignment, Job, Trained, train_alone, train_in_parts
from equitangents.ensembles.training.settings import HasSettings, check_actions, check_record
from equitangents.ensembles.training.variations import PLAIN, Variation, ZeroOutput
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.memory import check_memory
from equitangents.nn import Admissible

Ensemble = Any  # of finite networks, with parameters that its backend reads, and attributes once it is fitted


@dataclass(frozen=True)
class Task:
    """Members `first` to `first + members − 1` that are to be trained on augmented `data` by a loss.

    `targets` (N, outputs), or fields, are those of the N samples of `input_shape` before augmentation.
    """

    loss: str
    data: Augmented
    targets: np.ndarray
    input_shape: InputShape
    first: int
    members: int

    @property
    def copies(self) -> int:
        """How many transformed copies of each sample the data hold, running slowest."""
        return len(self.data.x) // len(self.targets)


@dataclass(frozen=True)
class Prepared:
    """A job that was checked and fits, its plan, and what it depends on by name.

    `facts` are what the fitted estimator says of it, by attribute.
    """

    job: Job
    plan: Plan
    fingerprint: dict[str, str]
    variation: Variation
    facts: dict[str, object] = field(default_factory=dict)


class Backend(Protocol):
    """A library that trains and evaluates members: JAX here (`backend`), PyTorch in `equitangents.torch.backend`.

    Methods take the estimator, whose parameters they read, and, once it is fitted, its attributes.
    """

    def check_settings(self, estimator: Ensemble) -> None:
        """Raise for parameters that cannot be; before data are looked at."""

    def check_inputs(self, estimator: Ensemble, x: np.ndarray) -> None:
        """Raise for a network that does not take such inputs, where that can be said before data are augmented."""

    def prepared(self, estimator: Ensemble, task: Task) -> Prepared:
        """A job for the task, all checked; nothing is trained."""

    def outputs(self, estimator: Ensemble, x: np.ndarray) -> Iterator[np.ndarray]:
        """Outputs of all members, (members, some rows, outputs), for one block of rows after another."""

    def member(self, estimator: Ensemble, i: int) -> AnyModel:
        """One member as its library has it."""

    def ends_on(self, estimator: Ensemble, x: np.ndarray, y: Targets) -> Positions | None:
        """The positions that networks end on, for targets that are fields; None for others."""

    def variables(self, estimator: Ensemble) -> Tree:
        """A tree of the form that a member's variables have."""

    def is_admissible(self, estimator: Ensemble, action: ActionLike, shape: InputShape, members: int) -> Admissible:
        """Whether an action preserves the initial law of the members (`nn.is_admissible`)."""


def prepare(
    backend: Backend, estimator: HasSettings, loss: str, x: np.ndarray, targets: np.ndarray, first: int, members: int
) -> Prepared:
    """Members `first` to `first + members − 1` of an ensemble on x (N, …), targets (N, outputs) or fields.

    Checks everything before anything large is allocated. Raises InvalidArgumentError, InvalidTypeError,
    NotAnActionError, NetworkError, MemoryLimitError.
    """
    backend.check_settings(estimator)
    augmentation = as_action("augmentation", estimator.augmentation, x.shape)
    check_actions(augmentation, estimator.label_action, x, targets)
    backend.check_inputs(estimator, x)
    data = augmented(estimator, augmentation, x, targets)
    if loss == "cross_entropy":
        check_probabilities(data.y.reshape(-1, targets.shape[-1]))
    return backend.prepared(estimator, Task(loss, data, targets, tuple(x.shape[1:]), first, members))


def execute(
    prepared: Prepared,
    estimator: HasSettings,
    inputs: Callable[[Numbers], np.ndarray],
    record: Mapping[str, Numbers] | None,
    record_at: Sequence[int] | None,
    resume: bool,
) -> Trained:
    """Train the prepared members to the end, from a checkpoint if there is one and `resume` is True.

    By this process, or by the estimator's executor.

    `inputs` turns what users give as X into the array that networks take.
    """
    job, plan = prepared.job, prepared.plan
    sets, epochs = check_record(record, record_at, estimator.epochs)
    sets = {name: inputs(x) for name, x in sets.items()}
    rows = sum(len(x) for x in sets.values()) * job.members * job.numbers
    recorded_bytes = 2 * len(epochs) * rows * np.dtype(job.dtype).itemsize
    check_room(
        "the recorded outputs", recorded_bytes, estimator.memory_limit, "record fewer inputs, or at fewer epochs"
    )
    if resume and estimator.checkpoint_dir is None:
        raise InvalidArgumentError("resume is True, but checkpoint_dir is None; checkpoints need a directory")
    folder = None if estimator.checkpoint_dir is None else Path(estimator.checkpoint_dir)
    assignment = Assignment(
        job,
        plan,
        prepared.fingerprint,
        estimator.epochs,
        sets,
        epochs,
        estimator.callback,
        folder,
        resume,
        estimator.checkpoint_every,
        estimator.progress,
    )
    if estimator.executor is not None:
        return train_in_parts(assignment, estimator.executor)
    assignment = replace(assignment, inputs=inputs)
    if job.in_pieces and estimator.callback is None:  # which sees all members after every epoch
        return train_in_parts(assignment)
    return train_alone(assignment)


def check_room(task: str, needed: int, limit: int | None, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes exceed `limit` (None: what the host or the device has to offer)."""
    if limit is None and not on_cpu():
        limit = device_bytes()
    check_memory(task, needed, limit, remedy)


def variation_of(estimator: HasSettings) -> Variation:
    """What sets an estimator's members apart; raises where that is not one variation."""
    if estimator.variation is None:
        return ZeroOutput() if estimator.zero_output else PLAIN
    if not isinstance(estimator.variation, Variation):
        raise InvalidTypeError(
            "variation",
            estimator.variation,
            "None, or Bootstrap(), NTKPosterior() or NNGPPosterior() of equitangents.ensembles",
        )
    if estimator.zero_output:
        raise InvalidArgumentError("zero_output", True, "False with a variation; only one can be set")
    return estimator.variation


def augmented(
    estimator: HasSettings, augmentation: Augmentation | None, x: np.ndarray, targets: np.ndarray
) -> Augmented:
    """The data that an estimator's members are trained on; raises where the copies are too many or cannot be made."""
    if augmentation is not None:
        order = len(augmenting_elements(augmentation))
        if isinstance(augmentation, ActionSubset) and np.ptp(augmentation.weights):
            raise InvalidArgumentError(
                "augmentation",
                augmentation,
                remedy="finite networks count every copy alike: repeat elements in place of weights, or draw them "
                "at random, as actions.sampled(action, count) does of SO(3)",
            )
        needed = 2 * order * (np.asarray(x).nbytes + targets.nbytes)
        task = f"the {order} transformed copies of {len(x)} samples"
        check_room(task, needed, estimator.memory_limit, "take fewer samples or a subgroup")
    return augment(augmentation, estimator.label_action, estimator.augmentation_mode, x, targets, estimator.dtype)


def check_probabilities(y: np.ndarray) -> None:
    """Raise unless the rows of y are probabilities."""
    wrong = np.flatnonzero((y < 0).any(axis=1) | (abs(y.sum(axis=1) - 1) > 1e-5))
    if len(wrong):
        raise InvalidArgumentError(
            "y",
            y[wrong[0]].tolist(),
            "rows ≥ 0 that sum to 1, also after augmentation, for loss 'cross_entropy'",
            at=int(wrong[0]),
        )
