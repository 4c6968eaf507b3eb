"""What commands have in common: words for sizes and parts of a job array, and what the package logs on its way."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from equitangents.cli.completion import URL, one_of

if TYPE_CHECKING:
    from equitangents._types import ArrayLike


PLACE = "PATH|URL"  # what takes s3://bucket/name and the like, too
AGAIN = "the same command starts again"
Precision = Annotated[
    str | None,
    typer.Option(
        help="float32 or float64; by default that of the inputs, float64 for whole numbers.",
        **one_of("float32", "float64"),
    ),
]
Shard = Annotated[str | None, typer.Option(metavar="I/N", help="Only part I of N, I from 0 to N − 1: for job arrays.")]


def goes_on(restart: bool) -> str:
    """How to go on with what is kept."""
    return f"the same command{' without --restart' if restart else ''} goes on"


class LocalPaths(TyperCommand):
    """A command that refuses a URL where files of this machine are expected, in place of making a folder `s3:`."""

    def invoke(self, ctx: Any) -> Any:
        """Look at all options that are paths, and run the command."""
        for parameter in self.params:
            value = ctx.params.get(str(parameter.name))
            if isinstance(value, Path) and URL.match(str(value)):
                raise typer.BadParameter(
                    f"{str(value)!r}; expected a path of this machine", param_hint=parameter.opts[0]
                )
        return super().invoke(ctx)


def part(text: str | None) -> tuple[int, int] | None:
    """ "3/64" as (3, 64)."""
    if text is None:
        return None
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise typer.BadParameter(f"{text!r}; expected I/N with I from 0 to N − 1, such as 0/64", param_hint="--shard")
    return int(index), int(count)


def one_ridge(text: str) -> float:
    """The number of --ridge; a value for each sample is for the library alone."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}; expected one number; one for each sample takes Python: et.InfiniteEnsemble(net, ridge=array)",
            param_hint="--ridge",
        ) from None


def shape(text: str | None) -> tuple[int, ...] | None:
    """ "32,32,3" as (32, 32, 3)."""
    if text is None:
        return None
    parts = text.replace(" ", "").split(",")
    if not all(each.isdigit() and int(each) for each in parts):
        raise typer.BadParameter(f"{text!r}; expected sizes such as 32,32,3", param_hint="--input-shape")
    return tuple(map(int, parts))


def byte_limit(gigabytes: float | None) -> int | None:
    """Bytes of `--memory-limit`, which is given in GB; None without one."""
    if gigabytes is None:
        return None
    if not 0 < gigabytes < math.inf:
        raise typer.BadParameter(f"{gigabytes:g}; expected a positive number of GB", param_hint="--memory-limit")
    return int(gigabytes * 1e9)


def in_precision(x: ArrayLike, precision: str | None) -> Any:
    """The array in the precision that is asked for, in memory; as it is for None."""
    import numpy as np

    if precision is None:
        return x
    return np.asarray(x, precision)


class _Echo(logging.Handler):
    """Log messages as lines."""

    def __init__(self, err: bool, then: Callable[[], None] | None) -> None:
        super().__init__(logging.INFO)
        self.err, self.then = err, then

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)  # the line of a stage
        typer.echo(record.getMessage(), err=self.err)
        if self.then is not None:
            self.then()


@contextmanager
def announced(
    name: str, err: bool = False, without: str | None = None, then: Callable[[], None] | None = None
) -> Iterator[None]:
    """Meanwhile print what the logger `name` says, such as how long something will take, before it does.

    without: lines with this text in them are left out. then: is called after each line, to draw a stage again.
    """
    logger, echo = logging.getLogger(name), _Echo(err, then)
    if without is not None:
        echo.addFilter(lambda record: without not in record.getMessage())
    level = logger.level
    logger.addHandler(echo)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(echo)
        logger.setLevel(level)


@contextmanager
def kept(said: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C meanwhile says what is kept and how to go on; otherwise a command says that nothing new is kept."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(*(stop.args or [f"interrupted; {said()}"])) from None


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """A function that says what is being done: on a terminal one line on stderr, which goes when the block ends.

    "" takes the line off before. What takes its place there, such as how far an audit is, draws over it. Elsewhere
    nothing is said.
    """
    terminal = sys.stderr.isatty()

    def stage(said: str) -> None:
        if terminal:
            print(f"\r\033[K{said} …" if said else "\r\033[K", end="", file=sys.stderr, flush=True)

    try:
        yield stage
    finally:
        if terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
