"""What a reader sees while a study runs: one line per stage, with a bar and the time. Ctrl-C always ends it.

On a terminal the bars are rich's; in a file or a pipe there are lines of plain text, each written as it comes.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_EVERY = 60.0  # seconds between lines about one stage


class Task:
    """A stage's bar; `step(done, total)` moves it and calls `noticed`, as often as one likes."""

    def __init__(self, bars: Any = None, identity: Any = None, interrupted: threading.Event | None = None) -> None:
        self._bars = bars
        self._identity = identity
        self._interrupted = interrupted
        self._shown = 0.0
        self.noticed: Callable[[], None] = lambda: None

    def step(self, done: float, total: float) -> None:
        """`done` of `total` is finished; raises KeyboardInterrupt if one was lost on the way."""
        if self._interrupted is not None and self._interrupted.is_set():
            raise KeyboardInterrupt
        self.noticed()
        now = time.monotonic()
        if self._bars is not None and (now - self._shown > 0.1 or done >= total):
            self._bars.update(self._identity, completed=done, total=total)
            self._shown = now


class _Lines:
    """In place of rich's bars where there is no terminal: a line when a stage begins and ends, and one a minute."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[str, float]] = {}
        self._said = 0.0

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def add_task(self, title: str, total: float | None = None) -> int:
        identity = len(self._begun)
        self._begun[identity] = (title, time.monotonic())
        self._said = time.monotonic()
        _say(f"{title} …")
        return identity

    def update(self, identity: int, *, completed: float, total: float, done: bool = False) -> None:
        title, begun = self._begun[identity]
        now = time.monotonic()
        if done:
            _say(f"{title}: done in {now - begun:.1f} s")
        elif now - self._said > _EVERY:
            self._said = now
            _say(f"{title}: {100 * completed / total:.0f} %")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Progress:
    """Bars on the terminal by rich, lines where output is redirected, or nothing at all."""

    def __init__(self, *, shown: bool = True) -> None:
        self._bars: Any = None
        self._interrupted = threading.Event()
        if shown and not sys.stderr.isatty():
            self._bars = _Lines()
        elif shown:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            self._bars = Bars(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True)
            )

    @contextlib.contextmanager
    def running(self) -> Iterator[Progress]:
        """Show the bars while the study runs."""
        with _remembering(self._interrupted), self._bars or contextlib.nullcontext():
            yield self

    @contextlib.contextmanager
    def task(self, title: str) -> Iterator[Task]:
        """A bar for one stage; full when the stage ends without an error."""
        if self._bars is None:
            yield Task(interrupted=self._interrupted)
            return
        identity = self._bars.add_task(title, total=None)
        yield Task(self._bars, identity, self._interrupted)
        if isinstance(self._bars, _Lines):
            self._bars.update(identity, completed=1, total=1, done=True)
        else:
            self._bars.update(identity, completed=1, total=1)


@contextlib.contextmanager
def _remembering(interrupted: threading.Event) -> Iterator[None]:
    """Ctrl-C sets the event besides raising KeyboardInterrupt.

    Python runs the handler in whatever code comes first, and drops what is raised in a callback of the garbage
    collector: JAX has one, which runs often while XLA works.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
