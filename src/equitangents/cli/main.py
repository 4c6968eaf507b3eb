"""The `equitangents` command: joins the subcommands and turns what goes wrong into an exit status.

0 done, 1 a crash (with its traceback) or a failed self-test, 2 bad input (one line on stderr), 130 Ctrl-C.
Nothing heavy is imported here: `--help` and `list` start without JAX.
"""

from __future__ import annotations

import errno
import functools
import io
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from equitangents import __version__, beside
from equitangents.cli.audit import audit
from equitangents.cli.audit_potential import audit_potential
from equitangents.cli.cache import cache
from equitangents.cli.common import AGAIN, LocalPaths
from equitangents.cli.doctor import doctor
from equitangents.cli.fit import EXAMPLES, fit
from equitangents.cli.gram import gram
from equitangents.cli.plan import plan
from equitangents.cli.predict import predict
from equitangents.errors import EquitangentsError, ModelError
from equitangents.memory import check_start, ran_out

_OF_PYTHON = {"fit": {"augmentation": "--group"}}  # what subcommands give on under another name
_VERBS = ("is ", "has ", "holds ")


def by_option(error: EquitangentsError, options: Mapping[str, str]) -> str:
    """The message of an error, with the argument that it is about as the option of the same name.

    >>> from equitangents.errors import InvalidArgumentError
    >>> by_option(InvalidArgumentError("learning_rate", 0.0, "a positive number"), {"learning_rate": "--learning-rate"})
    '--learning-rate is 0.0; expected a positive number'
    """
    if error.argument is not None:
        return error.shown(options)
    first, _, rest = str(error).partition(" ")
    return f"{options[first]} {rest}" if first in options and rest.startswith(_VERBS) else str(error)


def options_of(command: Any) -> dict[str, str]:
    """The options of a command by the names of its parameters, and by Python's: --W-std is that of W_std."""
    found = {str(p.name): p.opts[0] for p in command.params if p.opts and p.opts[0].startswith("--")}
    capital = {option[2:].replace("-", "_"): option for option in found.values() if option != option.lower()}
    return {"X": "x"} | found | capital | _OF_PYTHON.get(str(command.name), {})  # X: scikit-learn's name of inputs


# The class of all of typer's complaints about usage, which it does not export by name.
UsageError: Any = typer.BadParameter.__base__


_WITHOUT_JAX = {"list", "cache"}
INTERRUPTED = f"interrupted; nothing new is kept: {AGAIN}"


class OneLineErrors(TyperGroup):
    """Reports an error that the package raised on purpose like one of usage, unless --debug asks for its traceback."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The chosen subcommand, where there is room for what it computes with."""
        name, command, rest = super().resolve_command(ctx, args)
        if name not in _WITHOUT_JAX and "--help" not in rest:
            check_start()
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen subcommand."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            _stop(str(stop) or INTERRUPTED, 130)
        except EquitangentsError as error:
            if ctx.params["debug"]:
                raise
            raise UsageError(self._said(ctx, error)) from error
        except (MemoryError, RuntimeError) as error:
            if ctx.params["debug"] or not ran_out(error):
                raise
            found = (str(error) or "none was left").splitlines()[0]
            raise UsageError(
                f"memory ran out ({found}); compute fewer inputs at a time, give a smaller memory limit, or allow this "
                "process more (ulimit -v, the container's limit)"
            ) from error
        except OSError as error:
            if ctx.params["debug"] or not of_files(error):
                raise
            where = "" if error.filename is None else f": {error.filename}"
            raise UsageError(f"a file or folder cannot be read or written: {error.strerror}{where}") from error

    def _said(self, ctx: Any, error: EquitangentsError) -> str:
        """The error in the words of the subcommand; what a model raised stays as it is."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        if command is None or isinstance(error, ModelError):
            return str(error)
        return by_option(error, options_of(command))


def of_files(error: OSError) -> bool:
    """Whether a file, a folder or a disk is the cause: not a closed pipe, a connection, or a fault of the program."""
    return error.filename is not None or error.errno in {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EIO,
    }


app = typer.Typer(name="equitangents", cls=OneLineErrors, pretty_exceptions_enable=False)
for _name, _command in beside.commands().items():
    app.command(_name, cls=LocalPaths)(_command)
app.command("audit", cls=LocalPaths)(audit)
app.command("audit-potential", cls=LocalPaths)(audit_potential)
app.command("plan", cls=LocalPaths)(plan)
app.command("gram", cls=LocalPaths)(gram)
app.command("fit", cls=LocalPaths, epilog=EXAMPLES)(fit)
app.command("predict", cls=LocalPaths)(predict)
app.command("doctor", cls=LocalPaths)(doctor)
app.command("cache", cls=LocalPaths)(cache)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equitangents {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _equitangents(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="EQUITANGENTS_DEBUG", help="Show the traceback of every error."),
    ] = False,
) -> None:
    """What a neural network learns from symmetric data, exactly and at scale."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on `arguments` (default: those of the process) and exit with its status."""
    _never_fail_to_write()
    try:
        status = _command_line()(arguments, prog_name="equitangents", standalone_mode=False)
    except UsageError as error:
        _stop(error.format_message(), 2)
    except EquitangentsError:
        traceback.print_exc()
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        _stop(INTERRUPTED, 130)
    if status == 130:  # how typer itself reports Ctrl-C
        _stop(INTERRUPTED, 130)
    sys.exit(status or 0)


@functools.cache
def _command_line() -> Any:
    """The command with its subcommands: built once a process, since that takes longer than most of what these do."""
    return typer.main.get_command(app)


def _never_fail_to_write() -> None:
    """What the encoding of a terminal or pipe lacks, such as ∞ in Latin-1, becomes "?", and no result is lost."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _stop(message: str, status: int) -> NoReturn:
    print("equitangents:", " ".join(message.split()), file=sys.stderr)
    sys.exit(status)
