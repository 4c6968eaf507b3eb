"""Classes that change places when the group acts: class c goes to p[c].

ρ(g) of scores (N, K) is (ρ(g) y)[p_g[c]] = y[c]; of class numbers (N,), ρ(g) c = p_g[c]. The maps of a finite group's
generators are spread over all elements along the words that spell them, ρ(a·s) = ρ(a) ρ(s); every other word then says
whether ρ respects products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, final

import numpy as np
from jaxtyping import Int

from equitangents._types import Element, Tree
from equitangents.actions.given_maps import GivenMap
from equitangents.audit.contract.leaf_actions import Kind, LeafAction, Place
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError, ShapeError
from equitangents.groups import Group, SymmetryGroup

T = TypeVar("T")


def along_words(group: Group, of_generators: Sequence[T], unit: T, product: Callable[[T, T], T]) -> list[T]:
    """ρ(g) for every element, by its shortest word in the generators."""
    values: dict[int, T] = {int(group.identity): unit}
    reached = [int(group.identity)]
    for a in reached:  # grows while it is read
        for s, value in zip(group.generators, of_generators, strict=True):
            b = int(group.compose(a, s))
            if b not in values:
                values[b] = product(values[a], value)
                reached.append(b)
    return [values[g] for g in range(group.order)]


def products(group: Group) -> Iterator[tuple[int, int, Any]]:
    """(a, s, a·s) for every element and every generator: the relations of the group."""
    for a in range(group.order):
        for s in group.generators:
            yield a, s, int(group.compose(a, s))


@final
class Labels(Kind):
    """How classes or channels change places: class c goes to `permutation[c]`, for `output_action` of an audit.

    Args:
        permutation: of a group with one generator, such as C4 (whose generator is the quarter turn), where it takes
            the classes. Of others a list of permutations, one for each generator in the order of `group.generators`,
            or one for each element.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
    >>> corners = lambda x: np.stack([x[:, 0, 0, 0], x[:, 0, 3, 0], x[:, 3, 3, 0], x[:, 3, 0, 0]], axis=1)
    >>> et.audit(corners, "C4", x, et.audit.Labels([3, 0, 1, 2]), off_data=False).verdict
    'equivariant'
    """

    by_name = False

    def __init__(self, permutation: Sequence[int] | Sequence[Sequence[int]] | np.ndarray) -> None:
        try:
            rows = np.asarray(permutation)
        except ValueError:
            raise ShapeError("permutation holds permutations of different numbers of classes") from None
        if rows.dtype.kind not in "iu":
            raise InvalidTypeError("permutation", permutation, "whole numbers, such as [3, 0, 1, 2]")
        rows = rows[None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or 0 in rows.shape:
            raise ShapeError("permutation", rows.shape, "(K,), or (generators, K)")
        for row in rows:
            if not np.array_equal(np.sort(row), np.arange(len(row))):
                raise InvalidArgumentError("permutation", row.tolist(), "every number from 0 to K − 1 once")
        self.rows: Int[np.ndarray, "generators classes"] = rows.astype(np.int64)

    def leaf(self, place: Place, items: LeafAction | None = None) -> LeafAction:
        """The action of a group that this table is."""
        return LeafAction(LabelsAction(place.group, self.table(place.group)), place.channels)

    def table(self, group: SymmetryGroup) -> Int[np.ndarray, "order classes"]:
        """Where every element takes every class; NotAnActionError if products are not respected."""
        if not isinstance(group, Group):
            raise InvalidArgumentError("Labels", group, "the generators of a finite group", verb="permute classes by")
        count = len(group.generators)
        if len(self.rows) not in (count, group.order):
            said = ", ".join(group.label(g) for g in group.generators)
            raise InvalidArgumentError(
                "Labels",
                len(self.rows),
                count,
                f"one permutation for each generator ({said})",
                verb="has length",
            )
        whole = len(self.rows) == group.order and count != group.order
        unit: np.ndarray = np.arange(self.rows.shape[1])
        spelled: list[np.ndarray] = [] if whole else along_words(group, list(self.rows), unit, after)
        table = self.rows if whole else np.stack(spelled)
        if not np.array_equal(table[group.identity], unit):
            raise NotAnActionError("Labels: the identity must leave every class where it is")
        for a, s, b in products(group):
            if not np.array_equal(table[a][table[s]], table[b]):
                raise NotAnActionError(
                    "Labels",
                    (group.label(a), group.label(s)),
                    group.label(b),
                    "permutations that multiply as elements do",
                    verb="is off at",
                )
        return table

    def __repr__(self) -> str:
        return f"equitangents.audit.Labels({(self.rows[0] if len(self.rows) == 1 else self.rows).tolist()})"


def after(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The permutation p ∘ q: q first."""
    return p[q]


@final
class LabelsAction(GivenMap):
    """A table of permutations (|G|, K) that is known to respect products, on scores and on class numbers alike."""

    permutes_entries = True
    table: np.ndarray

    def __init__(self, group: SymmetryGroup, table: np.ndarray):
        vars(self).update(group=group, table=table, name=f"permutation of {table.shape[1]} classes")

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """The last axis has one entry a class, or class numbers are below their number."""
        K = self.table.shape[1]
        if x.dtype.kind == "i":
            if x.size and not (x.min() >= 0 and x.max() < K):
                raise ShapeError(name, int(x.max()), range(K), "the classes of Labels", verb="holds class")
        elif x.shape[-1] != K:
            raise ShapeError(name, x.shape, (..., K), "the classes of Labels")

    def __call__(self, g: Element, x: Tree) -> np.ndarray:
        """(ρ(g) x)[p[c]] = x[c]; of class numbers p[x], and numbers beyond the table stay."""
        p = self.table[g]
        if x.dtype.kind != "i":
            return x[..., np.argsort(p)]
        known = (x >= 0) & (x < len(p))
        return np.where(known, p[np.where(known, x, 0)], x)

    def _key(self) -> tuple[Any, ...]:
        return (self.table.shape, self.table.tobytes())


def cycles(p: np.ndarray) -> str:
    """A permutation by where it takes classes: "0→3→2→1", or "0→1, 2→4→3" of several cycles; "" of the identity.

    >>> cycles(np.array([3, 0, 1, 2]))
    '0→3→2→1'
    """
    seen: set[int] = set()
    said = []
    for start in range(len(p)):
        cycle = [start]
        while (following := int(p[cycle[-1]])) != start:
            cycle.append(following)
        if start not in seen and len(cycle) > 1:
            said.append("→".join(map(str, cycle)))
        seen.update(cycle)
    return ", ".join(said)
