"""Members trained by several processes or machines: each chunk of members is one piece of work, whoever takes it.

A chunk is trained by one program in one place of it, so that the result is that of one machine, bit for bit. The
members of a worker that dies are trained again, from their last checkpoint if there are checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from equitangents._protocols import ExecutorLike
from equitangents.ensembles.training.alone import Assignment, train_alone
from equitangents.ensembles.training.checkpoints import check_unused
from equitangents.ensembles.training.trained import Trained, joined
from equitangents.scale.executors import Tasks, opened, spread
from equitangents.scale.progress import Progress

Piece = tuple[int, int]  # the first member of a part of the run, and how many there are


@dataclass(frozen=True)
class Done:
    """Parts that a worker trained, by their first member, and how long that took."""

    parts: dict[int, Trained]
    seconds: float

    @property
    def computed(self) -> int:
        """How many they are."""
        return len(self.parts)


def train_spread(executor: ExecutorLike, assignment: Assignment) -> Trained:
    """Train the members of an assignment by an executor, a chunk of them at a time."""
    pieces = _pieces(assignment)
    if assignment.folder is not None:
        if not assignment.resume:
            check_unused(assignment.folder, assignment.job.first, assignment.job.members)
        assignment = replace(assignment, resume=True)  # of what a worker saved that died
    parts: dict[int, Trained] = {}
    counted = Progress(0, len(pieces), None, "ensemble", "parts")

    def report(done: Done) -> None:
        parts.update(done.parts)
        counted.add(done.computed, done.computed)

    tasks = Tasks(
        partial(_train_pieces, assignment),
        lambda piece: piece[0] in parts,
        report,
        task="ensemble",
        items="parts of the members",
        item="part of the members",
        kept="what has checkpoints goes on from them" if assignment.folder is not None else "nothing is kept",
        remedy="train with fewer processes, or a smaller members_per_chunk",
    )
    with opened(executor) as pool:
        spread(pool, tasks, pieces)
    return joined([parts[first] for first, _ in pieces])


def train_in_pieces(assignment: Assignment) -> Trained:
    """Train the members of an assignment in this process, each chunk of them to the end before the next."""
    pieces, job = _pieces(assignment), assignment.job
    if len(pieces) == 1:
        return train_alone(assignment)
    if assignment.folder is not None and not assignment.resume:
        check_unused(assignment.folder, job.first, job.members)
    shown: Iterable[Piece] = pieces
    if assignment.progress:
        from rich.progress import track

        shown, assignment = track(pieces, description=f"{job.members} members"), replace(assignment, progress=False)
    return joined([train_alone(assignment.of(first, count)) for first, count in shown])


def _pieces(assignment: Assignment) -> list[Piece]:
    """The members chunk by chunk."""
    job = assignment.job
    first, last = job.first, job.first + job.members
    bounds = [(max(ids.start, first), min(ids.stop, last)) for ids in job.groups(assignment.plan.chunk)]
    return [(start, stop - start) for start, stop in bounds]


def _train_pieces(assignment: Assignment, pieces: Sequence[Piece]) -> Done:
    begin = time.monotonic()
    parts = {first: train_alone(assignment.of(first, count)) for first, count in pieces}
    return Done(parts, time.monotonic() - begin)
