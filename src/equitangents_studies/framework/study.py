"""A study: settings, a measurement, claims about it, figures and tables; and how settings are read from text.

Settings are a frozen dataclass, changed by `--set members=20 --set widths=64,128`. With `framework.claims` and
`framework.drawing` this is all that a study needs.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.extending import unknown
from equitangents.report import Figure, Table
from equitangents_studies.claim import Claim
from equitangents_studies.framework.folder import Arrays, NamedStage, RunFolder
from equitangents_studies.framework.progress import Task

__all__ = [
    "Arrays", "NamedStage", "Present", "RunFolder", "Shown", "Study", "Task", "as_dict", "as_text", "at_least",
    "changed", "check", "check_some", "presets",
]  # fmt: skip

SettingsT = TypeVar("SettingsT")
ResultsT = TypeVar("ResultsT")

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


Shown = Figure | Table
"""A figure or table of a page. The first figure is the one that the source shows, above the claims."""


@dataclass(frozen=True)
class Study(Generic[SettingsT, ResultsT]):
    """A study as the runner sees it.

    `check` raises InvalidArgumentError for settings or data (in the folder of data, if there is one) that cannot be
    used, before anything is written. `measure` computes, in resumable stages; `claims` compares the numbers with what
    the source states. `claims` is quick and depends only on its arguments, like `present(settings, results, folder)` of
    the study's page.
    """

    presets: Mapping[str, SettingsT]
    measure: Callable[[SettingsT, RunFolder], ResultsT]
    claims: Callable[[SettingsT, ResultsT], Sequence[Claim]]
    citations: tuple[str, ...]
    check: Callable[[SettingsT, Path | None], None] = lambda settings, data_dir: None


Present = Callable[[Any, Any, RunFolder], Sequence[Shown]]


def changed(settings: SettingsT, changes: Mapping[str, str] | None) -> SettingsT:
    """`settings` with each named field replaced by its text, parsed by the field's type.

    Types: int, float, bool, str, Literal[...], tuple[X, ...] (comma-separated) and X | None ("none").
    Raises InvalidArgumentError naming the valid keys for an unknown key, and the type for text that does not fit.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Settings:
        ...     members: int = 10
        ...     widths: tuple[int, ...] = (8, 16)
        >>> changed(Settings(), {"widths": "64,128"})
        Settings(members=10, widths=(64, 128))
    """
    if not changes:
        return settings
    hints = typing.get_type_hints(type(settings))
    hints = {field.name: hints[field.name] for field in dataclasses.fields(settings)}  # type: ignore[arg-type]
    values = {}
    for key, text in changes.items():
        name = key.replace("-", "_")
        if name not in hints:
            raise unknown("setting", key, hints)
        if not isinstance(text, str):
            raise InvalidTypeError(key, text, "text, as after --set", _as_text(text), verb="was")
        values[name] = _parse(key, text, hints[name])
    return dataclasses.replace(settings, **values)  # type: ignore[type-var]


def presets(defaults: SettingsT, **named: str) -> dict[str, SettingsT]:
    """Presets by name. "quick" is `defaults`; each other preset is the text after `--set` that changes "quick" into it.

    A text may begin with the name of an earlier preset and then changes that one; a text for `quick` changes
    `defaults`. A name's _ becomes a -.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Settings:
        ...     members: int = 10
        ...     widths: tuple[int, ...] = (8, 16)
        >>> presets(Settings(), paper="members=100 widths=64,128", paper_wide="paper widths=512")["paper-wide"]
        Settings(members=100, widths=(512,))
    """
    found = {"quick": defaults}
    for name, text in named.items():
        parts = text.split()
        start = found["quick" if "=" in parts[0] else parts.pop(0)]
        found[name.replace("_", "-")] = changed(start, dict(word.split("=", 1) for word in parts))
    return found


def _parse(key: str, text: str, hint: Any) -> Any:
    text = text.strip()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if text.lower() == "none" and type(None) in arguments:
            return None
        return _parse(key, text, next(a for a in arguments if a is not type(None)))
    if origin is typing.Literal:
        for choice in arguments:
            if text.lower() == str(choice).lower():
                return choice
        raise InvalidArgumentError(key, text, list(arguments), verb="was")
    if origin is tuple:
        items = [item for item in text.strip("()[]").split(",") if item.strip()]
        return tuple(_parse(key, item, arguments[0]) for item in items)
    if hint is bool:
        if text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
        raise InvalidArgumentError(key, text, "true or false", verb="was")
    try:
        return hint(text)
    except ValueError:
        kind = {int: "a whole number", float: "a number"}.get(hint, str(hint))
        raise InvalidArgumentError(key, text, kind, verb="was") from None


def check(condition: bool, name: str, value: object, requirement: object) -> None:
    """Raise InvalidArgumentError about setting `name` unless `condition` is true."""
    if not condition:
        raise InvalidArgumentError(name, value, requirement, verb="was")


def check_some(name: str, chosen: Sequence[str], known: Collection[str]) -> None:
    """Raise InvalidArgumentError for the first entry of setting `name` that is not known."""
    for value in chosen:
        if value not in known:
            raise unknown(name, value, known)


def at_least(settings: object, **least: float) -> None:
    """`check` that each named setting is at least its bound."""
    for name, bound in least.items():
        check(getattr(settings, name) >= bound, name, getattr(settings, name), f"at least {bound}")


def as_dict(settings: Any) -> dict[str, Any]:
    """The settings as plain values, for JSON; tuples become lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(settings).items()
    }


def as_text(settings: Any) -> dict[str, str]:
    """The settings as text that `changed` reads."""
    return {f.name: _as_text(getattr(settings, f.name)) for f in dataclasses.fields(settings)}


def _as_text(value: object) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)
