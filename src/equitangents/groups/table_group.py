"""Groups defined by a multiplication table, validation of the table, and subgroups H ≤ G with cosets gH.

Associativity is checked by Light's test: the elements s with (x·s)·y = x·(s·y) for all x, y are closed under
products, so that it suffices to test a generating set, in O(n² · generators) instead of O(n³).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from equitangents._aliases import Element, Elements
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import Group, check_table_order, read_only
from equitangents.validation import as_rectangular


class TableGroup(Group):
    """A group that stores its multiplication table and labels of its elements; `from_table` validates the table."""

    _table: np.ndarray
    labels: tuple[Any, ...] | None

    def __init__(self, name: str, table: np.ndarray, labels: Sequence[Any] | None = None):
        table = read_only(np.ascontiguousarray(table, np.int32))
        identity = int(np.flatnonzero((table == np.arange(len(table))).all(axis=1))[0])
        known = None if labels is None else tuple(labels)
        vars(self).update(name=name, order=len(table), identity=identity, _table=table, labels=known)

    @property
    def table(self) -> Int[np.ndarray, "order order"]:
        """The multiplication table, table[a, b] = a·b, read-only int32."""
        return self._table

    @cached_property
    def inverses(self) -> Int[np.ndarray, " order"]:
        """The inverse of every element, read-only."""
        return read_only((self._table == self.identity).argmax(axis=1).astype(np.int32))

    def _compose(self, a: int | np.integer | np.ndarray, b: int | np.integer | np.ndarray) -> np.ndarray:
        return self._table[a, b]

    @cached_property
    def _index_of_label(self) -> dict[Any, int]:
        return {label: i for i, label in enumerate(self.labels or ())}

    def _element_label(self, i: int) -> Element:
        return i if self.labels is None else self.labels[i]

    def _label_index(self, label: Element) -> int:
        if self.labels is None:
            return self.check_element("label", label)
        if isinstance(label, list | np.ndarray):
            label = tuple(label)
        try:
            known = self._index_of_label
            return known[label] if label in known else known[(label,)]  # the one entry of a tuple
        except (KeyError, TypeError):
            raise InvalidArgumentError("label", label, "an element's label", repr(self.labels[-1])) from None


def from_table(table: npt.ArrayLike, name: str = "group") -> TableGroup:
    """The group of a multiplication table (n, n) with table[a, b] = a·b; its numbering is kept.

    Raises InvalidArgumentError with the elements at fault if the table is not closed, has no identity, an element
    has no inverse, or the product is not associative.

    >>> from_table([[0, 1], [1, 0]]).order
    2
    """
    table = as_rectangular("table", table)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.size == 0:
        raise ShapeError("table", table.shape, "a square multiplication table (n, n)")
    if table.dtype.kind not in "iu":
        raise InvalidTypeError("table", table.dtype, "integers, table[a, b] = a·b", verb="has dtype")
    n = len(table)
    check_table_order(n, name)
    outside = np.argwhere((table < 0) | (table >= n))
    if len(outside):
        a, b = map(int, outside[0])
        raise InvalidArgumentError("table", int(table[a, b]), range(n), "the table is not closed", at=(a, b))
    table = table.astype(np.int32)
    everything = np.arange(n)
    identities = np.flatnonzero((table == everything).all(axis=1) & (table == everything[:, None]).all(axis=0))
    if not len(identities):
        raise InvalidArgumentError(
            "table", n, "an e with e·a = a = a·e for all a", verb="has no identity; its order is"
        )
    identity = int(identities[0])
    for a in range(n):
        if len(np.unique(table[a])) < n or len(np.unique(table[:, a])) < n:
            raise InvalidArgumentError(
                "table", table[a].tolist(), "rows and columns without repeated entries, for inverses", at=a
            )
    _check_associative(table, identity)
    return TableGroup(name, table)


def _check_associative(table: np.ndarray, identity: int) -> None:
    member = np.zeros(len(table), bool)
    member[identity] = True
    generators: list[int] = []
    while not member.all():
        s = int(np.argmin(member))
        generators.append(s)
        unequal = np.argwhere(table[table[:, s]] != table[:, table[s]])
        if len(unequal):
            x, y = map(int, unequal[0])
            raise InvalidArgumentError("table", (x, s, y), "an associative product", verb="is not associative at")
        frontier = np.flatnonzero(member)
        while len(frontier):
            reached = np.unique(table[frontier][:, generators])
            frontier = reached[~member[reached]]
            member[frontier] = True


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
    def as_group(self) -> TableGroup:
        """The subgroup as a group: its element i is `elements[i]` of G, with the same label."""
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
    """The subgroup consisting of `elements`; raises InvalidArgumentError with the witness if they are not closed."""
    chosen = np.unique(group._check_elements("elements", np.atleast_1d(np.asarray(elements))))
    if not len(chosen):
        raise InvalidArgumentError("elements", (), "at least the identity")
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
