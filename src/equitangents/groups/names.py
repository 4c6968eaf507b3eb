"""Groups by name: "C4", "D4", "S5", "S_n", "SO2", "SO3", "O3", "octahedral", "translations", …

Audits, measures, ensembles and plans all parse names with `parse_group_name`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.groups.families import cyclic, dihedral, icosahedral, octahedral, permutations, symmetric, tetrahedral
from equitangents.groups.group import TableGroup
from equitangents.groups.plane_rotations import so2
from equitangents.groups.rotation_group import o3, so3
from equitangents.groups.symmetry_group import SymmetryGroup
from equitangents.groups.wallpaper_group import translations

Space = Literal["plane", "space", "permutations", "translations", "reversal", "sign"]
LARGEST_LISTED = 5  # S_5 has 120 elements; of larger ones some are drawn
_BANDLIMIT = 4
Motions = Callable[[Any], Callable[[Any], Any]]
"""Of a group: how an element moves data, (degrees, reflected) in the plane, a matrix of space, a permutation."""
_by_itself: Motions = lambda group: lambda g: g
_by_matrices: Motions = lambda group: group.matrices.__getitem__
_by_permutations: Motions = lambda G: (lambda g: g) if G.elements is None else lambda g: np.array(G.element(g))


def _by_turns(reflections: bool) -> Motions:
    """(degrees, reflected) of element f·n + k of C_n or D_n: f reflections, then rotation by k·360°/n."""

    def motions(group: Any) -> Callable[[Any], tuple[float, bool]]:
        n = group.order // (2 if reflections else 1)
        return lambda g: (360.0 * (g % n) / n, g >= n)

    return motions


@dataclass(frozen=True)
class Family:
    """Groups that share a name: the space on which they act, how to make one (from its number `n` or a `grid`), how
    elements move data, the name in messages, and, for infinite groups, the finite ones to use instead.
    """

    space: Space
    make: Callable[[Any], SymmetryGroup]
    of: Literal["n", "grid", "nothing"] = "nothing"
    motion: Motions = _by_itself
    shown: str = ""
    instead: str = ""


def _two(name: str, *labels: str) -> Callable[[Any], SymmetryGroup]:
    return lambda _: TableGroup(name, np.array([[0, 1], [1, 0]]), labels)


FAMILIES: dict[str, Family] = {
    "C": Family("plane", cyclic, "n", _by_turns(False), shown="C4"),
    "D": Family("plane", dihedral, "n", _by_turns(True), shown="D4 (any number)"),
    "SO2": Family("plane", lambda _: so2(), motion=lambda G: lambda g: (g, False), instead="C8, C16, … for images"),
    "SO3": Family(
        "space",
        lambda _: so3(_BANDLIMIT),
        instead="octahedral or icosahedral, or actions.rotations(groups.so3(bandlimit))",
    ),
    "O3": Family(
        "space",
        lambda _: o3(_BANDLIMIT),
        instead="octahedral or icosahedral, or actions.rotations(groups.o3(bandlimit))",
    ),
    "S": Family(
        "permutations",
        lambda n: symmetric(n) if n <= LARGEST_LISTED else permutations(n),
        "n",
        _by_permutations,
        shown="S_n, S5 (any number)",
    ),
    "translations": Family("translations", translations, "grid"),
    "reversal": Family("reversal", _two("reversal", "forwards", "backwards")),
    "sign": Family("sign", _two("change of sign", "kept", "negated")),
    "tetrahedral": Family("space", lambda _: tetrahedral().named("tetrahedral"), motion=_by_matrices),
    "octahedral": Family("space", lambda _: octahedral().named("octahedral"), motion=_by_matrices),
    "icosahedral": Family("space", lambda _: icosahedral().named("icosahedral"), motion=_by_matrices),
}
"""Every family of groups by its name; C, D and S are followed by a number."""


def _shown(families: Iterable[str]) -> str:
    *first, last = (FAMILIES[name].shown or name for name in families)
    return f"{', '.join(first)} or {last}"


KNOWN, KNOWN_FINITE = _shown(FAMILIES), _shown(name for name, family in FAMILIES.items() if not family.instead)


@dataclass(frozen=True)
class GroupName:
    """A family of groups and the n of C_n, D_n and S_n; n is None if the inputs determine it."""

    family: str
    n: int | None = None

    @property
    def space(self) -> Space:
        """The space on which the group acts."""
        return FAMILIES[self.family].space

    def group(self, n: int | None = None, grid: Sequence[int] | None = None) -> SymmetryGroup | None:
        """The group itself, or None if `n` (points of S_n) or `grid` (shape, for translations) is needed and missing.

        Permutations of up to 5 points are listed; of more, they are drawn. SO(3) and O(3) have bandlimit 4.
        """
        family = FAMILIES[self.family]
        size = {"n": n if self.n is None else self.n, "grid": grid, "nothing": ()}[family.of]
        return None if size is None else family.make(size)


def group_named(name: str) -> SymmetryGroup:
    """The group called `name`: "C4", "D3", "S5", "SO2", "SO3", "O3", "octahedral", …

    >>> group_named("SO(3)").name, group_named("D4").order
    ('SO(3)', 8)
    """
    group = parse_group_name("name", name).group()
    if group is None:
        raise InvalidArgumentError("name", name, "a size, such as 'S5'")
    return group


def parse_group_name(argument: str, name: object, known: str = KNOWN) -> GroupName:
    """The family and number that `name` stands for, ignoring brackets and underscores. InvalidArgumentError gives
    `argument` and the `known` names.

    >>> parse_group_name("group", "C4"), parse_group_name("group", "SO(3)")
    (GroupName(family='C', n=4), GroupName(family='SO3', n=None))
    """
    plain = str(name).replace("(", "").replace(")", "").replace("_", "").strip()
    if (found := _named(plain)) is not None:
        if found.n == 0:
            raise InvalidArgumentError(argument, name, "a number of at least 1")
        return found
    near = next((other for other in (plain.upper(), plain.lower()) if _named(other) is not None), None)
    raise InvalidArgumentError(argument, name, known, "" if near is None else f"did you mean {near!r}?")


def _named(plain: str) -> GroupName | None:
    if match := re.fullmatch(r"([CDS])(\d+)", plain):
        return GroupName(match[1], int(match[2]))
    if plain == "Sn":
        return GroupName("S")
    return GroupName(plain) if plain in FAMILIES and FAMILIES[plain].of != "n" else None
