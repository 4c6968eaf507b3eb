"""Groups by name: "C4", "D4", "S5", "S_n", "SO2", "SO3", "O3", "octahedral", "translations", …

The one parser of such names: audits, measures, ensembles and plans take what it knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.groups.families import cyclic, dihedral, icosahedral, octahedral, symmetric, tetrahedral
from equitangents.groups.plane_rotations import so2
from equitangents.groups.rotation_group import o3, so3
from equitangents.groups.sampled_permutations import permutations
from equitangents.groups.symmetry_group import SymmetryGroup
from equitangents.groups.table_group import TableGroup
from equitangents.groups.wallpaper_group import translations

Family = Literal[
    "C", "D", "S", "SO2", "SO3", "O3", "tetrahedral", "octahedral", "icosahedral", "translations", "reversal", "sign"
]
_PLAIN: tuple[Family, ...] = (
    "SO2",
    "SO3",
    "O3",
    "tetrahedral",
    "octahedral",
    "icosahedral",
    "translations",
    "reversal",
    "sign",
)
_OTHERS = "S_n, S5 (any number), translations, reversal, sign, tetrahedral, octahedral or icosahedral"
KNOWN_FINITE = f"C4, D4 (any number), {_OTHERS}"
KNOWN = f"C4, D4 (any number), SO2, SO3, O3, {_OTHERS}"

LARGEST_LISTED = 5  # S_5 has 120 elements; of larger ones some are drawn
_BANDLIMIT = 4
_FIXED: dict[Family, Callable[[], SymmetryGroup]] = {
    "SO2": so2,
    "SO3": lambda: so3(_BANDLIMIT),
    "O3": lambda: o3(_BANDLIMIT),
    "tetrahedral": lambda: tetrahedral().named("tetrahedral"),
    "octahedral": lambda: octahedral().named("octahedral"),
    "icosahedral": lambda: icosahedral().named("icosahedral"),
    "reversal": lambda: TableGroup("reversal", np.array([[0, 1], [1, 0]]), ("forwards", "backwards")),
    "sign": lambda: TableGroup("change of sign", np.array([[0, 1], [1, 0]]), ("kept", "negated")),
}


@dataclass(frozen=True)
class GroupName:
    """A family of groups and the number of C, D and S groups; None where the inputs determine it."""

    family: Family
    n: int | None = None

    def group(self, n: int | None = None, grid: Sequence[int] | None = None) -> SymmetryGroup | None:
        """The group itself; S_n needs the number of points `n`, translations the shape of the `grid`, else None.

        Permutations of up to 5 points are listed, those of more are drawn. SO(3) and O(3) take their means at a
        bandlimit of 4.
        """
        n = self.n if self.n is not None else n
        if self.family == "translations":
            return None if grid is None else translations(grid)
        if self.family in _FIXED:
            return _FIXED[self.family]()
        if n is None:
            return None
        if self.family == "S":
            return symmetric(n) if n <= LARGEST_LISTED else permutations(n)
        return cyclic(n) if self.family == "C" else dihedral(n)


def group_named(name: str) -> SymmetryGroup:
    """The group called `name`: "C4", "D3", "S5", "SO2", "SO3", "O3", "octahedral", …

    >>> group_named("SO(3)").dimension, group_named("D4").order
    (3, 8)
    """
    group = parse_group_name("name", name).group()
    if group is None:
        raise InvalidArgumentError("name", name, "a size, such as 'S5'")
    return group


def parse_group_name(argument: str, name: object, known: str = KNOWN) -> GroupName:
    """What `name` stands for; brackets and underscores do not count. InvalidArgumentError names `argument`, and those
    `known` to the one who asks.

    >>> parse_group_name("group", "C4"), parse_group_name("group", "SO(3)")
    (GroupName(family='C', n=4), GroupName(family='SO3', n=None))
    """
    plain = str(name).replace("(", "").replace(")", "").replace("_", "").strip()
    if match := re.fullmatch(r"([CDS])(\d+)", plain):
        if int(match[2]) < 1:
            raise InvalidArgumentError(argument, name, "a number of at least 1")
        return GroupName(match[1], int(match[2]))  # type: ignore[arg-type]
    if plain == "Sn":
        return GroupName("S")
    for family in _PLAIN:
        if plain == family:
            return GroupName(family)
    near = next((f for f in (plain.upper(), plain.lower()) if f in _PLAIN or re.fullmatch(r"[CDS]\d+", f)), None)
    raise InvalidArgumentError(argument, name, known, "" if near is None else f"did you mean {near!r}?")
