"""From matrices of a group's generators to a representation of the whole group, if they nearly make one.

Words of generators give A(g); the defect is max ‖A(a)A(s) − A(a·s)‖/√C. Where it is small, the iteration
A(g) ← polar(mean_h A(g·h) A(h)ᵀ) ends in a representation nearby (Grove, Karcher, Ruh 1974; Kazhdan 1982).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from equitangents.audit.contract.words import along_words
from equitangents.groups import Group

NEAR = 0.5
"""Up to this defect there is a representation nearby."""
_ROUNDS = 6
_NUMBERS = 2**24  # of one array of matrices
_EXACT = 1e-12


def representation(group: Group, matrices: list[np.ndarray]) -> tuple[Float[np.ndarray, "order C C"] | None, float]:
    """(ρ of every element or None, the defect of the words)."""
    C = len(matrices[0])
    if group.order * C * C > _NUMBERS:
        return None, float("nan")
    A = np.stack(along_words(group, matrices, np.eye(C), np.matmul))
    first = defect(group, A)
    if not first <= NEAR:
        return None, first
    for _ in range(_ROUNDS):
        if defect(group, A) <= _EXACT:
            break
        A = _averaged(group, A)
    return (A, first) if defect(group, A) <= 1e-6 else (None, first)


def defect(group: Group, A: Float[np.ndarray, "order C C"]) -> float:
    """The largest ‖A(a)A(s) − A(a·s)‖/√C over elements a and generators s."""
    everything = np.arange(group.order)
    off = [np.linalg.norm(A @ A[s] - A[group.compose(everything, s)], axis=(1, 2)).max() for s in group.generators]
    return float(np.max(off, initial=0.0)) / float(np.sqrt(A.shape[1]))


def _averaged(group: Group, A: np.ndarray) -> np.ndarray:
    everything = np.arange(group.order)
    total = np.zeros_like(A)
    for h in range(group.order):
        total += A[group.compose(everything, h)] @ A[h].T
    U, _, Vt = np.linalg.svd(total / group.order)
    return U @ Vt
