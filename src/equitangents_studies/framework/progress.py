"""What a reader sees while a study runs: a line a stage, how far it is, and its time. Ctrl-C always ends it.

On a terminal the line changes in place; in a file or a pipe there is one a minute, each written as it comes.
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
    """A stage; `step(done, total)` says how far it is and calls `noticed`, as often as one likes."""

    def __init__(
        self,
        title: str = "",
        shown: bool = False,
        interrupted: threading.Event | None = None,
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        self._title, self._shown, self._interrupted = title, shown, interrupted or threading.Event()
        self._noticed, self._in_place = noticed, sys.stderr.isatty()
        self._begun = self._said = time.monotonic()
        self._say(f"{title} …")

    def step(self, done: float, total: float) -> None:
        """`done` of `total` is finished; raises KeyboardInterrupt if one was lost on the way."""
        if self._interrupted.is_set():
            raise KeyboardInterrupt
        self._noticed()
        now = time.monotonic()
        if now - self._said > (_AGAIN if self._in_place else _EVERY):
            self._said = now
            self._say(f"{self._title}: {100 * done / total:.0f} %")

    def done(self) -> None:
        """Say how long it took."""
        self._say(f"{self._title}: done in {time.monotonic() - self._begun:.1f} s", last=True)

    def _say(self, text: str, *, last: bool = False) -> None:
        if self._shown and self._in_place:
            print("\x1b[K" + text, end="\n" if last else "\r", file=sys.stderr, flush=True)  # others write over it
        elif self._shown:
            print(text, file=sys.stderr, flush=True)


class StudyProgress:
    """How far each stage of a run is, or nothing at all."""

    def __init__(self, *, shown: bool = True) -> None:
        self._shown, self._interrupted = shown, threading.Event()

    @contextlib.contextmanager
    def task(self, title: str, noticed: Callable[[], None] = lambda: None) -> Iterator[Task]:
        """One stage, which is said to be done when it ends without an error."""
        task = Task(title, self._shown, self._interrupted, noticed)
        yield task
        task.done()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While the study runs, no Ctrl-C is lost: it sets an event besides raising KeyboardInterrupt.

        Python runs the handler in whatever code comes first, and drops what is raised in a callback of the garbage
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
