"""A training run: chunks of members moved from epoch to epoch together, with what was measured on the way.

How members are trained is what a `Job` knows: `network_job` by JAX, `equitangents.torch.job` by PyTorch. They go on
from their last checkpoint, if there is one.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import jax
import numpy as np

from equitangents._types import ArrayLike, Params, Tree
from equitangents.ensembles.training.checkpoints import CheckpointStore, Snapshot, check_unused, run_directory
from equitangents.ensembles.training.plan import Plan
from equitangents.ensembles.training.recipe import SEGMENT
from equitangents.ensembles.training.settings import record_fingerprint
from equitangents.errors import InvalidArgumentError
from equitangents.progress import Progress, ProgressCallback

_SECONDS_A_CALL = 0.5  # between two looks at interrupts and progress


class Chunk(Protocol):
    """Members that share a call. `start`: what their baselines depend on, stacked, or None."""

    start: Tree

    def restore(self, params: Sequence[np.ndarray], state: Sequence[np.ndarray]) -> None:
        """Go on from what `params` (its leaves) and `state` gave."""

    def advance(self, first: int, count: int) -> np.ndarray:
        """Train for the epochs first, …, first + count − 1; losses (count, members)."""

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs)."""

    def params(self) -> Params:
        """Parameters stacked over members."""

    def state(self) -> Sequence[ArrayLike]:
        """What else the members go on from."""


class Job(abc.ABC):
    """What a run computes: members `first` to `first + members − 1`, whose outputs are of the type `dtype`.

    fingerprint: what it depends on, by name.
    stacks_state: whether what `Chunk.state` gives has an axis of members; otherwise it is one array a chunk.
    in_pieces: whether a chunk is trained to the end before the next, so that one at a time is held.
    workers: threads, or the calling one, that train and evaluate chunks: `map(fn, items, first_alone=False)`.
    """

    stacks_state: ClassVar[bool]
    in_pieces: ClassVar[bool]
    workers: ClassVar[type[AbstractContextManager[Any]]]

    first: int
    members: int
    dtype: str
    recipe: Any  # of the library that trains; its `variation` is what sets members apart
    plan: Plan
    fingerprint: dict[str, str]

    @property
    def facts(self) -> dict[str, object]:
        """What the fitted estimator says of it, by attribute."""
        return {}

    def changed(self, **changes: Any) -> Self:
        """The same job with other members or another plan."""
        return replace(self, **changes)  # type: ignore[type-var]  # jobs are dataclasses

    @abc.abstractmethod
    def groups(self) -> list[range]:
        """The members of every chunk, some of which may not be wanted."""

    @abc.abstractmethod
    def begin(self, ids: range) -> Chunk:
        """The chunk of some members, before training."""


class Run:
    """Members of a job at one epoch.

    sets: the inputs whose outputs are recorded, by name. torn: whether an interrupt left chunks at different epochs,
    so that nothing here can be saved.
    """

    def __init__(
        self, job: Job, workers: Any, sets: dict[str, np.ndarray] | None = None, snapshot: Snapshot | None = None
    ) -> None:
        self.job, self.torn = job, False
        self.recorded_epochs: list[int] = [] if snapshot is None else list(snapshot.recorded_epochs)
        self._workers, self._sets = workers, sets or {}
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
                mine, state = slice(ids.start - first, ids.stop - first), snapshot.optimizer_state
                part = [leaf[mine] for leaf in state] if job.stacks_state else [state[number]]
                chunk.restore([leaf[mine] for leaf in snapshot.params], part)
            return chunk

        self._chunks: list[Chunk] = workers.map(begun, range(len(groups)), first_alone=True)

    def advance(self, count: int) -> None:
        """Train all members for `count` ≤ SEGMENT more epochs; an interrupt is raised once all of them have."""
        assert 1 <= count <= SEGMENT
        if not self._compiled:
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
            self._recorded[name].append(self.predict_members(x))
        self.recorded_epochs.append(self.epoch)

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs)."""
        parts = self._workers.map(lambda chunk: chunk.outputs(x), self._chunks, first_alone=x.shape not in self._seen)
        self._seen.add(x.shape)
        return np.concatenate(parts)[self._wanted]

    @property
    def epoch(self) -> int:
        """How many epochs have been trained."""
        return len(self._history)

    @property
    def history(self) -> np.ndarray:
        """The loss of every member after every epoch, (epochs, members)."""
        return np.array(self._history, dtype=self.job.dtype).reshape(-1, self.job.members)

    @property
    def recorded(self) -> dict[str, np.ndarray]:
        """Recorded outputs by name, each (recorded epochs, members, N, outputs)."""
        return {name: np.stack(outputs) for name, outputs in self._recorded.items() if outputs}

    def params(self) -> Params:
        """Parameters stacked over members, as NumPy."""
        return self._cut(self._stacked(lambda chunk: chunk.params()))

    def start(self) -> Tree:
        """What the members' baselines depend on, stacked; None if they have none."""
        return self._cut(self._stacked(lambda chunk: chunk.start))

    def snapshot(self) -> Snapshot:
        """A copy of everything that changes."""
        if self.job.stacks_state:
            state = self._stacked(lambda chunk: list(chunk.state()))
        else:
            state = [np.array(*chunk.state()) for chunk in self._chunks]
        params = jax.tree.leaves(self._stacked(lambda chunk: chunk.params()))
        plan = asdict(self.job.plan)
        return Snapshot(params, state, self.history, list(self.recorded_epochs), self.recorded, plan)

    def _stacked(self, part: Callable[[Chunk], Tree]) -> Tree:
        # concatenating copies; the buffers themselves are given away at the next step
        joined = lambda *leaves: np.concatenate([np.asarray(a) for a in leaves])
        return jax.tree.map(joined, *(part(chunk) for chunk in self._chunks))

    def _cut(self, stacked: Tree) -> Tree:
        return jax.tree.map(lambda a: a[self._wanted], stacked)


@dataclass(frozen=True)
class Trained:
    """Parameters and starts stacked over members, losses (epochs, members), outputs recorded at some epochs.

    `chunk`: members that shared a call.
    """

    params: Params
    start: Tree
    history: np.ndarray
    recorded: dict[str, np.ndarray]
    recorded_epochs: list[int]
    chunk: int


@dataclass(frozen=True)
class Assignment:
    """Members to be trained: the job, what is recorded and when, and where checkpoints are.

    `record_at`: sorted epochs at which outputs on the `sets` are kept. `checkpoint_every`: epochs between checkpoints.
    """

    job: Job
    epochs: int
    sets: dict[str, np.ndarray]
    record_at: tuple[int, ...] = ()
    folder: Path | None = None
    resume: bool = False
    checkpoint_every: int = 10
    progress: bool | ProgressCallback = False

    def next_stop(self, epoch: int) -> int:
        """The next epoch after `epoch` at which there is something to do."""
        stops = [self.epochs, *(e for e in self.record_at if e > epoch)]
        if self.folder is not None:
            stops.append((epoch // self.checkpoint_every + 1) * self.checkpoint_every)
        return min(stops)

    def check_progress(self, snapshot: Snapshot) -> None:
        """Raise InvalidArgumentError where a checkpoint is beyond the last epoch, or recorded other epochs."""
        if snapshot.epoch > self.epochs:
            raise InvalidArgumentError("epochs", self.epochs, f"at least {snapshot.epoch}, that of the checkpoint")
        passed = [e for e in self.record_at if e < snapshot.epoch]
        if [e for e in snapshot.recorded_epochs if e < snapshot.epoch] != passed:
            raise InvalidArgumentError(
                "record_at",
                passed,
                snapshot.recorded_epochs,
                "what the checkpoint has recorded",
                verb="asks for epochs",
            )


def train(assignment: Assignment) -> Trained:
    """Train the members of an assignment: together, or a chunk at a time, each to the end, where the job is in pieces.

    Progress counts epochs, or of several chunks these.
    """
    job, folder = assignment.job, assignment.folder
    if folder is not None and not assignment.resume:
        check_unused(folder, job.first, job.members)
    groups = job.groups()
    if not job.in_pieces or len(groups) == 1:
        return _train_together(assignment)
    counted = Progress(0, len(groups), assignment.progress, task="ensemble", unit="parts")
    parts = []
    for ids in groups:
        first, last = max(ids.start, job.first), min(ids.stop, job.first + job.members)
        piece = job.changed(first=first, members=last - first)
        parts.append(_train_together(replace(assignment, job=piece, progress=False)))
        counted.add(1, 1)
    stacked = lambda *leaves: np.concatenate(leaves)
    along = lambda *leaves: np.concatenate(leaves, axis=1)
    return Trained(
        jax.tree.map(stacked, *(part.params for part in parts)),
        jax.tree.map(stacked, *(part.start for part in parts)),
        along(*(part.history for part in parts)),
        jax.tree.map(along, *(part.recorded for part in parts)),
        parts[0].recorded_epochs,
        parts[0].chunk,
    )


def _train_together(assignment: Assignment) -> Trained:
    """Train the members to the end, in this process; an interrupt saves what is done first."""
    job, sets = assignment.job, assignment.sets
    store, snapshot = None, None
    if assignment.folder is not None:
        directory = run_directory(assignment.folder, job.first, job.members)
        store = CheckpointStore(directory, job.fingerprint | record_fingerprint(sets))
    try:
        if store is not None:
            snapshot = store.latest()
            if snapshot is not None:
                job = job.changed(plan=Plan(**snapshot.plan))
                assignment.check_progress(snapshot)
            if snapshot is None or snapshot.epoch < assignment.epochs:
                store.check_writable()
        with job.workers() as workers:
            run = Run(job, workers, sets, snapshot)
            # in a thread, so that an interrupt of the main one waits for it
            write = None if store is None else store.write
            save = None if write is None else lambda: workers.map(write, [run.snapshot()])
            _advance(run, assignment, save)
        return Trained(run.params(), run.start(), run.history, run.recorded, run.recorded_epochs, job.plan.chunk)
    finally:
        if store is not None:
            store.close()


def _advance(run: Run, assignment: Assignment, save: Callable[[], object] | None) -> None:
    """Train to the last epoch; `save` writes a checkpoint of the run."""
    count, epochs, every = 1, assignment.epochs, assignment.checkpoint_every
    counted = Progress(run.epoch, epochs, assignment.progress, task="ensemble", unit="epochs")
    try:
        _record_if_due(run, assignment)
        while run.epoch < epochs:
            count = min(count, assignment.next_stop(run.epoch) - run.epoch, SEGMENT)
            begin = time.perf_counter()
            run.advance(count)
            seconds = time.perf_counter() - begin
            counted.add(count, count)
            count = max(1, min(2 * count, int(count * _SECONDS_A_CALL / max(seconds, 1e-6))))
            _record_if_due(run, assignment)
            if save is not None and (run.epoch % every == 0 or run.epoch == epochs):
                save()
    except KeyboardInterrupt:
        if save is not None and not run.torn:
            save()
        raise


def _record_if_due(run: Run, assignment: Assignment) -> None:
    if run.epoch in assignment.record_at and run.epoch not in run.recorded_epochs:
        run.record()
