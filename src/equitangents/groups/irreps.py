"""Irreducible representations of any finite group, up to equivalence.

Complex: unitary ρ with Σ d_ρ² = |G|. Real: orthogonal, each either a complex irrep that can be made real, or a complex
irrep and its conjugate taken together (Frobenius and Schur 1906). Which, tells (1/|G|) Σ_g χ(g²) of a complex irrep:
1 real, 0 complex, −1 quaternionic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Inexact

from equitangents._aliases import Element
from equitangents.errors import EquitangentsError, MemoryLimitError
from equitangents.groups.abelian_irreps import abelian_irreps
from equitangents.groups.regular_representation import complex_structure, real_components, refine

if TYPE_CHECKING:
    from equitangents.groups.group import Group

Kind = Literal["real", "complex", "quaternionic"]
MAX_ORDER = 5000  # 200 to 400 MB for the matrices, and minutes for the eigenvectors
_COMMUTANT: dict[Kind, int] = {"real": 1, "complex": 2, "quaternionic": 4}


@dataclass(frozen=True, eq=False)
class Irrep:
    """An irreducible representation: `matrices[g]` is ρ(g), unitary, or orthogonal over the real numbers.

    `kind` is the irrep's type after Frobenius and Schur. A complex irrep is real if it is equivalent to one by real
    matrices, complex if it is not equivalent to its conjugate, quaternionic otherwise. A real irrep is of the kind of
    the field of the matrices that commute with it.
    """

    matrices: Inexact[np.ndarray, "order d d"]
    kind: Kind

    @property
    def dimension(self) -> int:
        """d, the size of the matrices."""
        return self.matrices.shape[1]

    @cached_property
    def character(self) -> Inexact[np.ndarray, " order"]:
        """χ(g) = tr ρ(g)."""
        return np.trace(self.matrices, axis1=1, axis2=2)

    @property
    def multiplicity(self) -> int:
        """How often the irrep occurs in the regular representation over its field; Σ dimension · multiplicity = |G|."""
        real = not np.iscomplexobj(self.matrices)
        return self.dimension // _COMMUTANT[self.kind] if real else self.dimension

    def __call__(self, g: Element) -> Inexact[np.ndarray, "d d"]:
        """The matrix ρ(g) of an element."""
        return self.matrices[g]

    def __repr__(self) -> str:
        return f"<{self.kind} irrep of dimension {self.dimension}>"


def complex_irreps(group: Group) -> tuple[Irrep, ...]:
    """All irreps over the complex numbers: complex128, unitary."""
    _check_order(group)
    if group.is_abelian:
        return _sorted(group, [Irrep(m.astype(complex), kind) for m, kind in abelian_irreps(group, real=False)])
    irreps = []
    for real in group.irreps("real"):
        if real.kind == "real":
            irreps.append(Irrep(real.matrices.astype(complex), "real"))
            continue
        U = complex_structure(group, real.matrices)
        half = refine(group, U.conj().T @ real.matrices @ U)
        irreps.append(Irrep(half, real.kind))
        if real.kind == "complex":
            irreps.append(Irrep(half.conj(), "complex"))
    return _sorted(group, irreps)


def real_irreps(group: Group) -> tuple[Irrep, ...]:
    """All irreps over the real numbers: float64, orthogonal."""
    _check_order(group)
    if group.is_abelian:
        return _sorted(group, [Irrep(m, kind) for m, kind in abelian_irreps(group, real=True)])
    irreps = []
    for matrices in real_components(group):
        norm = float(np.mean(np.trace(matrices, axis1=1, axis2=2) ** 2))  # the dimension of the commutant
        irreps.append(Irrep(matrices, min(_COMMUTANT, key=lambda kind: abs(norm - _COMMUTANT[kind]))))
    if sum(irrep.dimension * irrep.multiplicity for irrep in irreps) != group.order:
        raise EquitangentsError(f"the irreps found of {group.name} are not complete; please report this group")
    return _sorted(group, irreps)


def _sorted(group: Group, irreps: list[Irrep]) -> tuple[Irrep, ...]:
    """By dimension, then by character, the trivial one first; the matrices become read-only."""
    representatives = [int(c[0]) for c in group.conjugacy_classes]

    def key(irrep: Irrep) -> tuple[int, list[float]]:
        chi = np.round(irrep.character[representatives], 6) + 0.0  # rounded: neighbours differ by more than noise
        return irrep.dimension, np.stack([-chi.real, -chi.imag], axis=1).ravel().tolist()

    for irrep in irreps:
        irrep.matrices.flags.writeable = False
    return tuple(sorted(irreps, key=key))


def _check_order(group: Group) -> None:
    if group.order > MAX_ORDER:
        raise MemoryLimitError(
            f"the irreps of {group.name} hold {group.order}² numbers; they are computed for groups of at most "
            f"{MAX_ORDER} elements"
        )
