"""Some members trained in one process, from their last checkpoint if there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from equitangents._types import Numbers
from equitangents.ensembles.training.checkpoints import CheckpointStore, run_directory
from equitangents.ensembles.training.fingerprint import record_fingerprint
from equitangents.ensembles.training.loop import Schedule, train
from equitangents.ensembles.training.plan import Plan
from equitangents.ensembles.training.run import Job, Pool, Run, Snapshot
from equitangents.ensembles.training.trained import Trained, trained
from equitangents.errors import InvalidArgumentError


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
    progress: bool = False
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
        raise InvalidArgumentError(
            f"epochs is {schedule.epochs}, but the checkpoint is of epoch {snapshot.epoch}; expected at least that"
        )
    passed = [e for e in schedule.record_at if e < snapshot.epoch]
    if [e for e in snapshot.recorded_epochs if e < snapshot.epoch] != passed:
        raise InvalidArgumentError(
            f"record_at asks for epochs {passed} up to the checkpoint's {snapshot.epoch}; "
            f"it has recorded {snapshot.recorded_epochs}"
        )
