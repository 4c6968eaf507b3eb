"""What the package logs on its way, as lines of the output."""

from __future__ import annotations

import logging

import typer


class _Echo(logging.Handler):
    """Log messages as lines of the output."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(record.getMessage())


def announce(name: str) -> None:
    """Print what the logger `name` says from now on: how long something will take, before it does."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, _Echo) for handler in logger.handlers):
        logger.addHandler(_Echo())
