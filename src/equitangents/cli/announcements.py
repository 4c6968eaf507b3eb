"""What the package logs on its way, as lines of the output or of the errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class _Echo(logging.Handler):
    """Log messages as lines."""

    def __init__(self, err: bool) -> None:
        super().__init__(logging.INFO)
        self.err = err

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(record.getMessage(), err=self.err)


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
