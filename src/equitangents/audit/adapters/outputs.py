"""What models return, as plain trees of dictionaries and tuples; and one output of several, chosen by name.

Model hubs return dictionaries of classes of their own, dataclasses or named tuples, with None where an output was not
asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from equitangents._types import Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError

Select = str | int | None


def check_select(select: Any) -> Select:
    """`select`, or an error unless it is a name, a position or None."""
    if select is None or (isinstance(select, str | int) and not isinstance(select, bool)):
        return select
    raise InvalidTypeError("select", select, "the name of an output, the position of one, or None")


def chosen(output: Tree, select: Select) -> Tree:
    """The output called `select` ("a.b" within another), or all of them if it is None; as plain trees.

    Raises InvalidArgumentError that names the outputs there are.

    >>> chosen({"logits": 1.0, "states": (2.0, 3.0), "loss": None}, "states.1")
    3.0
    """
    if select is None:
        return plain(output)
    found = output
    for part in [select] if isinstance(select, int) else select.split("."):
        found = _entry(found, part, select, output)
    return plain(found)


def plain(output: Tree) -> Tree:
    """Mappings, dataclasses and named tuples as dictionaries without their entries that are None; within trees, too."""
    named = _named(output)
    if named is not None:
        return {name: plain(value) for name, value in named.items() if value is not None}
    if isinstance(output, tuple | list):
        return type(output)(plain(value) for value in output)
    return output


def _named(output: Tree) -> dict[str, Any] | None:
    """The entries of an output that has names; None for others."""
    if isinstance(output, Mapping):
        return _by_text([(name, value) for name, value in output.items()])
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return dict(zip(output._fields, output, strict=True))
    if is_dataclass(output) and not isinstance(output, type):
        return {f.name: getattr(output, f.name) for f in fields(output)}
    if hasattr(output, "keys") and hasattr(output, "__getitem__"):
        return _by_text([(name, output[name]) for name in output.keys()])  # noqa: SIM118
    return None


def _by_text(entries: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Entries by their names as text; an error where two would be called the same."""
    found = {str(name): value for name, value in entries}
    if len(found) < len(entries):
        raise InvalidArgumentError(
            "f",
            [name for name, _ in entries],
            "names of outputs that differ as text",
            "rename one",
            verb="has the outputs",
        )
    return found


def _entry(output: Tree, part: str | int, select: str | int, whole: Tree) -> Tree:
    named, text = _named(output), str(part)
    if named is not None and named.get(text) is not None:
        return named[text]
    values = output if named is None else [v for v in named.values() if v is not None]
    if (
        isinstance(values, tuple | list)
        and text.removeprefix("-").isdigit()
        and -len(values) <= int(text) < len(values)
    ):
        return values[int(text)]
    if named is None and not hasattr(output, "dtype") and getattr(output, text, None) is not None:
        return getattr(output, text)
    raise InvalidArgumentError("select", select, remedy=_there_are(whole))


def _there_are(output: Tree) -> str:
    """What could have been selected."""
    named = _named(output)
    if named is not None:
        return f"f(x) has the outputs {', '.join(repr(name) for name, value in named.items() if value is not None)}"
    if isinstance(output, tuple | list):
        return f"f(x) has {len(output)} outputs without names; expected a position from 0 to {len(output) - 1}"
    return "f(x) is one output without a name; leave select out"
