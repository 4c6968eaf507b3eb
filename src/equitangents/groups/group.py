"""Finite groups with elements 0 .. order − 1, those defined by a table, and subgroups H ≤ G with cosets gH.

A group is its multiplication, table[a, b] = a·b. Read as transformations, a·b is "b first, then a", so that
ρ(a·b) = ρ(a) ρ(b) for every representation ρ.

Associativity is checked by Light's test: the elements s with (x·s)·y = x·(s·y) for all x, y are closed under
products, so that it suffices to test a generating set, in O(n² · generators) instead of O(n³).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from equitangents._aliases import Element, Elements, Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, ShapeError
from equitangents.groups.symmetry_group import SymmetryGroup
from equitangents.validation import as_rectangular, check_choice

if TYPE_CHECKING:
    from equitangents.groups.irreps import Irrep

MAX_TABLE_ORDER = 30_000  # 3.6 GB of int32


def read_only(array: np.ndarray) -> np.ndarray:
    """`array` made read-only, since groups are shared and hashed."""
    array.flags.writeable = False
    return array


class Group(SymmetryGroup):
    """A finite group with elements 0 .. order − 1; immutable, hashable, equal to groups with the same table.

    Groups that carry more than a table (matrices, a grid) are equal only if these agree, too.
    Make one with `cyclic`, `dihedral`, `wallpaper`, `from_permutations`, `from_table`, ...

    >>> from equitangents.groups import symmetric
    >>> S3 = symmetric(3)
    >>> S3.order, S3.identity, S3.is_abelian
    (6, 0, False)
    >>> S3.compose(1, S3.inverse(1)) == S3.identity
    True
    """

    order: int
    identity: int
    default_draws = 64

    @abstractmethod
    def _compose(self, a: int | np.integer | np.ndarray, b: int | np.integer | np.ndarray) -> np.ndarray:
        """a·b for elements known to be in range: NumPy integers or arrays, with broadcasting."""

    @property
    @abstractmethod
    def inverses(self) -> Int[np.ndarray, " order"]:
        """The inverse of every element, read-only."""

    @property
    @abstractmethod
    def table(self) -> Int[np.ndarray, "order order"]:
        """The multiplication table, table[a, b] = a·b, read-only int32."""

    @property
    def torus(self) -> tuple[int, ...] | None:
        """Shape of the torus that the group's translations move; None without translations."""
        return None

    @property
    def has_quarter_rotations(self) -> bool:
        """Whether the group contains quarter turns of the torus's grid, which exchange its axes."""
        return False

    def _structure(self) -> tuple[Any, ...]:
        """Hashable data that determine the table and equality; empty if only the table does."""
        return ()

    def _element_label(self, i: int) -> Element:
        return i

    def _label_index(self, label: Element) -> int:
        return self.check_element("label", label)

    # multiplication -------------------------------------------------------------------

    def compose(self, a: Element, b: Element) -> Element:
        """The product a·b ("b first, then a"): an int for ints, an array for arrays (with broadcasting)."""
        a, b = self._check_elements("a", a), self._check_elements("b", b)
        product = self._compose(a, b)
        return int(product) if np.ndim(product) == 0 else product

    def inverse(self, a: Element) -> Element:
        """The inverse of a: an int for an int, an array for an array."""
        inverse = self.inverses[self._check_elements("a", a)]
        return int(inverse) if np.ndim(inverse) == 0 else inverse

    # elements -------------------------------------------------------------------------

    def element(self, i: int) -> Element:
        """Label of element i: a permutation, a (rotation, reflection, translation), …, or i itself."""
        return self._element_label(self.check_element("i", i))

    def index(self, *label: Element) -> int:
        """Number of the element with this label; takes a tuple or its entries."""
        return self._label_index(label[0] if len(label) == 1 else label)

    def check_element(self, name: str, g: Element) -> int:
        """`g` as an int if it is an element of the group; otherwise an error that names `name`."""
        checked = self._check_elements(name, g)
        if checked.ndim:
            raise InvalidTypeError(name, checked.shape, "one element, an int", verb="is an array of shape")
        return int(checked)

    def _check_elements(self, name: str, g: Element) -> np.ndarray:
        g = np.asarray(g)
        if not g.size:
            g = g.astype(int)  # of an empty list NumPy makes floats
        if g.dtype.kind not in "iu":
            raise InvalidTypeError(name, g.dtype, range(self.order), "elements are ints", verb="has dtype")
        outside = (g < 0) | (g >= self.order)
        if outside.any():
            raise InvalidArgumentError(name, int(g[outside].flat[0]), range(self.order), "the elements of the group")
        return g

    @property
    def elements(self) -> range:
        """All elements, the numbers 0 to order − 1."""
        return range(self.order)

    @property
    def nodes(self) -> range:
        """All elements of the group."""
        return self.elements

    @cached_property
    def weights(self) -> Float[np.ndarray, " order"]:
        """1/order for every element: the group's Haar measure."""
        return read_only(np.full(self.order, 1 / self.order))

    def draw(self, count: int, rng: np.random.Generator) -> list[int]:
        """`count` distinct elements other than the identity; all of them, in order, if there are no more."""
        others = np.delete(np.arange(self.order), self.identity)
        if len(others) > count:
            others = np.sort(rng.choice(others, count, replace=False))
        return [int(g) for g in others]

    def label(self, g: int) -> str:
        """The element's label, or its number."""
        return str(self.element(g)).replace(" ", "")

    def is_same_group(self, other: SymmetryGroup) -> bool:
        """Whether both have the same multiplication table."""
        return isinstance(other, Group) and self.has_same_table(other)

    # structure ------------------------------------------------------------------------

    @cached_property
    def generators(self) -> tuple[int, ...]:
        """Elements that generate the group, each outside the subgroup generated by those before it."""
        chosen: list[int] = []
        member = np.zeros(self.order, bool)
        member[self.identity] = True
        for candidate in range(self.order):
            if not member[candidate]:
                chosen.append(candidate)
                member = self._closure(chosen)
        return tuple(chosen)

    @cached_property
    def is_abelian(self) -> bool:
        """Whether a·b = b·a for all elements."""
        s = np.array(self.generators, int)
        return bool(np.array_equal(self._compose(s[:, None], s), self._compose(s, s[:, None])))

    @cached_property
    def conjugacy_classes(self) -> tuple[Int[np.ndarray, " size"], ...]:
        """The classes {g·a·g⁻¹}, each sorted, in the order of their first elements."""
        everything = np.arange(self.order)
        label = np.full(self.order, -1)
        classes: list[np.ndarray] = []
        for a in range(self.order):
            if label[a] < 0:
                members = np.unique(self._compose(self._compose(everything, a), self.inverses))
                label[members] = len(classes)
                classes.append(read_only(members.astype(np.int32)))
        return tuple(classes)

    def _closure(self, generators: ArrayLike) -> np.ndarray:
        """Which elements are products of `generators`, as a boolean mask."""
        s = np.asarray(generators, int).reshape(1, -1)
        member = np.zeros(self.order, bool)
        member[self.identity] = True
        frontier = np.array([self.identity])
        while len(frontier):
            reached = np.unique(self._compose(frontier[:, None], s))
            frontier = reached[~member[reached]]
            member[frontier] = True
        return member

    # subgroups and representations -----------------------------------------------------

    def subgroup(self, elements: Elements) -> Subgroup:
        """The subgroup consisting of `elements`, which must be closed under multiplication."""
        chosen = np.unique(self._check_elements("elements", np.atleast_1d(np.asarray(elements))))
        if not len(chosen):
            raise InvalidArgumentError("elements", (), "at least the identity")
        member = np.zeros(self.order, bool)
        member[chosen] = True
        for a in chosen:
            products = self._compose(a, chosen)
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
        return Subgroup(self, chosen)

    def generated_subgroup(self, generators: Elements) -> Subgroup:
        """The smallest subgroup that contains `generators`."""
        chosen = self._check_elements("generators", np.atleast_1d(generators))
        return Subgroup(self, np.flatnonzero(self._closure(chosen)))

    def irreps(self, field: Literal["complex", "real"] = "complex") -> tuple[Irrep, ...]:
        """All irreducible representations, up to equivalence: unitary over ℂ or orthogonal over ℝ.

        Computed on first use and kept. The trivial one comes first, then by dimension and character.
        """
        check_choice("field", field, ("complex", "real"))
        return self._complex_irreps if field == "complex" else self._real_irreps

    @cached_property
    def _complex_irreps(self) -> tuple[Irrep, ...]:
        from equitangents.groups.irreps import complex_irreps

        return complex_irreps(self)

    @cached_property
    def _real_irreps(self) -> tuple[Irrep, ...]:
        from equitangents.groups.irreps import real_irreps

        return real_irreps(self)

    # a value, not a place --------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Group):
            return NotImplemented
        if self._structure() or other._structure():
            return self._structure() == other._structure()
        return self.has_same_table(other)

    def has_same_table(self, other: Group) -> bool:
        """Whether both groups have the same multiplication table."""
        if self is other:
            return True
        if self.order != other.order or not np.array_equal(self.inverses, other.inverses):
            return False
        everything = np.arange(self.order)
        return all(
            np.array_equal(self._compose(a, everything), other._compose(a, everything)) for a in everything[:, None]
        )

    @cached_property
    def _hash(self) -> int:
        return hash((self.order, self.identity, self.inverses.astype(np.int32).tobytes(), self._structure()))

    def __hash__(self) -> int:
        return self._hash

    def __len__(self) -> int:
        return self.order

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.order))

    def __repr__(self) -> str:
        return f"<group {self.name} of order {self.order}>"


def check_table_order(order: int, name: str) -> None:
    """Raise MemoryLimitError where a multiplication table would not fit in memory."""
    if order > MAX_TABLE_ORDER:
        raise MemoryLimitError(
            "the multiplication table",
            4 * order**2,
            4 * MAX_TABLE_ORDER**2,
            "use compose and inverse, or a smaller group",
        )


class TableGroup(Group):
    """A group that stores its multiplication table and labels of its elements; `from_table` validates the table."""

    _table: np.ndarray
    labels: tuple[Any, ...] | None
    part_of: Subgroup | None = None
    """The subgroup that this is, as a group."""

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


def from_table(table: ArrayLike, name: str = "group") -> TableGroup:
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
        part = TableGroup(f"subgroup of {self.group.name}", table, labels=self.elements.tolist())
        vars(part).update(part_of=self)
        return part

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


def in_whole(group: Any) -> tuple[Any, Any]:
    """The group of which `group` is a subgroup, in however many steps, and its elements there; itself and all if none.

    A table does not say what elements are: those of order two in D_n are half turns and reflections.
    """
    part = getattr(group, "part_of", None)
    if part is None:
        return group, ...
    whole, elements = in_whole(part.group)
    return whole, np.arange(whole.order)[elements][part.elements]


class GroupMap(Protocol):
    """A map (g, x) ↦ ρ(g) x of a group, finite or compact."""

    @property
    def group(self) -> SymmetryGroup:
        """The group whose elements move arrays."""

    def __call__(self, g: Element, x: Tree, /) -> Tree:
        """ρ(g) x for arrays x (N, …)."""
