"""What a reader sees while a study runs: one line per stage, with a bar and the time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any


class Task:
    """A stage's bar; `step(done, total)` moves it, and may be called as often as one likes."""

    def __init__(self, bars: Any = None, identity: Any = None) -> None:
        self._bars = bars
        self._identity = identity
        self._shown = 0.0

    def step(self, done: float, total: float) -> None:
        """`done` of `total` is finished."""
        now = time.monotonic()
        if self._bars is not None and (now - self._shown > 0.1 or done >= total):
            self._bars.update(self._identity, completed=done, total=total)
            self._shown = now


class Progress:
    """Bars on the terminal by rich, or nothing at all."""

    def __init__(self, *, shown: bool = True) -> None:
        self._bars: Any = None
        if shown:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            self._bars = Bars(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True)
            )

    @contextlib.contextmanager
    def running(self) -> Iterator[Progress]:
        """Show the bars while the study runs."""
        if self._bars is None:
            yield self
            return
        with self._bars:
            yield self

    @contextlib.contextmanager
    def task(self, title: str) -> Iterator[Task]:
        """A bar for one stage; full when the stage ends without an error."""
        if self._bars is None:
            yield Task()
            return
        identity = self._bars.add_task(title, total=None)
        yield Task(self._bars, identity)
        self._bars.update(identity, completed=1, total=1)
