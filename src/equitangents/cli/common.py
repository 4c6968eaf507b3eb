"""What commands have in common: options as data, and progress."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from equitangents.cli.completion import URL, one_of, part
from equitangents.errors import InvalidArgumentError

if TYPE_CHECKING:
    from equitangents._types import ArrayLike


PLACE = "PATH|URL"  # what takes s3://bucket/name and the like, too
AGAIN = "the same command starts again"
Setting = tuple[Any, Any, Any]  # the type of a value, what typer knows of it, and its default, ... where there is none


def option(kind: Any, text: str, default: Any = None, *names: str, **more: Any) -> Setting:
    """An option; one whose default is None may be left out, and one whose default is ... may not."""
    return kind if default is not None else kind | None, typer.Option(*names, help=text, **more), default


def argument(kind: Any, text: str, default: Any = None, **more: Any) -> Setting:
    """As `option`, of a word without a name."""
    return kind if default is not None else kind | None, typer.Argument(help=text, **more), default


def flag(text: str, *names: str) -> Setting:
    """An option without a value, False where it is not given."""
    return bool, typer.Option(*names, help=text), False


def command(*panels: tuple[str | None, dict[str, Setting]]) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """A decorator: a function of one object, whose attributes are the settings of these panels, as a command of typer.

    Its `context` is that of the command. A flag without names has that of its setting, --on-data-only of on_data_only.
    """
    settings: dict[str, Setting] = {}
    for panel, those in panels:
        for name, (kind, info, default) in those.items():
            info = copy.copy(info)
            info.rich_help_panel = panel
            if default is False and not info.param_decls:
                info.param_decls = ("--" + name.replace("_", "-"),)
            settings[name] = (kind, info, default)
    each = {name: Annotated[kind, info] for name, (kind, info, _) in settings.items()}
    defaults = {
        name: inspect.Parameter.empty if default is ... else default for name, (*_, default) in settings.items()
    }

    def decorated(run: Callable[[Any], None]) -> Callable[..., None]:
        @functools.wraps(run)
        def called(context: typer.Context, **given: Any) -> None:
            run(SimpleNamespace(context=context, **given))

        called.__annotations__ = {"context": typer.Context, **each}
        called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=kind,
                    default=defaults.get(name, inspect.Parameter.empty),
                )
                for name, kind in called.__annotations__.items()
            ]
        )
        del called.__wrapped__
        return called

    return decorated


PRECISION = option(
    str,
    "float32 or float64; by default that of the inputs, float64 for whole numbers.",
    **one_of("float32", "float64"),
)
SHARD = option(str, "Only part I of N, I from 0 to N − 1: for job arrays.", metavar="I/N", callback=part)


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
                raise InvalidArgumentError(parameter.opts[0], str(value), "a path of this machine")
        return super().invoke(ctx)


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
