"""Options of commands as data, with completions and checks that need no JAX; the network of `--net`; progress."""

from __future__ import annotations

import copy
import inspect
import logging
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

import equitangents
from equitangents.errors import InvalidArgumentError
from equitangents.keywords import unknown

URL = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # the start of a URL
AUTO = "auto"
PLACE = "PATH|URL"  # also s3://bucket/name and the like
_ERASED = "\r\033[K"  # erases the line of a stage
_GROUPS = (
    "C2", "C4", "C8", "C16", "D2", "D4", "D8", "SO2", "SO3", "O3", "S_n", "translations", "reversal", "sign",
    "tetrahedral", "octahedral", "icosahedral",
)  # fmt: skip
_NETS = ("mlp", "cnn", "FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")  # LAPk pools over k × k for any k
SOLVERS = ("auto", "eigh", "cholesky", "out-of-core", "lanczos", "pcg", "nystrom")


def reads(read: Callable[[str, Any], Any]) -> Any:
    """A callback of `typer.Option`: value ↦ read(option, value), which may raise; None stays None."""

    def called(parameter: typer.CallbackParam, value: Any) -> Any:
        return None if value is None else read(parameter.opts[0], value)

    return called


def offered(read: Callable[[str, str], str], *values: str) -> dict[str, Any]:
    """Keywords of `typer.Option`: a shell completes these values; others may be valid."""
    beginning = lambda incomplete: [value for value in values if value.startswith(incomplete)]  # typer knows this name
    return {"autocompletion": beginning, "callback": reads(read)}


def one_of(*values: str) -> dict[str, Any]:
    """Keywords of `typer.Option` for one of these values: a shell completes them, others are refused."""

    def checked(option: str, value: str) -> str:
        if value not in values:
            raise unknown(option, value, values)
        return value

    return offered(checked, *values)


def a_group(*more: str, finite: bool = True) -> dict[str, Any]:
    """Keywords of `typer.Option` for the name of a group, by default a finite one, or one `more` word."""

    def checked(option: str, value: str) -> str:
        from equitangents.groups.names import KNOWN, KNOWN_FINITE, parse_group_name

        if value not in more:
            parse_group_name(option, value, KNOWN_FINITE if finite else KNOWN)
        return value

    return offered(checked, *more, *_GROUPS)


def a_net(*more: str) -> dict[str, Any]:
    """Keywords of `typer.Option` for an architecture, a file of layers, package.module:object, or one `more` word."""

    def checked(option: str, value: str) -> str:
        layers = value.lower().endswith(".json")
        if layers and not Path(value).expanduser().exists():
            raise InvalidArgumentError(option, value, "a file")
        if not (layers or ":" in value or value in (*more, *_NETS) or re.fullmatch(r"LAP[1-9]\d*", value)):
            raise unknown(option, value, (*more, *_NETS, "FILE.json", "package.module:object"))
        return value

    return offered(checked, *more, *_NETS)


@reads
def part(option: str, value: str) -> tuple[int, int]:
    """ "3/64" as (3, 64)."""
    index, slash, count = value.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise InvalidArgumentError(option, value, "I/N with I from 0 to N − 1, such as 0/64")
    return int(index), int(count)


@reads
def shape(option: str, value: str) -> tuple[int, ...]:
    """ "32,32,3" as (32, 32, 3)."""
    parts = value.replace(" ", "").split(",")
    if not all(each.isdecimal() and int(each) for each in parts):
        raise InvalidArgumentError(option, value, "sizes such as 32,32,3")
    return tuple(map(int, parts))


def numbers(
    expected: str, allowed: Callable[[float], bool] = math.isfinite, single: bool = True, named: bool = False
) -> Any:
    """Reads "0.1" or "10%" as a number (`single`), and "forces=10%,energy=1" as numbers by name (`named`)."""

    def one(option: str, text: str) -> float:
        plain = text.strip()
        try:
            value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
        except ValueError:
            value = math.nan
        if math.isnan(value) or not allowed(value):
            raise InvalidArgumentError(option, text, expected)
        return value

    def read(option: str, text: str) -> float | dict[str, float]:
        if single and not (named and set("=,") & set(text)):
            return one(option, text)
        parts = [part.rpartition("=") for part in text.replace(" ", "").split(",")]
        if not all(name and value for name, _, value in parts):
            raise InvalidArgumentError(option, text, "NAME=NUMBER,…")
        return {name: one(option, value) for name, _, value in parts}

    return reads(read)


probability = numbers("a number above 0, and at most 1", lambda p: 0 < p <= 1)


@reads
def there(option: str, value: Any) -> Any:
    """An existing file or folder, or a URL; raises InvalidArgumentError for others."""
    if Path(value).is_fifo():
        raise InvalidArgumentError(
            option, str(value), "a file, since inputs are read more than once", "write the pipe to a file"
        )
    if URL.match(str(value)) or Path(value).expanduser().exists():
        return value
    raise InvalidArgumentError(option, str(value), "a file or folder")


@reads
def local_file(option: str, value: Any) -> Any:
    """An existing file on this machine."""
    if not Path(value).is_file():
        raise InvalidArgumentError(option, str(value), "a file")
    return value


def check_writable(option: str, path: Path) -> None:
    """Raise InvalidArgumentError unless a file can be written there, in a folder that exists or can be made."""
    folder = next(each for each in path.absolute().parents if each.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidArgumentError(option, str(path), "a file that can be written")


@reads
def writable(option: str, path: Path) -> Path:
    """A file that can be written; its folder is made, except for a URL, which the command refuses."""
    check_writable(option, path)
    if not URL.match(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


_METAVARS = {str: "TEXT", int: "N", float: "X", Path: "FILE", bool: ""}
Setting = tuple[Any, Any, Any]  # (type of the value, option of typer, default; ... for none)


def option(kind: Any, text: str, default: Any = None, *names: str, **more: Any) -> Setting:
    """An option; one whose default is None may be left out, and one whose default is ... may not."""
    more.setdefault("metavar", _METAVARS.get(kind))
    return kind if default is not None else kind | None, typer.Option(*names, help=text, **more), default


def argument(kind: Any, text: str, **more: Any) -> Setting:
    """A required positional argument."""
    return kind, typer.Argument(help=text, **more), ...


def pick(text: str, default: str | None, *values: str) -> Setting:
    """An option that is one of the values, which its help lists."""
    return option(str, f"{text}: {', '.join(values)}.", default, metavar="NAME", **one_of(*values))


def path(text: str, default: Any = None) -> Setting:
    """An option for an existing file or folder, or a URL."""
    return option(str, text, default, metavar=PLACE, callback=there)


def number(text: str, read: Any, metavar: str = "X") -> Setting:
    """An option whose text `read`, made by `numbers`, reads as a number, or as several by name."""
    return option(str, text, metavar=metavar, callback=read)


def flag(text: str) -> Setting:
    """An option without a value, False by default, and without an opposite."""
    return bool, typer.Option(help=text, metavar=""), False


def panel(title: str, **settings: Setting) -> dict[str, Setting]:
    """Settings shown as one group in the help of a command."""
    copies = {name: (kind, copy.copy(info), default) for name, (kind, info, default) in settings.items()}
    for _, info, _ in copies.values():
        info.rich_help_panel = title
    return copies


def command(**settings: Setting) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """A decorator that makes a command of typer from a function of one object, with these settings as attributes.

    Its `context` is that of the command.
    """
    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name, (kind, info, default) in settings.items():
        if default is False:
            info.param_decls = ("--" + name.replace("_", "-"),)
        default = inspect.Parameter.empty if default is ... else default
        parameters.append(parameters[0].replace(name=name, annotation=Annotated[kind, info], default=default))

    def decorated(run: Callable[[Any], None]) -> Callable[..., None]:
        def called(context: typer.Context, **values: Any) -> None:
            run(SimpleNamespace(context=context, **values))

        called.__name__, called.__doc__ = run.__name__, run.__doc__
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return called

    return decorated


PRECISION = pick(
    "Floating-point type, by default that of the inputs (float64 for whole numbers)", None, "float32", "float64"
)
SHARD = option(str, "Compute only part I of N (I from 0 to N − 1), for job arrays.", metavar="I/N", callback=part)
NETS = "mlp, cnn, FCN, VEC, LCN, GAP, LAP4, …, a .json file of layers, or package.module:object"
JSON = option(Path, "Write the result to this file, as JSON.", callback=writable)
STDS = {
    "w_std": option(
        float, "Weight standard deviation of mlp and cnn, by default √2.", math.sqrt(2), "--W-std", show_default=False
    ),
    "b_std": option(float, "Bias standard deviation of mlp and cnn.", 0.1, "--b-std"),
}
SHAPE = {"depth": option(int, "Hidden layers, by default 2 for mlp and cnn, 8 for the others.", min=1), **STDS}


def network(spec: str, depth: int | None = None, w_std: float = 1.0, b_std: float = 0.0) -> Any:
    """The network named by `--net`, checked by `a_net`."""
    from equitangents.nn.specification import plain_network, read_network

    if spec.lower().endswith(".json"):
        return read_network(Path(spec))
    if ":" in spec:
        from equitangents.audit.adapters.choose import imported

        return imported(spec, "net")
    if spec in ("mlp", "cnn"):
        return plain_network(spec, depth or 2, w_std, b_std)
    return equitangents.systems.architecture(spec, depth or 8)


@contextmanager
def announced(name: str) -> Iterator[None]:
    """Meanwhile print messages of the logger `name` on stderr, such as an estimated time, each once."""
    logger, echo, printed = logging.getLogger(name), logging.StreamHandler(sys.stderr), dict[str, logging.LogRecord]()
    echo.addFilter(lambda record: printed.setdefault(record.getMessage(), record) is record)
    echo.setFormatter(logging.Formatter(f"{_ERASED if sys.stderr.isatty() else ''}%(message)s"))
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
    """A context with a function that shows the current stage in one line on stderr, on a terminal only.

    The line is erased by "" and at the end.
    """
    terminal = sys.stderr.isatty()

    def stage(doing: str) -> None:
        if terminal:
            print(f"{_ERASED}{doing} …" if doing else _ERASED, end="", file=sys.stderr, flush=True)

    try:
        yield stage
    finally:
        stage("")
