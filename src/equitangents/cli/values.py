"""What an option may be: a shell offers it, and a command reads it, or refuses it, before JAX is imported."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from equitangents.errors import InvalidArgumentError
from equitangents.keywords import unknown

URL = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # what begins so is no path of this machine

AUTO = "auto"
_GROUPS = (
    "C2", "C4", "C8", "C16", "D2", "D4", "D8", "SO2", "SO3", "O3", "S_n", "translations", "reversal", "sign",
    "tetrahedral", "octahedral", "icosahedral",
)  # fmt: skip
_NETS = ("mlp", "cnn", "FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")  # LAPk pools over k × k for any k
SOLVERS = ("auto", "eigh", "cholesky", "out-of-core", "lanczos", "pcg", "nystrom")


def reads(read: Callable[[str, Any], Any]) -> Any:
    """A callback of `typer.Option`: what `read(option, value)` makes of a value, or raises; None stays None."""

    def called(parameter: typer.CallbackParam, value: Any) -> Any:
        return None if value is None else read(parameter.opts[0], value)

    return called


def offered(read: Callable[[str, str], str], *values: str) -> dict[str, Any]:
    """What `typer.Option` takes: a shell offers the values that begin as what is typed; others may be right, too."""
    beginning = lambda incomplete: [value for value in values if value.startswith(incomplete)]  # typer knows this name
    return {"autocompletion": beginning, "callback": reads(read)}


def one_of(*values: str) -> dict[str, Any]:
    """What `typer.Option` takes for a value that is one of these: a shell offers them, others are refused."""

    def checked(option: str, value: str) -> str:
        if value not in values:
            raise unknown(option, value, values)
        return value

    return offered(checked, *values)


def a_group(*more: str, finite: bool = True) -> dict[str, Any]:
    """What `typer.Option` takes for the name of a finite group, or of any group, or one `more` word."""

    def checked(option: str, value: str) -> str:
        from equitangents.groups.names import KNOWN, KNOWN_FINITE, parse_group_name

        if value not in more:
            parse_group_name(option, value, KNOWN_FINITE if finite else KNOWN)
        return value

    return offered(checked, *more, *_GROUPS)


def a_net(*more: str) -> dict[str, Any]:
    """What `typer.Option` takes for an architecture, a file of layers, package.module:object, or one `more` word."""

    def checked(option: str, value: str) -> str:
        if value.lower().endswith(".json"):
            return str(_there(option, value))
        if ":" not in value and value not in (*more, *_NETS) and not re.fullmatch(r"LAP[1-9]\d*", value):
            raise unknown(option, value, (*more, *_NETS, "FILE.json", "package.module:object"))
        return value

    return offered(checked, *more, *_NETS)


@reads
def part(option: str, value: str) -> tuple[int, int]:
    """ "3/64" as (3, 64)."""
    index, slash, count = value.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise InvalidArgumentError(option, value, "I/N with I from 0 to N − 1, such as 0/64")
    return int(index), int(count)


@reads
def shape(option: str, value: str) -> tuple[int, ...]:
    """ "32,32,3" as (32, 32, 3)."""
    parts = value.replace(" ", "").split(",")
    if not all(each.isdigit() and int(each) for each in parts):
        raise InvalidArgumentError(option, value, "sizes such as 32,32,3")
    return tuple(map(int, parts))


def by_name(option: str, text: str, form: str) -> dict[str, str]:
    """ "forces=10%,energy=1" as text by name."""
    parts = [part.rpartition("=") for part in text.replace(" ", "").split(",")]
    if not all(name and value for name, _, value in parts):
        raise InvalidArgumentError(option, text, form)
    return {name: value for name, _, value in parts}


@reads
def irreps_by_name(option: str, text: str) -> dict[str, str]:
    """ "node_feats=8x0e+4x1o,hidden=2x0e" as irreps by name."""
    return by_name(option, text, "NAME=IRREPS,… such as node_feats=8x0e+4x1o")


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
        return {name: one(option, value) for name, value in by_name(option, text, "NAME=NUMBER,…").items()}

    return reads(read)


probability = numbers("a number above 0, and at most 1", lambda p: 0 < p <= 1)


def _there(option: str, value: Any) -> Any:
    if Path(value).is_fifo():
        raise InvalidArgumentError(
            option, str(value), "a file, since inputs are read more than once", "write the pipe to a file"
        )
    if URL.match(str(value)) or Path(value).expanduser().exists():
        return value
    raise InvalidArgumentError(option, str(value), "a file or folder")


there = reads(_there)
"""A file or folder that is there, or a URL; InvalidArgumentError for others."""


@reads
def local_file(option: str, value: Any) -> Any:
    """A file of this machine that is there."""
    if not Path(value).is_file():
        raise InvalidArgumentError(option, str(value), "a file")
    return value


def check_writable(option: str, path: Path) -> Path:
    """The path, or InvalidArgumentError unless a file can be written there; its folder is made."""
    if URL.match(str(path)):
        raise InvalidArgumentError(option, str(path), "a path of this machine")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(option, str(path), "a file that can be written", str(error)) from None
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidArgumentError(option, str(path), "a file that can be written")
    return path


writable = reads(check_writable)
