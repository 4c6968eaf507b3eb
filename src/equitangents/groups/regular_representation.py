"""The real irreps of a finite group from its regular representation (ρ(g) f)(x) = f(g⁻¹ x).

The maps that commute with it are f ↦ Σ_g a(g) f(· g). For random a with a(g⁻¹) = a(g) such a map is symmetric, and
its eigenspaces are irreducible (with probability one): each irrep of multiplicity m shows as m eigenvalues. Reading
ρ in one eigenspace of each isomorphism class gives its matrices up to the rounding errors of the eigenvectors, which
averaging over the group removes: ρ′(g) = (1/|G|) Σ_h ρ(g·h) ρ(h)ᵀ squares the error (Kazhdan 1982).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Inexact

from equitangents.errors import EquitangentsError

if TYPE_CHECKING:
    from equitangents.groups.group import Group

_SAME = 1e-11  # eigenvalues closer than this, relative to the largest, are one eigenvalue
_APART = 1e-9  # and others are at least so far apart, or else another map is drawn
_DRAWS = 20


def real_components(group: Group) -> list[Float[np.ndarray, "order d d"]]:
    """One orthogonal matrix representation for every real irrep."""
    values, vectors = _spectrum(group)
    gaps = np.diff(values)
    scale = np.abs(values).max()
    starts = np.concatenate([[0], np.flatnonzero(gaps > _SAME * scale) + 1])
    ends = np.append(starts[1:], len(values))
    edge = np.concatenate([[np.inf], gaps[starts[1:] - 1], [np.inf]])
    isolation = np.minimum(edge[:-1], edge[1:])

    characters = _characters(group, vectors, starts)
    sizes = np.array([len(c) for c in group.conjugacy_classes]) / group.order
    overlaps = (characters * sizes) @ characters.T
    components = []
    remaining = np.ones(len(starts), bool)
    for i in range(len(starts)):
        if remaining[i]:
            alike = overlaps[i] > 0.5  # ⟨χ, χ′⟩ is 1, 2 or 4 for equivalent irreps, else 0
            remaining &= ~alike
            best = int(np.argmax(np.where(alike, isolation, -1)))
            components.append(refine(group, _restricted(group, vectors[:, starts[best] : ends[best]])))
    return components


def refine(group: Group, matrices: Inexact[np.ndarray, "order d d"]) -> Inexact[np.ndarray, "order d d"]:
    """The exact unitary representation next to an approximate one."""
    rho = _unitary(matrices)
    for _ in range(4):
        if _homomorphism_error(group, rho) < 4e-15 * np.sqrt(rho.shape[1]):
            break
        d = rho.shape[1]
        right = np.ascontiguousarray(rho.conj().transpose(0, 2, 1)).reshape(-1, d)  # ρ(h)⁻¹, stacked
        everything = np.arange(group.order)
        averaged = np.empty_like(rho)
        for g in everything:
            left = rho[group._compose(g, everything)].transpose(1, 0, 2).reshape(d, -1)
            averaged[g] = left @ right / group.order
        rho = _unitary(averaged)
    return rho


def complex_structure(group: Group, matrices: Float[np.ndarray, "order d d"]) -> Inexact[np.ndarray, "d half"]:
    """An orthonormal basis of half the complexified space that a real irrep of complex or quaternionic kind keeps.

    It is the eigenspace of i of a J that commutes with the irrep, J² = −1, Jᵀ = −J.
    """
    d = matrices.shape[1]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(d, d))
    J = np.einsum("gij,jk,glk->il", matrices, X - X.T, matrices, optimize=True) / group.order
    J *= np.sqrt(d) / np.linalg.norm(J)
    values, vectors = np.linalg.eigh(-1j * J)
    return vectors[:, values > 0]


def _spectrum(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of a random symmetric map that commutes with the regular representation."""
    rng = np.random.default_rng(0)
    everything = np.arange(group.order)
    for _ in range(_DRAWS):
        a = rng.normal(size=group.order)
        a = a + a[group.inverses]
        A = np.empty((group.order, group.order))
        for x in everything:
            A[x] = a[group._compose(group.inverses[x], everything)]
        values, vectors = np.linalg.eigh(A)
        relative = np.diff(values) / np.abs(values).max()
        if not np.any((relative > _SAME) & (relative < _APART)):
            return values, vectors
    raise EquitangentsError(f"the regular representation of {group.name} did not separate into eigenspaces")


def _characters(group: Group, vectors: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """χ of the regular representation within each eigenspace, one column for each conjugacy class."""
    everything = np.arange(group.order)
    columns = []
    for members in group.conjugacy_classes:
        moved = vectors[group._compose(group.inverses[members[0]], everything)]
        columns.append(np.add.reduceat(np.einsum("xk,xk->k", vectors, moved), starts))
    return np.stack(columns, axis=1)


def _restricted(group: Group, V: np.ndarray) -> np.ndarray:
    """Vᵀ ρ(g) V."""
    everything = np.arange(group.order)
    return np.stack([V.T @ V[group._compose(group.inverses[g], everything)] for g in everything])


def _unitary(matrices: np.ndarray) -> np.ndarray:
    """The nearest unitary matrices (polar decomposition)."""
    U, _, W = np.linalg.svd(matrices)
    return U @ W


def _homomorphism_error(group: Group, rho: np.ndarray) -> float:
    everything = np.arange(group.order)
    return max(
        (float(np.abs(rho[s] @ rho - rho[group._compose(np.array(s), everything)]).max()) for s in group.generators),
        default=0.0,
    )
