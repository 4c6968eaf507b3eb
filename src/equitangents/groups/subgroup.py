"""Subgroups H of a finite group G and their cosets gH."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from equitangents._aliases import Elements
from equitangents.errors import InvalidArgumentError
from equitangents.groups.group import Group, read_only

if TYPE_CHECKING:
    from equitangents.groups.table_group import TableGroup


@dataclass(frozen=True, eq=False)
class Subgroup:
    """A subgroup of `group`, made by `group.subgroup(elements)` or `group.generated_subgroup(generators)`.

    >>> from equitangents.groups import cyclic
    >>> H = cyclic(6).subgroup([0, 3])
    >>> H.left_cosets.tolist()
    [0, 1, 2, 0, 1, 2]
    """

    group: Group
    elements: Int[np.ndarray, " order"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "elements", read_only(np.array(self.elements, np.int32)))

    @property
    def order(self) -> int:
        """The number of elements."""
        return len(self.elements)

    @property
    def index(self) -> int:
        """The number of cosets, |G| / |H|."""
        return self.group.order // self.order

    @cached_property
    def left_cosets(self) -> Int[np.ndarray, " group_order"]:
        """The coset gH of every g in G as a label 0 .. |G|/|H| − 1, numbered by first appearance."""
        smallest = np.empty(self.group.order, np.int64)
        step = max(1, 2**22 // self.order)
        for start in range(0, self.group.order, step):
            g = np.arange(start, min(start + step, self.group.order))
            smallest[g] = self.group._compose(g[:, None], self.elements).min(axis=1)
        # the smallest member of a coset is the first one met, so that sorting them numbers by first appearance
        return read_only(np.unique(smallest, return_inverse=True)[1].astype(np.int32))

    @cached_property
    def is_normal(self) -> bool:
        """Whether g·H·g⁻¹ = H for every g in G."""
        member = np.zeros(self.group.order, bool)
        member[self.elements] = True
        s = np.array(self.group.generators, int)[:, None]
        return bool(member[self.group._compose(self.group._compose(s, self.elements), self.group.inverses[s])].all())

    @cached_property
    def as_group(self) -> TableGroup:
        """The subgroup as a group: its element i is `elements[i]` of G, with the same label."""
        from equitangents.groups.table_group import TableGroup

        place = np.empty(self.group.order, np.int64)  # elements may be in any order
        place[self.elements] = np.arange(self.order)
        table = place[self.group._compose(self.elements[:, None], self.elements)]
        return TableGroup(f"subgroup of {self.group.name}", table, labels=self.elements.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subgroup):
            return NotImplemented
        return np.array_equal(self.elements, other.elements) and self.group == other.group

    def __hash__(self) -> int:
        return hash((self.group, self.elements.tobytes()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Subgroup:
        return self

    def __repr__(self) -> str:
        return f"<subgroup of order {self.order} in {self.group.name}>"


def subgroup_of(group: Group, elements: Elements) -> Subgroup:
    """The subgroup made of `elements`; raises InvalidArgumentError with the witness if they are not closed."""
    chosen = np.unique(group._check_elements("elements", np.atleast_1d(np.asarray(elements))))
    if not len(chosen):
        raise InvalidArgumentError("elements is empty; a subgroup holds at least the identity")
    member = np.zeros(group.order, bool)
    member[chosen] = True
    for a in chosen:
        products = group._compose(a, chosen)
        missing = np.flatnonzero(~member[products])
        if len(missing):
            b = int(chosen[missing[0]])
            raise InvalidArgumentError(
                "elements",
                (int(a), b),
                "a subgroup",
                "generated_subgroup(elements) adds what is missing",
                verb="lacks the product of",
            )
    return Subgroup(group, chosen)
