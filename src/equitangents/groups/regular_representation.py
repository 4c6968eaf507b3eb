"""The real irreps of a finite group from its regular representation (ρ(g) f)(x) = f(g⁻¹ x).

The maps that commute with it are f ↦ Σ_g a(g) f(· g). For random a with a(g⁻¹) = a(g) such a map is symmetric, and
its eigenspaces are irreducible (with probability one): an irrep of multiplicity m shows as m eigenvalues. If a is
constant on conjugacy classes the map is one number on all copies of an irrep, which tells equivalent eigenspaces.
Reading ρ in one eigenspace of each class gives its matrices, up to rounding errors that averaging over the group
removes: ρ′(g) = (1/|G|) Σ_h ρ(g·h) ρ(h)ᵀ squares the error (Kazhdan 1982).
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
_ROUNDING = 2e-14  # a representation that respects products to this is not refined further
_DRAWS = 20


def real_components(group: Group) -> list[Float[np.ndarray, "order d d"]]:
    """One orthogonal matrix representation for every real irrep."""
    values, vectors = _spectrum(group)
    gaps = np.diff(values)
    starts = np.concatenate([[0], np.flatnonzero(gaps > _SAME * np.abs(values).max()) + 1])
    ends = np.append(starts[1:], len(values))
    edge = np.concatenate([[np.inf], gaps[starts[1:] - 1], [np.inf]])
    isolation = np.minimum(edge[:-1], edge[1:])

    kind = _equivalence_classes(group, vectors[:, starts])
    best = [max(np.flatnonzero(kind == k), key=lambda i: isolation[i]) for k in range(kind.max() + 1)]
    return [refine(group, rho) for rho in _read(group, [vectors[:, starts[i] : ends[i]] for i in best])]


def refine(group: Group, matrices: Inexact[np.ndarray, "order d d"]) -> Inexact[np.ndarray, "order d d"]:
    """The unitary representation next to an approximate one."""
    rho = _unitary(matrices)
    d, everything = rho.shape[1], np.arange(group.order)
    for _ in range(4):
        if _homomorphism_error(group, rho) < _ROUNDING:
            break
        right = np.ascontiguousarray(rho.conj().transpose(0, 2, 1)).reshape(-1, d)  # ρ(h)⁻¹, stacked
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
    X = np.random.default_rng(0).normal(size=(d, d))
    J = ((matrices @ (X - X.T)) @ matrices.transpose(0, 2, 1)).mean(axis=0)
    J *= np.sqrt(d) / np.linalg.norm(J)
    values, vectors = np.linalg.eigh(-1j * J)
    return vectors[:, values > 0]


def _spectrum(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of a random symmetric map that commutes with the regular representation."""
    rng = np.random.default_rng(0)
    for _ in range(_DRAWS):
        a = rng.normal(size=group.order)
        values, vectors = np.linalg.eigh(_commuting(group, a + a[group.inverses]))
        relative = np.diff(values) / np.abs(values).max()
        if not np.any((relative > _SAME) & (relative < _APART)):
            return values, vectors
    raise _unseparated(group)


def _equivalence_classes(group: Group, vectors: np.ndarray) -> np.ndarray:
    """Number of the irrep in whose copies each of the given unit vectors (order, k) lies."""
    rng = np.random.default_rng(1)
    for _ in range(_DRAWS):
        a = np.empty(group.order)
        for members in group.conjugacy_classes:
            a[members] = rng.normal() / np.sqrt(len(members))
        central = _commuting(group, a + a[group.inverses])
        number = np.einsum("xk,xk->k", vectors, central @ vectors)
        order = np.argsort(number)
        gaps = np.diff(number[order]) / np.abs(number).max()
        if not np.any((gaps > _SAME) & (gaps < _APART)):
            classes = np.empty(len(number), int)
            classes[order] = np.concatenate([[0], np.cumsum(gaps > _SAME)])
            return classes
    raise _unseparated(group)


def _commuting(group: Group, a: np.ndarray) -> np.ndarray:
    """The matrix of f ↦ Σ_g a(g) f(· g), with entries a(x⁻¹ y)."""
    everything = np.arange(group.order)
    A = np.empty((group.order, group.order))
    for x in everything:
        A[x] = a[group._compose(group.inverses[x], everything)]
    return A


def _read(group: Group, bases: list[np.ndarray]) -> list[np.ndarray]:
    """Vᵀ ρ(g) V for every invariant subspace, V its orthonormal basis.

    Read from V for few g = t only; others are products k·t of known ones: the known set about doubles with each t, so
    that no element is a product of more than some log₂ |G| factors.
    """
    everything = np.arange(group.order)
    known = np.array([group.identity])
    matrices = [np.zeros((group.order, V.shape[1], V.shape[1])) for V in bases]
    for rho in matrices:
        rho[group.identity] = np.eye(rho.shape[1])
    member = np.zeros(group.order, bool)
    member[known] = True
    while len(known) < group.order:
        t = int(np.argmin(member))
        carried = group._compose(group.inverses[t], everything)
        products = group._compose(known, t)
        new = ~member[products]
        for V, rho in zip(bases, matrices, strict=True):
            rho[products[new]] = rho[known[new]] @ (V.T @ V[carried])
        member[products] = True
        known = np.concatenate([known, products[new]])
    return matrices


def _unitary(matrices: np.ndarray) -> np.ndarray:
    """The nearest unitary matrices (polar decomposition)."""
    U, _, W = np.linalg.svd(matrices)
    return U @ W


def _homomorphism_error(group: Group, rho: np.ndarray) -> float:
    everything = np.arange(group.order)
    return max(
        (float(np.abs(rho[s] @ rho - rho[group._compose(s, everything)]).max()) for s in group.generators),
        default=0.0,
    )


def _unseparated(group: Group) -> EquitangentsError:
    return EquitangentsError(f"the regular representation of {group.name} did not separate into irreps")
