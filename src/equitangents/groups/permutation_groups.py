"""Groups of permutations: p is the tuple of images, p[x] the image of x, and (p·q)[x] = p[q[x]]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import check_table_order
from equitangents.groups.table_group import TableGroup


def from_permutations(permutations: Sequence[Sequence[int]]) -> TableGroup:
    """The group of a closed list of permutations, numbered in the list's order and labelled by tuples.

    Raises InvalidArgumentError with the witness if one is not a permutation, occurs twice, or a product is missing.

    >>> G = from_permutations([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    >>> G.element(G.compose(1, 1))
    (2, 0, 1)
    """
    p = check_permutations("permutations", permutations)
    number: dict[bytes, int] = {}
    for i, row in enumerate(p):
        if number.setdefault(row.tobytes(), i) != i:
            raise InvalidArgumentError(
                "permutations", number[row.tobytes()], "a row that is not in the list yet", verb="repeats row", at=i
            )
    check_table_order(len(p), "the permutation group")
    table = np.empty((len(p), len(p)), np.int32)
    for a, pa in enumerate(p):
        for b, product in enumerate(pa[p]):
            c = number.get(product.tobytes())
            if c is None:
                raise InvalidArgumentError(
                    "permutations",
                    (a, b),
                    "a closed list",
                    "generated_by_permutations makes the closure",
                    verb="lacks the product of",
                )
            table[a, b] = c
    return TableGroup(f"permutations of {p.shape[1]}", table, labels=[tuple(row) for row in p.tolist()])


def generated_by_permutations(generators: Sequence[Sequence[int]], max_order: int = 10_000) -> TableGroup:
    """The smallest group of permutations that holds `generators`; the identity is element 0.

    >>> generated_by_permutations([(1, 2, 3, 0), (3, 2, 1, 0)]).order
    8
    """
    s = check_permutations("generators", generators)
    identity = np.arange(s.shape[1])
    known, queue = {identity.tobytes(): identity}, [identity]
    for p in queue:  # grows while it is read
        for q in s:
            product = p[q]
            if product.tobytes() not in known:
                known[product.tobytes()] = product
                queue.append(product)
                if len(queue) > max_order:
                    raise InvalidArgumentError(
                        "generators", max_order, remedy="raise max_order", verb="generate more elements than"
                    )
    return from_permutations([tuple(row.tolist()) for row in queue])


def check_permutations(name: str, permutations: object) -> Int[np.ndarray, "n points"]:
    """`permutations` as an int64 array whose rows are permutations, or an error that names the row."""
    try:
        p = np.asarray(permutations)
    except ValueError:
        raise ShapeError(name, "rows of unequal length", "a list of permutations (n, points)", verb="has") from None
    if p.ndim != 2 or p.size == 0:
        raise ShapeError(name, p.shape, "a list of permutations (n, points)")
    if p.dtype.kind not in "iu":
        raise InvalidTypeError(name, p.dtype, "integers", verb="has dtype")
    p = p.astype(np.int64)
    wrong = np.flatnonzero((np.sort(p, axis=1) != np.arange(p.shape[1])).any(axis=1))
    if len(wrong):
        i = int(wrong[0])
        raise InvalidArgumentError(name, p[i].tolist(), "a permutation of 0, 1, ..., points − 1", at=i)
    return p
