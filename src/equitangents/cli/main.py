"""The `equitangents` command: its subcommands, and exit statuses for errors.

0 done, 1 a crash (with its traceback) or a failed self-test, 2 bad input (one line on stderr), 3 an audit's limit is
not met, 130 Ctrl-C.
Nothing heavy is imported here: `--help` and `list` start without JAX.
"""

from __future__ import annotations

import errno
import functools
import importlib.util
import io
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from equitangents import __version__
from equitangents.cli.audit import audit, audit_potential
from equitangents.cli.doctor import doctor
from equitangents.cli.fit import fit
from equitangents.cli.gram import gram
from equitangents.cli.options import URL
from equitangents.cli.plan import plan
from equitangents.cli.predict import predict
from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.memory import ran_out

INTERRUPTED = "interrupted; the same command resumes with what is on disk, or starts again"
_command_line = functools.cache(typer.main.get_command)  # building it is slow
UsageError: Any = typer.BadParameter.__base__  # of all usage errors, which typer does not export
_ELSEWHERE = {"X": "x", "augmentation": "--group", "together": "--keep-together"}  # from Python to the command line
_OF_STORES = {"x1": "--data", "x2": "--against", "path": "--out"}  # of `gram`
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def options_of(command: Any) -> dict[str, str]:
    """The options of a command by the names of arguments: --W-std is that of W_std."""
    options = {p.name: p.opts[0] for p in command.params if p.opts and p.opts[0].startswith("--")}
    known = _ELSEWHERE | (_OF_STORES if command.name == "gram" else {}) | options
    return known | {option[2:].replace("-", "_"): option for option in options.values()}


def line_of(error: Exception, options: Mapping[str, str]) -> str | None:
    """One line for bad input, too little memory or disk errors, with the names of options; None for a crash.

    >>> from equitangents.errors import InvalidArgumentError
    >>> line_of(InvalidArgumentError("learning_rate", 0.0, "a positive number"), {"learning_rate": "--learning-rate"})
    '--learning-rate is 0.0; expected a positive number'
    """
    if isinstance(error, EquitangentsError):
        return error.shown(options)
    if isinstance(error, MemoryError | RuntimeError) and ran_out(error):
        lacking = (str(error) or "none was left").splitlines()[0]
        return (
            f"memory ran out ({lacking}); compute fewer inputs at a time, give a smaller memory limit, or allow this "
            "process more (ulimit -v, the container's limit)"
        )
    if isinstance(error, OSError) and (error.filename is not None or error.errno in _OF_DISKS):
        where = "" if error.filename is None else f": {error.filename}"
        return f"a file or folder cannot be read or written: {error.strerror}{where}"
    return None


class OneLineErrors(TyperGroup):
    """Shows errors of the package in one line, as usage errors; with --debug as a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen subcommand."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            _stop(str(stop) or INTERRUPTED, 130)
        except Exception as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            line = line_of(error, {} if command is None else options_of(command))
            if line is None or ctx.params["debug"]:
                raise
            raise UsageError(line) from error


class LocalPaths(TyperCommand):
    """A command that refuses a URL where files of this machine are expected, in place of making a folder `s3:`.

    Paragraphs of its help are joined to one line, which a terminal wraps.
    """

    def __init__(self, *arguments: Any, help: str = "", **settings: Any) -> None:
        super().__init__(*arguments, help=re.sub(r"(?<!\n)\n(?!\n)", " ", help), **settings)

    def invoke(self, ctx: Any) -> Any:
        """Check all options that are paths, and run the command."""
        for parameter in self.params:
            value = ctx.params.get(str(parameter.name))
            if isinstance(value, Path) and URL.match(str(value)):
                raise InvalidArgumentError(str(parameter.name), str(value), "a path of this machine")
        return super().invoke(ctx)


app = typer.Typer(name="equitangents", cls=OneLineErrors, pretty_exceptions_enable=False)
for _command in (fit, predict, audit, audit_potential, plan, gram, doctor):
    app.command(cls=LocalPaths)(_command)
if importlib.util.find_spec("equitangents_studies"):
    for _name, _command in importlib.import_module("equitangents_studies.commands").COMMANDS.items():
        app.command(_name, cls=LocalPaths)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equitangents {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _equitangents(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit.", metavar=""
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="EQUITANGENTS_DEBUG", help="Show the traceback of an error.", metavar="")
    ] = False,
) -> None:
    """What a neural network learns from symmetric data, exactly and at scale."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on `arguments` (default: those of the process) and exit with its status."""
    for stream in (sys.stdout, sys.stderr):  # what an encoding lacks, such as ∞ in Latin-1, becomes "?"
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    try:
        status = _command_line(app)(arguments, prog_name="equitangents", standalone_mode=False)
    except UsageError as error:
        _stop(error.format_message(), 2)
    except EquitangentsError:
        traceback.print_exc()
        sys.exit(2)
    except OSError as error:  # of the help, written to a full disk
        if (line := line_of(error, {})) is None:
            raise
        _stop(line, 2)
    except (KeyboardInterrupt, typer.Abort):
        _stop(INTERRUPTED, 130)
    if status == 130:  # how typer itself reports Ctrl-C
        _stop(INTERRUPTED, 130)
    sys.exit(status or 0)


def _stop(message: str, status: int) -> NoReturn:
    print("equitangents:", " ".join(message.split()), file=sys.stderr)
    sys.exit(status)
