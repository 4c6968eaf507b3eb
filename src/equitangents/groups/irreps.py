"""Irreducible representations of any finite group, up to equivalence.

Complex: unitary ρ with Σ d_ρ² = |G|. Real: orthogonal, each either a complex irrep that can be made real, or a complex
irrep and its conjugate taken together (Frobenius and Schur 1906). Which, tells (1/|G|) Σ_g χ(g²) of a complex irrep:
1 real, 0 complex, −1 quaternionic. Those of abelian groups are characters, extended one generator at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Inexact, Int

from equitangents._aliases import Element
from equitangents.errors import EquitangentsError, MemoryLimitError
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
        """Multiplicity in the regular representation over its field; Σ dimension · multiplicity = |G|."""
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
        raise MemoryLimitError("irreps", 8 * group.order**2, 8 * MAX_ORDER**2, "take a smaller group", verb="need")


def character_phases(group: Group) -> Int[np.ndarray, "characters order"]:
    """Characters of an abelian group, χ_a(g) = exp(2πi · phases[a, g] / |G|).

    If H is a subgroup and s^k the first power of s in H, then every character χ of H extends to ⟨H, s⟩ in k ways: χ(s)
    is any of the k-th roots of χ(s^k). Phases are kept as integers, in units of 1/(product of all k).
    """
    elements = np.array([group.identity])
    phases = np.zeros((1, 1), np.int64)  # in units of 1/|H| of a turn, columns numbered as `elements`
    for s in group.generators:
        powers = [group.identity]
        while not np.any(elements == (next_power := group.compose(powers[-1], s))):
            powers.append(next_power)
        k, size = len(powers), len(elements)
        of_power = phases[:, np.flatnonzero(elements == next_power)[0]]
        # χ(s) = (χ(s^k) + whole turns) / k, now in units of 1/(k·|H|)
        root = (of_power[:, None] + size * np.arange(k)).ravel()
        extended = k * np.repeat(phases, k, axis=0)
        phases = (extended[:, None, :] + np.arange(k)[:, None] * root[:, None, None]) % (k * size)
        phases = phases.reshape(len(root), -1)
        elements = group._compose(np.array(powers)[:, None], elements).ravel()
    ordered = np.empty_like(phases)
    ordered[:, elements] = phases
    return ordered


def abelian_irreps(group: Group, *, real: bool) -> list[tuple[np.ndarray, Kind]]:
    """(matrices, kind) of every irrep: characters over the complex numbers; over the reals, signs and plane turns."""
    n = group.order
    phases = character_phases(group)
    turns = np.exp(2j * np.pi * np.arange(n) / n)
    # multiples of a quarter turn exactly
    for quarter in range(4):
        if quarter * n % 4 == 0:
            turns[quarter * n // 4] = 1j**quarter
    irreps: list[tuple[np.ndarray, Kind]] = []
    for phase in phases:
        conjugate = -phase % n
        chi = turns[phase]
        if np.array_equal(phase, conjugate):
            irreps.append(((chi.real if real else chi)[:, None, None], "real"))
        elif not real:
            irreps.append((chi[:, None, None], "complex"))
        elif tuple(phase) < tuple(conjugate):
            c, s = chi.real, chi.imag
            irreps.append((np.stack([np.stack([c, -s], 1), np.stack([s, c], 1)], 1), "complex"))
    return irreps
