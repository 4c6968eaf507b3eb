"""Matrices on channels: one for every generator, fitted; a representation of the group near them; the action of that.

permutations   max tr(Pᵀ Σ z yᵀ), an assignment of channels, from rows y of f(x) and z of f(ρ(s)x)
orthogonal     P = U Vᵀ of Σ z yᵀ = U S Vᵀ (Procrustes), the least Σ ‖z − P y‖²

Words of generators give A(g); the defect is max ‖A(a)A(s) − A(a·s)‖/√C. Where it is small, the iteration
A(g) ← polar(mean_h A(g·h) A(h)ᵀ) ends in a representation nearby (Grove, Karcher, Ruh 1974; Kazhdan 1982).
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from equitangents._types import Element
from equitangents.actions import GroupAction
from equitangents.actions.given_maps import GivenMap
from equitangents.audit.contract.labels import along_words
from equitangents.groups import Group

_TIE = 1e-9  # of equally good assignments the one that moves fewer channels
_SNAP = 0.05  # entries nearer to 0 and ±1 than this may be meant to be them


def permutation(y: Float[np.ndarray, "n C"], z: Float[np.ndarray, "n C"]) -> Int[np.ndarray, " C"]:
    """Where each channel goes: z[:, p[c]] ≈ y[:, c]."""
    gain = y.T @ z
    bonus = _TIE * float(np.abs(gain).max(initial=0.0)) * np.eye(len(gain))
    return linear_sum_assignment(gain + bonus, maximize=True)[1]


def orthogonal(y: Float[np.ndarray, "n C"], z: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "C C"]:
    """The orthogonal matrix that takes y nearest to z."""
    U, _, Vt = np.linalg.svd(z.T @ y)
    return U @ Vt


def snapped(matrices: list[np.ndarray]) -> list[np.ndarray] | None:
    """The permutations with signs that these matrices nearly are; None if some matrix is no such."""
    near = [np.round(M) for M in matrices]
    signed = all(
        np.abs(M - N).max() <= _SNAP and (np.abs(N).sum(0) == 1).all() and (np.abs(N).sum(1) == 1).all()
        for M, N in zip(matrices, near, strict=True)
    )
    return near if signed else None


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


@final
class ChannelAction(GivenMap):
    """ρ(g) y = M(g) (positions moved by g): `base` moves the positions, or is None; M acts on the last axis."""

    needs_floats = True

    def __init__(self, group: Group, matrices: np.ndarray, base: GroupAction | None, name: str):
        exact = base is None or base.exact
        vars(self).update(group=group, matrices=matrices, base=base, name=name, exact=exact)

    matrices: np.ndarray
    base: GroupAction | None

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """What the base says; channels are as many as they were."""
        if self.base is not None:
            self.base.check_signals(name, x)

    def __call__(self, g: Element, x: Any) -> np.ndarray:
        """M(g) on the last axis of what the base makes of x."""
        moved = x if self.base is None else np.asarray(self.base(g, x))
        return moved @ self.matrices[g].T.astype(x.dtype)

    def moves_exactly(self, g: Element) -> bool:
        """Whether the base resamples nothing."""
        return self.base is None or self.base.moves_exactly(g)

    def _key(self) -> tuple[Any, ...]:
        return (self.matrices.shape, self.matrices.tobytes(), self.base)
