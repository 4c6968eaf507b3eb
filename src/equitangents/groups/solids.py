"""Rotation groups of the tetrahedron, the octahedron (or cube) and the icosahedron (or dodecahedron), as matrices."""

from __future__ import annotations

import itertools

import numpy as np

from equitangents.groups.matrix_group import MatrixGroup, from_matrices


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
