"""Options of `equitangents audit` as values; what can be refused is, before anything heavy is imported."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equitangents.cli.completion import nearest
from equitangents.errors import InvalidArgumentError

if TYPE_CHECKING:
    from equitangents._types import ArrayLike


Limits = float | dict[str, float] | None


def check_file(name: str, path: Path | str | None) -> None:
    """Raise unless the file that is to be read is there, or none is given."""
    if path is not None and not Path(path).is_file():
        raise InvalidArgumentError(name, str(path), "a file", nearest(path))


def limits_of(text: str | None) -> Limits:
    """--fail-above: one share, or shares by name."""
    return numbers(text, "--fail-above", "a number, at least 0", lambda limit: 0 <= limit < math.inf)


def agreement_of(text: str | None) -> float | None:
    """--min-agreement: a share from 0 to 1."""
    return None if text is None else _share(text, "--min-agreement", "a share, 0.95 or 95%", lambda v: 0 <= v <= 1)


def tolerance_of(text: str | None) -> float | None:
    """--tolerance: a share, above 0."""
    known = lambda value: 0 < value < math.inf
    return None if text is None else _share(text, "--tolerance", "a number above 0, 0.01 or 1%", known)


def numbers(
    text: str | None, option: str, expected: str, allowed: Callable[[float], bool] = lambda value: True
) -> Limits:
    """ "0.1" or "10%" as a number, "forces=10%,energy=1" as numbers by name."""
    if text is None:
        return None
    parts = [part.rpartition("=") for part in text.replace(" ", "").split(",")]
    values = [_share(number, option, expected, allowed) for _, _, number in parts]
    if len(parts) == 1 and not parts[0][1]:
        return values[0]
    if not all(name for name, _, _ in parts):
        raise InvalidArgumentError(option, text, "one number, or NAME=NUMBER,… for each")
    return {name: value for (name, _, _), value in zip(parts, values, strict=True)}


def named(text: str | None) -> dict[str, float] | None:
    """--tolerances: "forces=1,energy=0.1" as numbers by name."""
    found = numbers(text, "--tolerances", "NAME=NUMBER,…")
    if isinstance(found, float):
        raise InvalidArgumentError("--tolerances", text, "NAME=NUMBER,…")
    return found


def _share(text: str, option: str, expected: str, allowed: Callable[[float], bool]) -> float:
    """ "5%", "5 %" and "0.05" as 0.05."""
    plain = text.strip()
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if math.isnan(value) or not allowed(value):
        raise InvalidArgumentError(option, text, expected)
    return value


def kinds_of(text: str | None, x: object) -> Any:
    """--inputs: "vectors,none" as the tree of kinds that belongs to x."""
    if text is None:
        return None
    parts = [None if part in ("none", "invariant") else part for part in text.replace(" ", "").split(",")]
    if isinstance(x, dict):
        if len(parts) != len(x):
            raise InvalidArgumentError("--inputs", text, "a kind for each of the inputs", ", ".join(x))
        return dict(zip(x, parts, strict=True))
    return parts[0] if len(parts) == 1 else tuple(parts)


def limited(x: ArrayLike, y: ArrayLike, limit: int | None, seed: int, axis: int = 0) -> tuple[Any, Any]:
    """--limit: at most so many rows of x, whose batch is along `axis`, and of y."""
    if limit is None:
        return x, y
    import numpy as np

    arrays = x if isinstance(x, dict) else {"x": x}
    n = np.shape(next(iter(arrays.values())))[axis]
    rows = np.sort(np.random.default_rng(seed).choice(n, min(limit, n), replace=False))
    chosen = {name: np.take(np.asarray(a), rows, axis=axis) for name, a in arrays.items()}
    return (chosen if isinstance(x, dict) else chosen["x"]), (None if y is None else np.asarray(y)[rows])


def output_kinds(text: str | None) -> Any:
    """ "vectors,none", "labels:3,0,1,2/1,0,3,2", "boxes=unordered,scores=none" as what `output_action` takes."""
    if text is None:
        return None
    parts: list[str] = []
    for part in text.replace(" ", "").split(","):
        if parts and parts[-1].rpartition("=")[2].startswith("labels:") and part.replace("/", "").isdigit():
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    named = [part.partition("=") for part in parts]
    if all(equals for _, equals, _ in named):
        return {name: _output_kind(kind) for name, _, kind in named}
    if any(equals for _, equals, _ in named):
        raise InvalidArgumentError("--outputs", text, "a kind for each output, all with NAME= or none")
    kinds = [_output_kind(part) for part in parts]
    return kinds[0] if len(kinds) == 1 else tuple(kinds)


def _output_kind(text: str) -> Any:
    """One output's kind; "@1" after it: its batch is along axis 1."""
    kind, at, axis = text.partition("@")
    if at:
        from equitangents.audit.contract.trees import Batch

        if not axis.isdigit():
            raise InvalidArgumentError("--outputs", text, "KIND@AXIS, such as vectors@1")
        return Batch(_output_kind(kind), int(axis))
    if kind.startswith("unordered"):
        from equitangents.audit.contract.unordered import parse

        return parse(kind)
    if not kind.startswith("labels:"):
        return None if kind == "none" else kind
    from equitangents.audit.contract.kinds import Labels

    try:
        rows = [[int(c) for c in row.split(",")] for row in kind.removeprefix("labels:").split("/")]
    except ValueError:
        raise InvalidArgumentError("--outputs", text, "labels:3,0,1,2, where each class goes") from None
    return Labels(rows)
