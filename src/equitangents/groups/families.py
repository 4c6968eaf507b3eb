"""The cyclic, dihedral, symmetric and quaternion groups by tables; the rotations of the regular solids, as matrices.

The octahedron stands for the cube, too, and the icosahedron for the dodecahedron.
"""

from __future__ import annotations

import itertools

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.groups.group import check_table_order
from equitangents.groups.matrix_group import MatrixGroup, from_matrices
from equitangents.groups.table_group import TableGroup
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

    `.matrices` are exact to rounding; the identity is element 0, the tetrahedral group is among the elements.
    """
    phi = (1 + np.sqrt(5)) / 2
    # a turn by 72° about the vertex (0, 1, φ)
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
