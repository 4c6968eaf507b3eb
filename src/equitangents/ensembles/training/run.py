"""A training run: its data, and chunks of members trained epoch by epoch together, with recorded outputs.

Training data are all pairs (ρ_X(g) x_i, ρ_Y(g) y_i):

full    the data set is replaced by all N|G| pairs; g is the slowest index
random  every epoch visits each sample once, transformed by a random element: copy g of sample i is row g·N + i

A `Job` defines how members are trained: `network_job` by JAX, `equitangents.torch.job` by PyTorch. A run continues
from its last checkpoint, if there is one.
"""

from __future__ import annotations

import abc
import hashlib
import json
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import numpy as np

from equitangents._types import ArrayLike, Params, Tree
from equitangents.actions.action import GroupAction
from equitangents.actions.subset import Augmentation, augmenting_elements
from equitangents.ensembles.fields import moved_targets
from equitangents.ensembles.training.checkpoints import CheckpointStore, Snapshot, check_unused, run_directory
from equitangents.ensembles.training.recipe import SEGMENT
from equitangents.errors import InvalidArgumentError
from equitangents.inference import augment_inputs
from equitangents.inference.augmented import augment_targets
from equitangents.progress import Progress, ProgressCallback

_BATCH_SIZE = 32  # by default
_SECONDS_A_CALL = 0.5  # between two looks at interrupts and progress


@dataclass(frozen=True)
class Augmented:
    """Data x (rows, …), y (rows, outputs); an epoch visits `samples`, each drawn from `copies` rows.

    targets: those of the N samples before augmentation, (N, outputs) or fields.
    """

    x: np.ndarray
    y: np.ndarray
    samples: int
    copies: int
    targets: np.ndarray


def augment(
    action: Augmentation | None, label_action: GroupAction | None, mode: str, x: ArrayLike, y: np.ndarray, dtype: str
) -> Augmented:
    """The training data after augmentation, in `dtype`; `action` None: no augmentation.

    Targets may be fields, (N, *positions, outputs), which move with their positions, and are flattened to rows. Copies
    are made once, before training, so that resampled images cost no more in training than exact ones.
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


def resolve_batch_size(optimizer: object, batch_size: int | None, samples: int) -> int:
    """Samples per step: all of them for "gd"; else `batch_size`, or 32 if None, at most all."""
    if optimizer != "gd":
        return min(_BATCH_SIZE if batch_size is None else int(batch_size), samples)
    if batch_size is not None:
        expected = "None with optimizer 'gd', which is full-batch gradient descent"
        raise InvalidArgumentError("batch_size", batch_size, expected, "or take optimizer 'sgd'")
    return samples


def array_digest(*arrays: ArrayLike) -> str:
    """A digest of shapes, types and values."""
    digest = hashlib.sha256()
    for array in arrays:
        a = np.ascontiguousarray(array)
        digest.update(f"{a.shape}{a.dtype}".encode())
        digest.update(a.tobytes())
    return digest.hexdigest()[:16]


def record_fingerprint(recorded: dict[str, np.ndarray]) -> dict[str, str]:
    """Digests of the recorded inputs, by name."""
    return {"record": json.dumps({name: array_digest(x) for name, x in sorted(recorded.items())})}


class Chunk(Protocol):
    """Members trained in one call. `start`: stacked parameters of their baselines, or None."""

    start: Tree

    def restore(self, params: Sequence[np.ndarray], state: Sequence[np.ndarray]) -> None:
        """Continue from leaves of `params` and from `state`."""

    def advance(self, first: int, count: int) -> np.ndarray:
        """Train for the epochs first, …, first + count − 1; losses (count, members)."""

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs)."""

    def params(self) -> Params:
        """Parameters stacked over members."""

    def state(self) -> Sequence[ArrayLike]:
        """The rest of the members' state."""


@dataclass(frozen=True)
class Job(abc.ABC):
    """A training job: members `first` to `first + members − 1`, whose outputs have the type `dtype`.

    recipe: the training library's recipe; its `variation` distinguishes members.
    chunk: members per call. rows: the maximum number of rows of a batch computed at once.
    fingerprint: everything it depends on, by name.
    in_pieces: whether each chunk is trained to the end as its own run, so that only one is in memory; otherwise
        `Chunk.state` has an axis of members.
    workers: threads, or the calling one, that train and evaluate chunks: `map(fn, items, first_alone=False)`.
    """

    recipe: Any
    first: int
    members: int
    seed: int
    dtype: str
    chunk: int
    rows: int
    fingerprint: dict[str, str] = field(default_factory=dict, kw_only=True)

    in_pieces: ClassVar[bool]
    workers: ClassVar[type[AbstractContextManager[Any]]]

    @property
    def facts(self) -> dict[str, object]:
        """Attributes that the job sets on the fitted estimator."""
        return {}

    @abc.abstractmethod
    def groups(self) -> list[range]:
        """The members of every chunk, including unwanted ones."""

    @abc.abstractmethod
    def begin(self, ids: range) -> Chunk:
        """A chunk of these members, before training."""


class Run:
    """Members of a job at one epoch.

    sets: inputs by name whose outputs are recorded. torn: whether an interrupt left chunks at different epochs, so that
    the run cannot be saved.
    """

    def __init__(
        self, job: Job, workers: Any, sets: dict[str, np.ndarray] | None = None, snapshot: Snapshot | None = None
    ) -> None:
        self.job, self.torn, self._workers, self._sets = job, False, workers, sets or {}
        self.recorded_epochs: list[int] = [] if snapshot is None else list(snapshot.recorded_epochs)
        self._history: list[np.ndarray] = [] if snapshot is None else list(snapshot.history)
        kept = {} if snapshot is None else snapshot.recorded
        self._recorded = {name: list(kept.get(name, ())) for name in self._sets}
        self._seen: set[tuple[int, ...]] = set()
        self._compiled = False
        groups = job.groups()
        first = groups[0].start
        self._wanted = slice(job.first - first, job.first - first + job.members)

        def begun(number: int) -> Chunk:
            ids = groups[number]
            chunk = job.begin(ids)
            if snapshot is not None:
                mine = slice(None) if job.in_pieces else slice(ids.start - first, ids.stop - first)
                chunk.restore(*([leaf[mine] for leaf in part] for part in (snapshot.params, snapshot.optimizer_state)))
            return chunk

        self._chunks: list[Chunk] = workers.map(begun, range(len(groups)), first_alone=True)

    def advance(self, count: int) -> None:
        """Train all members for `count` ≤ SEGMENT more epochs; an interrupt is raised after all have finished."""
        assert 1 <= count <= SEGMENT
        if not self._compiled and len(self._chunks) > 1:
            self._chunks[0].advance(self.epoch, 0)  # once for all chunks
        self._compiled = True
        losses: dict[int, np.ndarray] = {}

        def one(number: int) -> None:
            losses[number] = self._chunks[number].advance(self.epoch, count)

        try:
            self._workers.map(one, range(len(self._chunks)))
        finally:
            self.torn = len(losses) < len(self._chunks)
            if not self.torn:
                joined = np.concatenate([losses[number] for number in range(len(losses))], axis=1)
                self._history.extend(joined[:, self._wanted])

    def record(self) -> None:
        """Keep all members' outputs on the recorded sets at this epoch."""
        for name, x in self._sets.items():
            fresh, outputs = x.shape not in self._seen, lambda chunk, x=x: chunk.outputs(x)
            self._seen.add(x.shape)
            parts = self._workers.map(outputs, self._chunks, first_alone=fresh)
            self._recorded[name].append(np.concatenate(parts)[self._wanted])
        self.recorded_epochs.append(self.epoch)

    @property
    def epoch(self) -> int:
        """Number of trained epochs."""
        return len(self._history)

    @property
    def history(self) -> np.ndarray:
        """The loss of every member after every epoch, (epochs, members)."""
        return np.array(self._history, dtype=self.job.dtype).reshape(-1, self.job.members)

    @property
    def recorded(self) -> dict[str, np.ndarray]:
        """Recorded outputs by name, each (recorded epochs, members, N, outputs)."""
        return {name: np.stack(outputs) for name, outputs in self._recorded.items() if outputs}

    def trained(self) -> Trained:
        """Parameters, losses and recorded outputs at this epoch, as NumPy."""
        wanted = lambda part: jax.tree.map(lambda a: a[self._wanted], self._stacked(part))
        params, start = wanted(lambda chunk: chunk.params()), wanted(lambda chunk: chunk.start)
        return Trained(params, start, self.history, self.recorded, self.recorded_epochs, self.job.chunk)

    def snapshot(self) -> Snapshot:
        """A copy of the run's mutable state."""
        params, state = self._stacked(lambda chunk: (jax.tree.leaves(chunk.params()), list(chunk.state())))
        plan = {"chunk": self.job.chunk, "rows": self.job.rows}
        return Snapshot(params, state, self.history, list(self.recorded_epochs), self.recorded, plan)

    def _stacked(self, part: Callable[[Chunk], Tree]) -> Tree:
        # concatenating copies; the buffers themselves are given away at the next step
        joined = lambda *leaves: np.concatenate([np.asarray(a) for a in leaves])
        return jax.tree.map(joined, *(part(chunk) for chunk in self._chunks))


class Trained(NamedTuple):
    """Parameters and starts stacked over members, losses (epochs, members), outputs recorded at some epochs.

    `chunk`: members per call.
    """

    params: Params
    start: Tree
    history: np.ndarray
    recorded: dict[str, np.ndarray]
    recorded_epochs: list[int]
    chunk: int


def train(
    job: Job,
    epochs: int,
    sets: dict[str, np.ndarray],
    record_at: tuple[int, ...] = (),
    folder: Path | None = None,
    *,
    resume: bool = False,
    every: int = 10,
    progress: bool | ProgressCallback = False,
) -> Trained:
    """Train the members of a job: together, or, if the job is in pieces, each chunk to the end in turn.

    Outputs on the `sets` are recorded at the epochs `record_at`, in order; checkpoints are written to `folder` every
    `every` epochs. Progress counts epochs, summed over chunks.
    """
    if folder is not None and not resume:
        check_unused(folder, job.first, job.members)
    groups, together = job.groups(), partial(_together, epochs, sets, record_at, folder, every)
    if not job.in_pieces or len(groups) == 1:
        return together(progress, job)
    counted = Progress(0, len(groups), progress, task="ensemble", unit="parts")
    parts = []
    for ids in groups:
        first, last = max(ids.start, job.first), min(ids.stop, job.first + job.members)
        parts.append(together(False, replace(job, first=first, members=last - first)))
        counted.add(1, 1)
    return joined(parts)


def joined(parts: Sequence[Trained]) -> Trained:
    """The members of all parts, concatenated along the members' axis of each entry of `Trained`."""
    of = lambda place, axis: jax.tree.map(lambda *a: np.concatenate(a, axis), *(part[place] for part in parts))
    return Trained(of(0, 0), of(1, 0), of(2, 1), of(3, 1), parts[0].recorded_epochs, parts[0].chunk)


def _together(
    epochs: int,
    sets: dict[str, np.ndarray],
    record_at: tuple[int, ...],
    folder: Path | None,
    every: int,
    progress: bool | ProgressCallback,
    job: Job,
) -> Trained:
    """Train the members to the end, in this process; an interrupt first saves the finished epochs."""
    with ExitStack() as held:
        store, snapshot = None, None
        if folder is not None:
            directory = run_directory(folder, job.first, job.members)
            store = CheckpointStore(directory, job.fingerprint | record_fingerprint(sets))
            held.callback(store.close)
            snapshot = store.latest()
            if snapshot is not None:
                job = replace(job, chunk=snapshot.plan["chunk"], rows=snapshot.plan["rows"])
                _check_progress(snapshot, epochs, record_at)
            if snapshot is None or snapshot.epoch < epochs:
                store.check_writable()
        workers = held.enter_context(job.workers())
        run = Run(job, workers, sets, snapshot)

        def record() -> None:
            if run.epoch in record_at and run.epoch not in run.recorded_epochs:
                run.record()

        def save() -> None:
            if store is not None:  # in a thread, so that an interrupt of the main one waits for it
                workers.map(store.write, [run.snapshot()])

        stops = sorted({epochs, *record_at, *(() if store is None else range(every, epochs, every))})
        counted, count = Progress(run.epoch, epochs, progress, task="ensemble", unit="epochs"), 1
        try:
            record()
            while run.epoch < epochs:
                count = min(count, stops[bisect_right(stops, run.epoch)] - run.epoch, SEGMENT)
                begin = time.perf_counter()
                run.advance(count)
                seconds = time.perf_counter() - begin
                counted.add(count, count)
                count = max(1, min(2 * count, int(count * _SECONDS_A_CALL / max(seconds, 1e-6))))
                record()
                if run.epoch % every == 0 or run.epoch == epochs:
                    save()
        except KeyboardInterrupt:
            if not run.torn:
                save()
            raise
        return run.trained()


def _check_progress(snapshot: Snapshot, epochs: int, record_at: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError if a checkpoint is beyond the last epoch, or recorded other epochs."""
    if snapshot.epoch > epochs:
        raise InvalidArgumentError("epochs", epochs, f"at least {snapshot.epoch}, that of the checkpoint")
    passed = [e for e in record_at if e < snapshot.epoch]
    if [e for e in snapshot.recorded_epochs if e < snapshot.epoch] != passed:
        remedy = "what the checkpoint has recorded"
        raise InvalidArgumentError("record_at", passed, snapshot.recorded_epochs, remedy, verb="asks for epochs")
