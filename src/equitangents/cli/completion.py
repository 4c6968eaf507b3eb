"""What an option may be: a shell offers it, and a command refuses others at once, before JAX is imported."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

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
_NETS = (
    "mlp",
    "cnn",
    "FCN",
    "LCN",
    "VEC",
    "GAP",
    "LAP2",
    "LAP4",
    "FILE.json",
    "package.module:object",
)  # LAPk pools over k × k for any k


def one_of(*values: str) -> dict[str, Any]:
    """What `typer.Option` takes for a value that is one of these: a shell offers them, others are refused."""

    def checked(parameter: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None and value not in values:
            from equitangents.keywords import unknown

            raise unknown(parameter.opts[0], value, values)
        return value

    return {"autocompletion": among(*values), "callback": checked}


def positive(parameter: typer.CallbackParam, value: int | None) -> int | None:
    """A number of things, at least 1."""
    if value is not None and value < 1:
        from equitangents.errors import InvalidArgumentError

        raise InvalidArgumentError(parameter.opts[0], value, "a whole number, at least 1")
    return value


def group_name(value: str | None) -> str | None:
    """The name of a group; InvalidArgumentError for others, which offers finite ones, as what is computed with it."""
    from equitangents.groups.names import KNOWN_FINITE, parse_group_name

    if value is not None:
        parse_group_name("group", value, KNOWN_FINITE)
    return value


def net_name(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """The name of an architecture, a file of layers that is there, or package.module:object."""
    if value is None:
        return None
    if value.lower().endswith(".json"):
        there(parameter, value)
        return value
    if ":" not in value and value not in NETS("") and not re.fullmatch(r"LAP[1-9]\d*", value):
        from equitangents.keywords import unknown

        raise unknown(parameter.opts[0], value, _NETS)
    return value


def there(parameter: typer.CallbackParam, value: Any) -> Any:
    """A file or folder that is there, or a URL; InvalidArgumentError, with the nearest name beside it, for others."""
    from equitangents.errors import InvalidArgumentError

    if value is not None and Path(value).is_fifo():
        raise InvalidArgumentError(
            parameter.opts[0], str(value), "a file, since inputs are read more than once", "write the pipe to a file"
        )
    if value is None or URL.match(str(value)) or Path(value).expanduser().exists():
        return value
    raise InvalidArgumentError(parameter.opts[0], str(value), "a file or folder", nearest(value))


def nearest(path: Path | str) -> str:
    """ "did you mean 'tiles'?" where the folder of a path that is not there has one of nearly this name."""
    place = Path(path).expanduser()
    try:
        beside = {entry.stem: entry.name for entry in place.parent.iterdir() if entry.suffix == place.suffix}
    except OSError:
        return ""
    near = difflib.get_close_matches(place.stem, beside, n=1)
    return f"did you mean {beside[near[0]]!r}?" if near else ""
