"""What an option may be: a shell offers it, and a command reads it, or refuses it, before JAX is imported."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import typer

from equitangents.errors import InvalidArgumentError
from equitangents.keywords import unknown

Offers = Callable[[str], list[str]]
URL = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # what begins so is no path of this machine


def among(*values: str) -> Offers:
    """Offers the `values` that begin as what is typed; others may be right, too.

    >>> among("ntk", "nngp")("nt")
    ['ntk']
    """

    def offered(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return offered


GROUPS = among(
    "C2", "C4", "C8", "C16", "D2", "D4", "D8", "SO2", "SO3", "O3", "S_n", "translations", "reversal", "sign",
    "tetrahedral", "octahedral", "icosahedral",
)  # fmt: skip
SOLVERS = among("auto", "eigh", "cholesky", "out-of-core", "lanczos", "pcg", "nystrom")
NETS = among("mlp", "cnn", "FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
_NETS = ("mlp", "cnn", "FCN", "LCN", "VEC", "GAP", "LAP2", "LAP4", "FILE.json", "package.module:object")
"""LAPk pools over k × k for any k."""


Given = TypeVar("Given")
Read = TypeVar("Read")


def reads(read: Callable[[str, Given], Read]) -> Callable[[typer.CallbackParam, Given | None], Read | None]:
    """A callback of `typer.Option`: what `read(option, value)` makes of a value, or raises; None stays None."""

    def called(parameter: typer.CallbackParam, value: Any) -> Any:
        return None if value is None else read(parameter.opts[0], value)

    return called


def one_of(*values: str) -> dict[str, Any]:
    """What `typer.Option` takes for a value that is one of these: a shell offers them, others are refused."""

    def checked(option: str, value: str) -> str:
        if value not in values:
            raise unknown(option, value, values)
        return value

    return {"autocompletion": among(*values), "callback": reads(checked)}


def number(expected: str, allowed: Callable[[Any], bool], read: Callable[[Any], Any] = lambda value: value) -> Any:
    """A callback that takes allowed numbers alone, and reads them."""

    def checked(option: str, value: Any) -> Any:
        if not allowed(value):
            raise InvalidArgumentError(option, value, expected)
        return read(value)

    return reads(checked)


positive = number("a whole number, at least 1", lambda n: n >= 1)
probability = number("a number above 0, and at most 1", lambda p: 0 < p <= 1)
gigabytes = number("a positive number of GB", lambda size: 0 < size < math.inf, lambda size: int(size * 1e9))
"""So many GB as bytes."""


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


@reads
def one_ridge(option: str, text: str) -> float:
    """The number of --ridge; a value for each sample is for the library alone."""
    try:
        return float(text)
    except ValueError:
        remedy = "one for each sample takes Python: et.InfiniteEnsemble(net, ridge=array)"
        raise InvalidArgumentError(option, text, "one number", remedy) from None


def numbers(
    expected: str, allowed: Callable[[float], bool] = lambda value: True, single: bool = True, by_name: bool = True
) -> Callable[[typer.CallbackParam, Any], Any]:
    """Reads "0.1" or "10%" as a number (`single`), and "forces=10%,energy=1" as numbers `by_name`."""

    def one(option: str, text: str) -> float:
        plain = text.strip()
        try:
            value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
        except ValueError:
            value = math.nan
        if math.isnan(value) or not allowed(value):
            raise InvalidArgumentError(option, text, expected)
        return value

    @reads
    def read(option: str, text: str) -> float | dict[str, float]:
        if single and not (by_name and set("=,") & set(text)):
            return one(option, text)
        parts = [part.rpartition("=") for part in text.replace(" ", "").split(",")]
        if not all(name for name, _, _ in parts):
            raise InvalidArgumentError(option, text, "NAME=NUMBER,…")
        return {name: one(option, value) for name, _, value in parts}

    return read


@reads
def irreps_by_name(option: str, text: str) -> dict[str, str]:
    """ "node_feats=8x0e+4x1o,hidden=2x0e" as irreps by name."""
    parts = [one.partition("=") for one in text.replace(" ", "").split(",")]
    if not all(name and irreps for name, _, irreps in parts):
        raise InvalidArgumentError(option, text, "NAME=IRREPS,… such as node_feats=8x0e+4x1o")
    return {name: irreps for name, _, irreps in parts}


def _group(finite: bool) -> Any:
    def read(option: str, value: str) -> str:
        from equitangents.groups.names import KNOWN, KNOWN_FINITE, parse_group_name

        parse_group_name(option, value, KNOWN_FINITE if finite else KNOWN)
        return value

    return reads(read)


group_name, any_group = _group(finite=True), _group(finite=False)
"""The name of a finite group, and of any group."""


@reads
def net_name(option: str, value: str) -> str:
    """The name of an architecture, a file of layers that is there, or package.module:object."""
    if value.lower().endswith(".json"):
        _there(option, value)
    elif ":" not in value and value not in NETS("") and not re.fullmatch(r"LAP[1-9]\d*", value):
        raise unknown(option, value, _NETS)
    return value


def _there(option: str, value: Any) -> Any:
    if Path(value).is_fifo():
        raise InvalidArgumentError(
            option, str(value), "a file, since inputs are read more than once", "write the pipe to a file"
        )
    if URL.match(str(value)) or Path(value).expanduser().exists():
        return value
    raise InvalidArgumentError(option, str(value), "a file or folder", nearest(value))


there = reads(_there)
"""A file or folder that is there, or a URL; InvalidArgumentError, with the nearest name beside it, for others."""


@reads
def local_file(option: str, value: Any) -> Any:
    """A file of this machine that is there."""
    if not Path(value).is_file():
        raise InvalidArgumentError(option, str(value), "a file", nearest(value))
    return value


def check_writable(option: str, path: Path) -> Path:
    """The path, or InvalidArgumentError unless a file can be written there; its folder is made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(option, str(path), "a file that can be written", str(error)) from None
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidArgumentError(option, str(path), "a file that can be written")
    return path


writable = reads(check_writable)


def nearest(path: Path | str) -> str:
    """ "did you mean 'tiles'?" where the folder of a path that is not there has one of nearly this name."""
    place = Path(path).expanduser()
    try:
        beside = {entry.stem: entry.name for entry in place.parent.iterdir() if entry.suffix == place.suffix}
    except OSError:
        return ""
    near = difflib.get_close_matches(place.stem, beside, n=1)
    return f"did you mean {beside[near[0]]!r}?" if near else ""
