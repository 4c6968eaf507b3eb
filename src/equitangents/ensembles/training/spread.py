"""Members trained to the end: in one process, from their last checkpoint if there is one, or by several machines.

Each chunk of members is one piece of work, whoever takes it, trained by one program in one place of it, so that the
result is that of one machine, bit for bit. The members of a worker that dies are trained again, from their last
checkpoint if there are checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np

from equitangents._protocols import ExecutorLike
from equitangents._types import Numbers, Params, Tree
from equitangents.ensembles.training.checkpoints import CheckpointStore, check_unused, run_directory
from equitangents.ensembles.training.fingerprint import record_fingerprint
from equitangents.ensembles.training.plan import Plan
from equitangents.ensembles.training.run import Job, Pool, Run, Schedule, Snapshot, train
from equitangents.errors import InvalidArgumentError
from equitangents.scale.executors import distribute
from equitangents.scale.progress import Progress, ProgressCallback

Piece = tuple[int, int]  # the first member of a part of the run, and how many there are


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


def trained(run: Run) -> Trained:
    """What a run that came to its end leaves."""
    return Trained(run.params(), run.start(), run.history, run.recorded, run.recorded_epochs, run.chunk)


def joined(parts: Sequence[Trained]) -> Trained:
    """The members of all parts, in order."""
    first = parts[0]
    stacked = lambda *leaves: np.concatenate(leaves)
    names = first.recorded
    return Trained(
        jax.tree.map(stacked, *(part.params for part in parts)),
        jax.tree.map(stacked, *(part.start for part in parts)),
        np.concatenate([part.history for part in parts], axis=1),
        {name: np.concatenate([part.recorded[name] for part in parts], axis=1) for name in names},
        first.recorded_epochs,
        first.chunk,
    )


@dataclass(frozen=True)
class Assignment:
    """Members to be trained: the job and how it is spread, what is recorded and when, and where checkpoints are.

    `inputs` turns what a callback gives as X into the array that networks take.
    """

    job: Job
    plan: Plan
    fingerprint: dict[str, str]
    schedule: Schedule
    sets: dict[str, np.ndarray]
    folder: Path | None
    resume: bool
    progress: bool | ProgressCallback = False
    inputs: Callable[[Numbers], np.ndarray] = np.asarray

    def of(self, first: int, members: int) -> Assignment:
        """The assignment for some of the members."""
        return replace(self, job=self.job.of(first, members))


def train_alone(assignment: Assignment) -> Trained:
    """Train the members to the end of the schedule, in this process."""
    job, plan, schedule, sets = assignment.job, assignment.plan, assignment.schedule, assignment.sets
    store, snapshot = None, None
    if assignment.folder is not None:
        directory = run_directory(assignment.folder, job.first, job.members)
        store = CheckpointStore(directory, assignment.fingerprint | record_fingerprint(sets))
    try:
        if store is not None:
            found = store.latest(resume=assignment.resume)
            if found is not None:
                snapshot, plan = found[0], Plan(**found[1])
                _check_progress(snapshot, schedule)
            if snapshot is None or snapshot.epoch < schedule.epochs:
                store.check_writable()
        with job.workers() as workers:
            run = Run(job.in_blocks(plan.rows), plan, workers, record=sets, snapshot=snapshot)
            save = None if store is None else partial(_save, run, plan, store, workers)
            train(run, schedule, inputs=assignment.inputs, save=save, progress=assignment.progress)
            return trained(run)
    finally:
        if store is not None:
            store.close()


def _save(run: Run, plan: Plan, store: CheckpointStore, workers: Pool) -> None:
    """Write a checkpoint, in a thread, so that an interrupt of the main one waits for it."""
    workers.map(lambda snapshot: store.write(snapshot, plan.as_dict()), [run.snapshot()])


def _check_progress(snapshot: Snapshot, schedule: Schedule) -> None:
    if snapshot.epoch > schedule.epochs:
        raise InvalidArgumentError("epochs", schedule.epochs, f"at least {snapshot.epoch}, that of the checkpoint")
    passed = [e for e in schedule.record_at if e < snapshot.epoch]
    if [e for e in snapshot.recorded_epochs if e < snapshot.epoch] != passed:
        raise InvalidArgumentError(
            "record_at", passed, snapshot.recorded_epochs, "what the checkpoint has recorded", verb="asks for epochs"
        )


def train_in_parts(assignment: Assignment, executor: ExecutorLike | None = None) -> Trained:
    """Train the members of an assignment a chunk at a time, each to the end: by an executor, or in this process.

    Progress counts the chunks, unless there is one alone in this process.
    """
    pieces, job = _pieces(assignment), assignment.job
    if executor is None and len(pieces) == 1:
        return train_alone(assignment)
    if assignment.folder is not None and not assignment.resume:
        check_unused(assignment.folder, job.first, job.members)
    counted = Progress(0, len(pieces), assignment.progress, "ensemble", "parts")
    # resume: of what a worker saved that died
    assignment = replace(assignment, progress=False, resume=assignment.folder is not None)
    parts: dict[Piece, Trained] = {}

    def report(piece: Piece, part: Trained) -> None:
        parts[piece] = part
        counted.add(1, 1)

    if executor is None:
        for piece in pieces:
            report(piece, _train_piece(assignment, piece))
    else:
        distribute(executor, partial(_train_piece, assignment), pieces, report, "ensemble")
    return joined([parts[piece] for piece in pieces])


def _pieces(assignment: Assignment) -> list[Piece]:
    """The members chunk by chunk."""
    job = assignment.job
    first, last = job.first, job.first + job.members
    bounds = [(max(ids.start, first), min(ids.stop, last)) for ids in job.groups(assignment.plan.chunk)]
    return [(start, stop - start) for start, stop in bounds]


def _train_piece(assignment: Assignment, piece: Piece) -> Trained:
    return train_alone(assignment.of(*piece))
