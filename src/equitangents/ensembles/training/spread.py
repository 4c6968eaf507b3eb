"""Members trained by several processes or machines: each chunk of members is one piece of work, whoever takes it.

A chunk is trained by one program in one place of it, so that the result is that of one machine, bit for bit. The
members of a worker that dies are trained again, from their last checkpoint if there are checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from equitangents._protocols import ExecutorLike
from equitangents.ensembles.training.alone import Assignment, train_alone
from equitangents.ensembles.training.checkpoints import check_unused
from equitangents.ensembles.training.trained import Trained, joined
from equitangents.scale.executors import Tasks
from equitangents.scale.progress import Progress
from equitangents.scale.spreading import opened, spread

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


def _pieces(assignment: Assignment) -> list[Piece]:
    """The members chunk by chunk."""
    job, chunk = assignment.job, assignment.plan.chunk
    edges = [*range(job.first // chunk * chunk, job.first + job.members, chunk), job.first + job.members]
    starts = [max(edge, job.first) for edge in edges[:-1]]
    return [(start, stop - start) for start, stop in zip(starts, edges[1:], strict=True)]


def _train_pieces(assignment: Assignment, pieces: Sequence[Piece]) -> Done:
    begin = time.monotonic()
    parts = {first: train_alone(assignment.of(first, count)) for first, count in pieces}
    return Done(parts, time.monotonic() - begin)
