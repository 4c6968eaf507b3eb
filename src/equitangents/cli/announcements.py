"""What the package logs on its way, as lines of the output or of the errors."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


class _Echo(logging.Handler):
    """Log messages as lines."""

    def __init__(self, err: bool) -> None:
        super().__init__(logging.INFO)
        self.err = err

    def emit(self, record: logging.LogRecord) -> None:
        over = "\r\033[K" if self.err and sys.stderr.isatty() else ""  # the line of a stage
        typer.echo(over + record.getMessage(), err=self.err)


@contextmanager
def announced(name: str, err: bool = False) -> Iterator[None]:
    """Meanwhile print what the logger `name` says, such as how long something will take, before it does."""
    logger, echo = logging.getLogger(name), _Echo(err)
    level = logger.level
    logger.addHandler(echo)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(echo)
        logger.setLevel(level)


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """A function that says what is being done: on a terminal one line on stderr, which goes when the block ends.

    What takes its place there, such as how far an audit is, draws over it. Elsewhere nothing is said.
    """
    terminal = sys.stderr.isatty()

    def stage(said: str) -> None:
        if terminal:
            print(f"\r\033[K{said} …", end="", file=sys.stderr, flush=True)

    try:
        yield stage
    finally:
        if terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
