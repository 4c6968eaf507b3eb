"""From epoch to epoch: how far a run goes before something is to be measured, saved or shown."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import Numbers, Params
from equitangents.ensembles.training.recipe import SEGMENT
from equitangents.ensembles.training.run import Run

logger = logging.getLogger("equitangents")

_SECONDS_A_CALL = 0.5  # between two looks at interrupts and progress
_SECONDS_A_LOG = 10.0


@dataclass(frozen=True)
class TrainingState:
    """What a callback sees after an epoch.

    Attributes:
        epoch: how many epochs are done, 1 to epochs.
        epochs: how many there will be.
        losses: (members,) each member's loss over this epoch.
    """

    epoch: int
    epochs: int
    losses: np.ndarray
    _run: Run
    _inputs: Callable[[Any], np.ndarray]

    def predict_members(self, X: Numbers) -> np.ndarray:
        """Outputs of all members now, (members, N, outputs)."""
        return self._run.predict_members(self._inputs(X))

    def predict(self, X: Numbers) -> np.ndarray:
        """Their mean over members, (N, outputs)."""
        return self.predict_members(X).mean(axis=0)

    @property
    def params(self) -> Params:
        """A copy of all parameters now, stacked over members."""
        return self._run.params()


@dataclass(frozen=True)
class Schedule:
    """When a run of `epochs` epochs stops on its way.

    Args:
        epochs: how many there are.
        record_at: sorted epochs at which outputs on the recorded sets are kept.
        callback: called after every epoch, or None.
        checkpoint_every: epochs between checkpoints.
    """

    epochs: int
    record_at: tuple[int, ...] = ()
    callback: Callable[[int, TrainingState], None] | None = None
    checkpoint_every: int = 10

    def next_stop(self, epoch: int, *, checkpoints: bool) -> int:
        """The next epoch after `epoch` at which there is something to do."""
        stops = [self.epochs, *(e for e in self.record_at if e > epoch)]
        if self.callback is not None:
            stops.append(epoch + 1)
        if checkpoints:
            stops.append((epoch // self.checkpoint_every + 1) * self.checkpoint_every)
        return min(stops)


def train(
    run: Run,
    schedule: Schedule,
    *,
    inputs: Callable[[Any], np.ndarray],
    save: Callable[[], None] | None = None,
    progress: bool = False,
) -> None:
    """Train to the schedule's end; `save` writes a checkpoint of the run. An interrupt saves what is done first."""
    count = 1
    with _shown(run, schedule, progress) as show:
        try:
            _record_if_due(run, schedule)
            while run.epoch < schedule.epochs:
                stop = schedule.next_stop(run.epoch, checkpoints=save is not None)
                count = min(count, stop - run.epoch, SEGMENT)
                begin = time.perf_counter()
                run.advance(count)
                seconds = time.perf_counter() - begin
                count = max(1, min(2 * count, int(count * _SECONDS_A_CALL / max(seconds, 1e-6))))
                _record_if_due(run, schedule)
                if save is not None and (run.epoch % schedule.checkpoint_every == 0 or run.epoch == schedule.epochs):
                    save()
                if schedule.callback is not None:
                    state = TrainingState(run.epoch, schedule.epochs, run.losses, run, inputs)
                    schedule.callback(run.epoch, state)
                show()
        except KeyboardInterrupt:
            if save is not None and not run.torn:
                save()
            raise


def _record_if_due(run: Run, schedule: Schedule) -> None:
    if run.epoch in schedule.record_at and run.epoch not in run.recorded_epochs:
        run.record()


@contextmanager
def _shown(run: Run, schedule: Schedule, progress: bool) -> Iterator[Callable[[], None]]:
    if progress:
        from rich.progress import Progress, TextColumn, TimeElapsedColumn

        with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), TextColumn("{task.fields[loss]}")) as bar:
            task = bar.add_task(f"{run.job.members} members", total=schedule.epochs, completed=run.epoch, loss="")
            yield lambda: bar.update(task, completed=run.epoch, loss=f"loss {_mean_loss(run):.3g}")
        return
    last = time.perf_counter()

    def log() -> None:
        nonlocal last
        if time.perf_counter() - last > _SECONDS_A_LOG:
            last = time.perf_counter()
            logger.info("epoch %d of %d, mean loss %.4g", run.epoch, schedule.epochs, _mean_loss(run))

    yield log


def _mean_loss(run: Run) -> float:
    return float(run.losses.mean())
