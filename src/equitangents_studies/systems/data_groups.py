"""Groups that move data, by name: subgroups of O(cd), which acts on all c channels of all d positions at once.

I         the identity alone
O(c)xI    one rotation or reflection of the channels, the same at every position
O(c)^d    one of its own at every position
P(cd)     permutations of all coordinates, channels and positions alike
O(cd)     all orthogonal matrices
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from equitangents.errors import InvalidArgumentError, InvalidTypeError

_KINDS = {
    "I": ("I", "same"),
    "O(3)xI": ("O", "same"),
    "O(3)^d": ("O", "own"),
    "P(3d)": ("P", "all"),
    "O(3d)": ("O", "all"),
}
NAMES = tuple(_KINDS)
"""The five groups of Xiao & Pennington 2022, in the names of images with 3 channels."""

_PATTERN = re.compile(r"(?P<letter>[OP])\((?P<number>c|\d*)(?P<rest>d?\)(?:xI|\^d)?)")
_HELD = {"O(3d)": {"P(3d)", "O(3)^d", "O(3)xI"}, "O(3)^d": {"O(3)xI"}}  # besides the identity and the group itself


@dataclass(frozen=True)
class DataGroup:
    """A group that moves signals of shape (*positions, channels).

    Args:
        letter: "O" for orthogonal matrices, "P" for permutations, "I" for the identity.
        reach: "same" at every position, one of its "own" at every position, or "all" coordinates at once.
        positions: d, how many positions there are.
        channels: c.
    """

    letter: str
    reach: str
    positions: int
    channels: int

    @property
    def kind(self) -> str:
        """The name with 3 for the channels."""
        return next(kind for kind, made in _KINDS.items() if made == (self.letter, self.reach))

    @property
    def name(self) -> str:
        """The name with these channels, such as "O(3)^d"."""
        return self.kind.replace("3", str(self.channels))

    @property
    def size(self) -> int:
        """How many coordinates one element's matrix moves: c, or cd for groups that reach all."""
        return self.channels * (self.positions if self.reach == "all" else 1)

    @property
    def dimension(self) -> int:
        """The dimension of the group as a manifold; 0 for finite groups. That of O(n) is n(n − 1)/2."""
        if self.letter != "O":
            return 0
        copies = self.positions if self.reach == "own" else 1
        return copies * self.size * (self.size - 1) // 2

    def holds(self, other: DataGroup) -> bool:
        """Whether `other` is a subgroup of this one by its kind; O(c)xI is in O(c)^d, which is in O(cd)."""
        return other.kind in {"I", self.kind, *_HELD.get(self.kind, ())}

    def __str__(self) -> str:
        return self.name


def data_group(name: str | DataGroup, shape: tuple[int, ...]) -> DataGroup:
    """The group called `name` on signals of `shape` = (*positions, channels).

    In names 3 stands for the channels, as in the source, and c may be written for it; ⊗ may be written for x.

    >>> data_group("O(3)^d", (32, 32, 3)).dimension
    3072
    >>> data_group("O(3d)", (32, 32, 1)).name
    'O(1d)'
    """
    if isinstance(name, DataGroup):
        name = name.name
    if not isinstance(name, str):
        raise InvalidTypeError("group", name, "the name of a group", ", ".join(NAMES))
    positions, channels = math.prod(map(int, shape[:-1])), int(shape[-1])
    text = name.replace(" ", "").replace("⊗", "x").replace("I_d", "I")
    found = _PATTERN.fullmatch(text)
    kind = text if found is None else f"{found['letter']}(3{found['rest']}"
    if kind not in _KINDS:
        raise InvalidArgumentError("group", name, [*NAMES], "3 or c stands for the channels")
    number = "c" if found is None else found["number"]
    if number.isdigit() and int(number) not in (3, channels):
        raise InvalidArgumentError("group", name, channels, "the number of channels, or 3 or c, in its place")
    return DataGroup(*_KINDS[kind], positions, channels)


LARGEST = {"FCN": "O(3d)", "LCN": "O(3)^d", "VEC": "O(3)^d", "GAP": "O(3)xI", "LAP": "O(3)xI"}
"""The largest of the groups under which each architecture's algorithm is symmetric at infinite width."""


def expected_symmetry(name: str, group: str, shape: tuple[int, ...], *, finite: bool) -> bool:
    """Whether Theorem 4.1 says that the architecture's algorithm is symmetric under the group.

    >>> [expected_symmetry("VEC", "O(3)^d", (8, 8, 3), finite=finite) for finite in (False, True)]
    [True, False]
    """
    largest = "O(3)xI" if finite and name == "VEC" else LARGEST[name[:3]]
    return data_group(largest, shape).holds(data_group(group, shape))
