"""Groups by name: "C4", "D4", "S5", "S_n", "SO2", "SO3", "O3", "octahedral", "translations", …"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from equitangents.errors import InvalidArgumentError

Family = Literal["C", "D", "S", "SO2", "SO3", "O3", "tetrahedral", "octahedral", "icosahedral", "translations"]
_PLAIN: tuple[Family, ...] = ("SO2", "SO3", "O3", "tetrahedral", "octahedral", "icosahedral", "translations")
KNOWN = "C4, D4 (any number), SO2, SO3, O3, S_n, S5 (any number), translations, tetrahedral, octahedral or icosahedral"


@dataclass(frozen=True)
class GroupName:
    """A family of groups and, of C, D and S, the number behind it; None where the inputs give it."""

    family: Family
    n: int | None = None


def parse_group_name(argument: str, name: Any) -> GroupName:
    """What `name` stands for; brackets and underscores do not count. InvalidArgumentError names `argument`.

    >>> parse_group_name("group", "C4"), parse_group_name("group", "SO(3)")
    (GroupName(family='C', n=4), GroupName(family='SO3', n=None))
    """
    plain = str(name).replace("(", "").replace(")", "").replace("_", "").strip()
    if match := re.fullmatch(r"([CDS])(\d+)", plain):
        if int(match[2]) < 1:
            raise InvalidArgumentError(f"{argument} is {name!r}; expected a number of at least 1")
        return GroupName(match[1], int(match[2]))  # type: ignore[arg-type]
    if plain == "Sn":
        return GroupName("S")
    for family in _PLAIN:
        if plain == family:
            return GroupName(family)
    near = next((f for f in (plain.upper(), plain.lower()) if f in _PLAIN or re.fullmatch(r"[CDS]\d+", f)), None)
    hint = "" if near is None else f"did you mean {near!r}? "
    raise InvalidArgumentError(f"{argument} is {name!r}; {hint}expected {KNOWN}")
