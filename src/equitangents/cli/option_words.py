"""Errors of the package in a command's words: `layout='channels_first'` is `--layout channels_first` there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_KEYWORD = r"(?<![\w.-])(?P<name>{names})="
_VALUE = r"(?:'(?P<text>[^']*)'|\((?P<several>[^()]*)\)|(?P<plain>-?\d[\w.-]*\b|True\b))?"


def in_options(message: str, options: Mapping[str, str]) -> str:
    """The message with Python's keywords as the options of the same name; those inside a call stay.

    >>> in_options("give inputs=('vectors', None)", {"inputs": "--inputs"})
    'give --inputs vectors,none'
    """
    if not options:
        return message
    names = "|".join(map(re.escape, sorted(options, key=len, reverse=True)))

    def said(match: re.Match[str]) -> str:
        option, plain = options[match["name"]], match["plain"]
        both = message.startswith(f" ({option})", match.end())  # "force=True (--force)" names the option itself
        if both or _in_a_call(message[: match.start()]):
            return match[0]
        if plain == "True":
            return option
        if match["several"] is not None:
            parts = [part.strip().strip("'") for part in match["several"].split(",") if part.strip()]
            plain = ",".join("none" if part == "None" else part for part in parts)
        value = plain or match["text"]
        return f"{option} {value}" if value else option

    told = re.sub(_KEYWORD.format(names=names) + _VALUE, said, message)
    return re.sub(r"(--[\w-]+) \(\1\)", r"\1", told)  # "--trust (trust=True)"


def _in_a_call(before: str) -> bool:
    """Whether a text ends inside the parentheses of a call."""
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        if before[at] == ")":
            depth += 1
        elif before[at] == "(" and depth:
            depth -= 1
        elif before[at] == "(":
            return at > 0 and (before[at - 1].isalnum() or before[at - 1] == "_")
    return False


def options_of(command: Any) -> dict[str, str]:
    """The options of a command by the names of its parameters."""
    return {str(p.name): p.opts[0] for p in command.params if p.opts and p.opts[0].startswith("--")}
