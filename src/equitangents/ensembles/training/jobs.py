"""From an estimator's parameters and data to a run: what is computed, how it is spread, and whether it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import Params
from equitangents.actions import as_action
from equitangents.actions.subset import ActionSubset, Augmentation, augmenting_elements
from equitangents.ensembles.inputs import check_network
from equitangents.ensembles.networks import as_network, traits
from equitangents.ensembles.training.alone import Assignment, train_alone
from equitangents.ensembles.training.augmentation import Augmented, augment
from equitangents.ensembles.training.batches import Batches
from equitangents.ensembles.training.fingerprint import job_fingerprint
from equitangents.ensembles.training.footprint import tree_bytes
from equitangents.ensembles.training.loop import Schedule
from equitangents.ensembles.training.optimizers import resolve_batch_size
from equitangents.ensembles.training.plan import (
    Plan,
    device_bytes,
    make_plan,
    on_cpu,
    worker_count,
    working_bytes,
)
from equitangents.ensembles.training.recipe import Recipe
from equitangents.ensembles.training.run import Job
from equitangents.ensembles.training.settings import check_actions, check_record, check_settings
from equitangents.ensembles.training.spread import train_spread
from equitangents.ensembles.training.trained import Trained
from equitangents.ensembles.training.variations import PLAIN, Variation, ZeroOutput
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.inference import check_memory


@dataclass(frozen=True)
class Prepared:
    """A job that was checked and fits, its plan, and what it depends on by name."""

    job: Job
    plan: Plan
    fingerprint: dict[str, str]


def prepare(estimator: Any, loss: str, x: Any, targets: np.ndarray, first: int, members: int) -> Prepared:
    """Members `first` to `first + members − 1` of an ensemble on x (N, …), targets (N, outputs) or fields.

    Checks everything before anything large is allocated. Raises InvalidArgumentError, InvalidTypeError,
    NotAnActionError, NetworkError, MemoryLimitError.
    """
    check_settings(estimator)
    augmentation = as_action("augmentation", estimator.augmentation, x.shape)
    check_actions(augmentation, estimator.label_action, x, targets)
    net = as_network(estimator.net)
    check_network(net, x)
    data = augmented(estimator, augmentation, x, targets)
    if loss == "cross_entropy":
        check_probabilities(data.y.reshape(-1, targets.shape[-1]))
    recipe = _recipe(estimator, net, loss, data, tuple(x.shape[1:]), targets)
    job = Job(recipe, data.x, data.y, first, members, int(estimator.seed), estimator.dtype, len(data.x) // len(x))
    with precision.scope(estimator.dtype):
        shapes = job.member_shapes()
        _check_outputs(job, shapes.params, targets.shape[1:])
        plan = make_plan(recipe, shapes, data.x, data.y, members, estimator.members_per_chunk)
        needed = _bytes(job, shapes, plan)
        check_room(f"training {members} members", needed, estimator.memory_limit, "train fewer, then extend")
    settings = {
        "seed": job.seed,
        "zero_output": bool(estimator.zero_output),
        "variation": repr(recipe.variation),
        "loss": loss,
        "batch size": recipe.batches.batch_size,
        "augmentation_mode": estimator.augmentation_mode if estimator.augmentation is not None else None,
    }
    return Prepared(job, plan, job_fingerprint(job, settings))


def _recipe(
    estimator: Any, net: FiniteNetwork, loss: str, data: Augmented, input_shape: tuple[int, ...], targets: np.ndarray
) -> Recipe:
    """How every member is trained: what does not differ between members."""
    batch_size = resolve_batch_size(estimator.optimizer, estimator.batch_size, data.samples)
    variation = _variation(estimator)
    variation.check(net, loss)
    shuffle = batch_size < data.samples
    batches = Batches(data.samples, batch_size, batch_size, data.copies, shuffle, variation.gathers)
    classes = targets.shape[-1] if targets.ndim > 2 else None
    kind = traits(net, input_shape, estimator.dtype)
    rate, momentum = float(estimator.learning_rate), float(estimator.momentum)
    return Recipe(net, loss, estimator.optimizer, rate, momentum, batches, variation, kind, classes)


def execute(
    prepared: Prepared,
    estimator: Any,
    inputs: Callable[[Any], np.ndarray],
    record: Mapping[str, Any] | None,
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
    rows = sum(len(x) for x in sets.values()) * job.members * job.y.shape[1]
    recorded_bytes = 2 * len(epochs) * rows * job.y.itemsize
    check_room(
        "the recorded outputs", recorded_bytes, estimator.memory_limit, "record fewer inputs, or at fewer epochs"
    )
    if resume and estimator.checkpoint_dir is None:
        raise InvalidArgumentError("resume is True, but checkpoint_dir is None; checkpoints need a directory")
    folder = None if estimator.checkpoint_dir is None else Path(estimator.checkpoint_dir)
    schedule = Schedule(estimator.epochs, epochs, estimator.callback, estimator.checkpoint_every)
    assignment = Assignment(job, plan, prepared.fingerprint, schedule, sets, folder, resume)
    if estimator.executor is not None:
        return train_spread(estimator.executor, assignment)
    return train_alone(replace(assignment, progress=estimator.progress, inputs=inputs))


def check_room(task: str, needed: int, limit: int | None, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes exceed `limit` (None: what the host or the device has to offer)."""
    if limit is None and not on_cpu():
        limit = device_bytes()
    check_memory(task, needed, limit, remedy)


def _variation(estimator: Any) -> Variation:
    if estimator.variation is None:
        return ZeroOutput() if estimator.zero_output else PLAIN
    if not isinstance(estimator.variation, Variation):
        raise InvalidTypeError(
            f"variation is {estimator.variation!r}; expected None, or Bootstrap(), NTKPosterior() or NNGPPosterior() "
            "of equitangents.ensembles"
        )
    if estimator.zero_output:
        raise InvalidArgumentError(f"zero_output is True and variation is {estimator.variation!r}; only one can be set")
    return estimator.variation


def augmented(estimator: Any, augmentation: Augmentation | None, x: Any, targets: np.ndarray) -> Augmented:
    """The data that an estimator's members are trained on; raises where the copies are too many or cannot be made."""
    if augmentation is not None:
        order = len(augmenting_elements(augmentation))
        if isinstance(augmentation, ActionSubset) and np.ptp(augmentation.weights):
            raise InvalidArgumentError(
                f"augmentation is {augmentation!r}; finite networks count every copy alike: repeat elements in place "
                f"of weights, or draw them at random, as actions.sampled(action, count) does of SO(3)"
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
            f"y has rows that are not probability vectors, the first (after augmentation) row {wrong[0]}: "
            f"{y[wrong[0]]}; loss 'cross_entropy' needs rows ≥ 0 that sum to 1"
        )


def _check_outputs(job: Job, params: Params, wanted: tuple[int, ...]) -> None:
    x = jax.ShapeDtypeStruct((1, *job.input_shape), job.dtype)
    shape = jax.eval_shape(job.recipe.net.apply, params, x).shape
    if len(wanted) > 1 and shape[1:] != wanted:
        said = "(N, " + ", ".join(map(str, shape[1:])) + ")"
        raise NetworkError(
            f"y has fields of shape {wanted}, (*positions, outputs), and the network's outputs have shape {said}; "
            "end it on these positions with as many channels"
        )
    if len(wanted) == 1 and len(shape) != 2:
        raise NetworkError(
            f"the network's outputs have shape (N, {', '.join(map(str, shape[1:]))}); expected (N, outputs): "
            f"end it with Flatten, GlobalAvgPool or GroupPool, and a Dense layer"
        )
    if len(wanted) == 1 and shape[1] != job.y.shape[1]:
        raise NetworkError(
            f"y has {job.y.shape[1]} output(s) or classes and the network's last layer makes {shape[1]}; "
            f"end the network with Dense({job.y.shape[1]})"
        )


def _bytes(job: Job, shapes: Any, plan: Plan) -> int:
    """Of data, of all members' parameters and optimiser states and a copy of them, and of what is at work."""
    params = tree_bytes(shapes.params)
    each = 2 * (params + tree_bytes(shapes.optimizer_state))
    if job.recipe.variation.has_baseline:
        each += 4 * params + job.y.nbytes
    members = -(-job.members // plan.chunk) * plan.chunk
    at_once = min(members, plan.chunk * worker_count())
    working = working_bytes(job.recipe, shapes.params, job.x, job.y, plan.rows)
    return job.x.nbytes + members * each + at_once * working
