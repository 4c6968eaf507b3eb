"""What the model was asked: counted, timed and told while an audit runs; its answers to the pass over the data, kept.

So a pass that was stopped can be measured as far as it came, without the model.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.model import Answer
from equitangents.audit.contract.trees import Inputs
from equitangents.formatting import duration
from equitangents.scale.progress import ProgressCallback, told_by

_KEPT = 2**25  # at most that many are kept, 256 MB; a pass that is stopped later is measured as far as they go


@dataclass(eq=False)
class Record:
    """Answers that are kept (`recording`), or given again one after another (`replaying`)."""

    answers: list[Answer] = field(default_factory=list)
    recording: bool = False
    replaying: bool = False
    _numbers: int = 0
    _at: int = 0

    def keep(self, y: Answer) -> None:
        """Remember one more answer, while there is room."""
        self._numbers += sum(a.size for a in y.leaves)
        if self._numbers <= _KEPT:
            self.answers.append(y)

    def next(self, n: int) -> Answer:
        """The answer to the question that was asked next, of n inputs."""
        y = self.answers[self._at]
        self._at += 1
        assert len(y.leaves[0]) == n
        return y

    def of_row(self, step: int, elements: int, row: int, element: int | None) -> list[np.ndarray] | None:
        """Outputs (1, …) for one input, of batches of `step`, moved by an element or not; None if not kept."""
        batch, place = divmod(row, step)
        index = batch * (elements + 1) + (0 if element is None else element + 1)
        if index >= len(self.answers):
            return None
        return [y[place : place + 1] for y in self.answers[index].leaves]


logger = logging.getLogger("equitangents.audit")

_LOGGED = 10.0  # seconds between lines of the log
_PRINTED = 4.0  # and on stderr, where it is not a terminal
_FORESEEN = 0.2  # the share that is done before the rest is foreseen
_REDRAWN = 0.5  # and where it is one; nothing is drawn in the first second


class Progress:
    """Says every few seconds how much is done and how long the rest takes; nothing of short audits.

    `shown`: True, on stderr, in place on a terminal; False, to the log; a function is called after every batch instead.
    """

    def __init__(self, planned: int, shown: bool | ProgressCallback, what: str = "inputs") -> None:
        self._planned, self._shown, self._what = max(planned, 1), shown is True, what
        self._told = told_by(shown)
        self._terminal = self._shown and sys.stderr.isatty()
        self._first: tuple[float, int] | None = None
        self._last = time.monotonic() + (1.0 - _REDRAWN if self._terminal else 0.0)
        self._drawn = False

    def step(self, done: int) -> None:
        """The model was given `done` inputs so far, or structures."""
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        if self._told is not None:
            self._told(done, self._planned, self._left(now, done))
            return
        if now - self._last < (_REDRAWN if self._terminal else _PRINTED if self._shown else _LOGGED):
            return
        self._last = now
        share, left = min(done / self._planned, 0.99), self._left(now, done)
        line = f"audit: {share:.0%} done, {done:,} {self._what} evaluated"
        if math.isfinite(left):
            line += f", about {duration(left)} left"
        if self._terminal:
            self._drawn = True
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif self._shown:
            print(line, file=sys.stderr, flush=True)
        else:
            logger.info("%s", line)

    def _left(self, now: float, done: int) -> float:
        """Seconds for the rest at the speed since the first batch, which also compiles; NaN before `_FORESEEN`."""
        began, first = self._first or (now, done)
        if done < max(_FORESEEN * self._planned, first + 1):
            return math.nan
        return (now - began) * max(self._planned - done, 0.01 * self._planned) / (done - first)

    def close(self) -> None:
        """Take the line off the terminal."""
        if self._drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@dataclass(eq=False)
class Clock:
    """Seconds spent in the model, and what it was given: by every part of the audit, filled-up batches as they are."""

    seconds: float = 0.0
    evaluations: int = 0
    """Inputs."""
    batches: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    """Inputs by the part of the audit that asked for them."""
    part: str = "elements"
    largest: int = 0
    """Inputs in the largest batch that the model took."""
    refused: str | None = None
    """What the model said of another batch, if it takes the size `largest` alone; others are split and filled up."""
    failed: BaseException | None = None
    """What the model raised last."""
    progress: Progress | None = None
    check: Callable[[], None] = lambda: None
    """Raises KeyboardInterrupt if one was lost."""

    def counting(self, run: Callable[[Any], Any]) -> Callable[[Inputs], Any]:
        """`run` for a batch, counted and timed."""

        def counted(x: Inputs) -> Tree:
            began = time.perf_counter()
            try:
                output = run(x.own_tree())
            finally:
                self.add(x.n, time.perf_counter() - began)
            self.largest = max(self.largest, x.n)
            return output

        return counted

    @contextlib.contextmanager
    def during(self, part: str) -> Iterator[None]:
        """Within it evaluations count for this part."""
        before, self.part = self.part, part
        try:
            yield
        finally:
            self.part = before

    def add(self, inputs: int, seconds: float) -> None:
        """The model was given one more batch."""
        self.seconds += seconds
        self.evaluations += inputs
        self.parts[self.part] = self.parts.get(self.part, 0) + inputs
        self.batches += 1
        if self.progress is not None:
            self.progress.step(self.evaluations)
