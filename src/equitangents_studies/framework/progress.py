"""Progress of a study: one line per stage with its progress and time. Ctrl-C always ends the study.

On a terminal the line changes in place; a file or a pipe gets one line a minute, flushed at once.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

_EVERY = 60.0  # seconds between lines about one stage
_AGAIN = 0.2  # on a terminal


class Task:
    """A running stage; `step(done, total)` reports progress and calls `noticed`. Call it as often as you like."""

    def __init__(
        self,
        title: str = "",
        shown: bool = False,
        interrupted: threading.Event | None = None,
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        self._title, self._shown, self._interrupted = title, shown, interrupted or threading.Event()
        self._noticed, self._in_place = noticed, sys.stderr.isatty()
        self._begun = self._printed = time.monotonic()
        self._print(f"{title} …")

    def step(self, done: float, total: float) -> None:
        """Report progress; raises KeyboardInterrupt if Ctrl-C was pressed and lost."""
        if self._interrupted.is_set():
            raise KeyboardInterrupt
        self._noticed()
        now = time.monotonic()
        if now - self._printed > (_AGAIN if self._in_place else _EVERY):
            self._printed = now
            self._print(f"{self._title}: {100 * done / total:.0f} %")

    def done(self) -> None:
        """Print how long it took."""
        self._print(f"{self._title}: done in {time.monotonic() - self._begun:.1f} s", last=True)

    def _print(self, text: str, *, last: bool = False) -> None:
        if self._shown and self._in_place:
            print("\x1b[K" + text, end="\n" if last else "\r", file=sys.stderr, flush=True)  # others write over it
        elif self._shown:
            print(text, file=sys.stderr, flush=True)


class StudyProgress:
    """Print the progress of each stage of a run, unless `shown` is false."""

    def __init__(self, *, shown: bool = True) -> None:
        self._shown, self._interrupted = shown, threading.Event()

    @contextlib.contextmanager
    def task(self, title: str, noticed: Callable[[], None] = lambda: None) -> Iterator[Task]:
        """One stage; its time is printed when it ends without an error."""
        task = Task(title, self._shown, self._interrupted, noticed)
        yield task
        task.done()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While the study runs, no Ctrl-C is lost: it sets an event and raises KeyboardInterrupt.

        Python runs the handler in whatever code comes first, and drops exceptions from callbacks of the garbage
        collector: JAX has one, which runs often while XLA works.
        """
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def handle(number: int, frame: FrameType | None) -> None:
            self._interrupted.set()
            signal.default_int_handler(number, frame)

        signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
