"""Cyclic, dihedral, symmetric, quaternion, polyhedral and permutation groups, and direct products.

The cube has the octahedron's group, the dodecahedron the icosahedron's. A permutation p is the tuple of its images
p[x], and (p·q)[x] = p[q[x]]. S_n of any n (`permutations`) draws elements instead of listing all n!. In products
element (a, b) is number a · |H| + b.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Int

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import Group, TableGroup, check_table_order
from equitangents.groups.matrix_group import MatrixGroup, from_matrices
from equitangents.groups.symmetry_group import SymmetryGroup
from equitangents.validation import check_whole


def cyclic(n: int) -> TableGroup:
    """C_n, the integers modulo n: a·b = a + b mod n."""
    n = check_whole("n", n, 1, wanted="a positive integer")
    check_table_order(n, f"C{n}")
    a = np.arange(n)
    return TableGroup(f"C{n}", (a[:, None] + a) % n)


def dihedral(n: int) -> TableGroup:
    """D_n of order 2n: rotation^k · reflection^f is element number f·n + k, labelled (k, f).

    rotation^n = reflection² = 1 and reflection · rotation = rotation⁻¹ · reflection.
    """
    n = check_whole("n", n, 1, wanted="a positive integer")
    check_table_order(2 * n, f"D{n}")
    f, k = np.divmod(np.arange(2 * n), n)
    sign = 1 - 2 * f[:, None]
    table = (f[:, None] ^ f) * n + (k[:, None] + sign * k) % n
    return TableGroup(f"D{n}", table, labels=list(zip(k.tolist(), f.tolist(), strict=True)))


def symmetric(n: int) -> TableGroup:
    """S_n, all permutations of 0 .. n − 1 in lexicographic order, labelled by tuples p with p[x] the image of x.

    (p·q)[x] = p[q[x]]. n is at most 7 (order 5040).
    """
    n = check_whole("n", n, 1, wanted="a positive integer")
    if n > 7:
        raise InvalidArgumentError("n", n, "at most 7 (S_7 has 5040 elements)")
    p = np.array(list(itertools.permutations(range(n))))
    weights = n ** np.arange(n - 1, -1, -1)  # lexicographic order is the order of these numbers
    table = np.empty((len(p), len(p)), np.int32)
    code = p @ weights
    for a in range(len(p)):
        table[a] = np.searchsorted(code, p[a][p] @ weights)
    return TableGroup(f"S{n}", table, labels=[tuple(row) for row in p.tolist()])


def quaternion() -> TableGroup:
    """Q_8 = {1, −1, i, −i, j, −j, k, −k} in this order, labelled by these names in ASCII ("1", "-1", "i", ...)."""
    # unit u and sign s are element 2u + s; i·j = k and cyclically
    unit = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
    minus = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]])
    u, s = np.divmod(np.arange(8), 2)
    table = 2 * unit[u[:, None], u] + (s[:, None] ^ s ^ minus[u[:, None], u])
    return TableGroup("Q8", table, labels=["1", "-1", "i", "-i", "j", "-j", "k", "-k"])


def tetrahedral() -> MatrixGroup:
    """T, the 12 rotations of the tetrahedron (1, 1, 1), (1, −1, −1), (−1, 1, −1), (−1, −1, 1); isomorphic to A_4.

    `.matrices` are exact, of entries 0 and ±1; the identity is element 0.
    """
    cube = _cube_rotations()
    vertex = np.array([1, 1, 1])
    # the rotations of the cube that keep the tetrahedron take (1, 1, 1) to a vertex with an even number of minus signs
    return from_matrices(np.array([m for m in cube if np.prod(m @ vertex) > 0]), "T")


def octahedral() -> MatrixGroup:
    """O, the 24 rotations of the cube and the octahedron; isomorphic to S_4.

    `.matrices` are exact, the signed permutation matrices of determinant 1; the identity is element 0.
    """
    return from_matrices(_cube_rotations(), "O")


def icosahedral() -> MatrixGroup:
    """I, the 60 rotations of the icosahedron with vertices (0, ±1, ±φ) and cyclic permutations; isomorphic to A_5.

    `.matrices` are exact to rounding; element 0 is the identity. The tetrahedral group is a subgroup.
    """
    phi = (1 + np.sqrt(5)) / 2
    # a rotation by 72° about the vertex (0, 1, φ)
    fifth = np.array([[phi - 1, -phi, 1], [phi, 1, phi - 1], [-1, phi - 1, phi]]) / 2
    coset = [np.eye(3)]
    for _ in range(4):
        # the entries of every rotation of this icosahedron are among these: rounding to them keeps the powers exact
        coset.append(_snap(fifth @ coset[-1], np.array([0, 1, phi, phi - 1, 2]) / 2))
    return from_matrices(np.array([turn @ m for turn in coset for m in tetrahedral().matrices]), "I")


def _cube_rotations() -> np.ndarray:
    signed = [
        np.eye(3)[list(p)] * np.array(signs)[:, None]
        for p in itertools.permutations(range(3))
        for signs in itertools.product((1.0, -1.0), repeat=3)
    ]
    return np.array([m for m in signed if np.linalg.det(m) > 0]) + 0.0  # + 0.0 makes −0 into 0


def _snap(m: np.ndarray, magnitudes: np.ndarray) -> np.ndarray:
    nearest = magnitudes[np.abs(np.abs(m)[..., None] - magnitudes).argmin(axis=-1)]
    return np.sign(m) * nearest


def from_permutations(permutations: Sequence[Sequence[int]]) -> TableGroup:
    """The group of a list of permutations closed under products, numbered in the list's order and labelled by tuples.

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


def direct_product(G: Group, H: Group) -> TableGroup:
    """The direct product G × H, with (a, b)(c, d) = (a·c, b·d); element (a, b) is number a · |H| + b, labelled (a, b).

    >>> from equitangents.groups import cyclic
    >>> direct_product(cyclic(2), cyclic(3)).element(5)
    (1, 2)
    """
    for name, group in (("G", G), ("H", H)):
        if not isinstance(group, Group):
            raise InvalidTypeError(name, type(group), "a group", verb="is of type")
    order, name = G.order * H.order, f"{G.name} x {H.name}"
    check_table_order(order, name)
    g, h = np.divmod(np.arange(order), H.order)
    table = np.empty((order, order), np.int32)
    for a in range(order):
        table[a] = G._compose(g[a], g) * H.order + H._compose(h[a], h)
    return TableGroup(name, table, labels=list(zip(g.tolist(), h.tolist(), strict=True)))


@final
class Permutations(SymmetryGroup):
    """All permutations of n positions; made by `permutations`. `symmetric(n)` lists them for n ≤ 7."""

    n: int

    def __init__(self, n: int):
        vars(self).update(n=n, name=f"S{n}")

    @property
    def order(self) -> int:
        """The number of permutations, n!."""
        return math.factorial(self.n)

    @property
    def identity(self) -> Int[np.ndarray, " n"]:
        """The identity permutation of n points."""
        return np.arange(self.n)

    def check_element(self, name: str, g: Element) -> Int[np.ndarray, " n"]:
        """`g` as an array if it is a permutation of 0 .. n − 1."""
        p = np.asarray(g)
        if p.dtype.kind not in "iu":
            raise InvalidTypeError(name, g, "a permutation of 0, 1, ..., n − 1")
        if p.shape != (self.n,) or not np.array_equal(np.sort(p), np.arange(self.n)):
            raise InvalidArgumentError(name, p.tolist(), "a permutation of 0, 1, ..., n − 1")
        return p

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Independent permutations, each of the n! equally likely."""
        return [rng.permutation(self.n) for _ in range(count)]

    def compose(self, a: Element, b: Element) -> np.ndarray:
        """First b, then a: entry i is a[b[i]]."""
        return np.asarray(a)[b]

    def inverse(self, a: Element) -> np.ndarray:
        """The inverse permutation of a."""
        return np.argsort(a)

    def label(self, g: Element) -> str:
        """The images p[0], p[1], … of the first positions, as text."""
        shown = ",".join(map(str, g[:8]))
        return f"({shown}{',…' if self.n > 8 else ''})"

    def __repr__(self) -> str:
        return f"<{self.name}, all permutations of {self.n} positions>"


def permutations(n: int) -> Permutations:
    """S_n for any n. Its elements are drawn, not listed.

    >>> G = permutations(20)
    >>> G.compose(G.inverse(p := G.draw(1, np.random.default_rng(0))[0]), p).tolist() == list(range(20))
    True
    """
    return Permutations(check_whole("n", n, 1))
