"""Irreducible representations of any finite group, up to equivalence.

Complex: unitary ρ with Σ d_ρ² = |G|. Real: orthogonal, each either a complex irrep that can be made real, or a complex
irrep and its conjugate taken together. The Frobenius–Schur indicator (1/|G|) Σ_g χ(g²) of a complex irrep is 1 for
real, 0 for complex, −1 for quaternionic irreps. Characters of abelian groups are extended one generator at a time.

Other irreps come from the regular representation (ρ(g) f)(x) = f(g⁻¹ x). The maps that commute with it are
f ↦ Σ_g a(g) f(· g). For random a with a(g⁻¹) = a(g) such a map is symmetric, and its eigenspaces are irreducible (with
probability one): an irrep of multiplicity m shows as m eigenvalues. If a is constant on conjugacy classes, the map is
one scalar on all copies of an irrep, which identifies equivalent eigenspaces. The restriction of ρ to one eigenspace
of each class gives the irrep's matrices. Averaging over the group, ρ′(g) = (1/|G|) Σ_h ρ(g·h) ρ(h)ᵀ, squares their
rounding error (Kazhdan 1982).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float, Inexact, Int

from equitangents._aliases import Element
from equitangents.errors import EquitangentsError, MemoryLimitError

if TYPE_CHECKING:
    from equitangents.groups.group import Group


Kind = Literal["real", "complex", "quaternionic"]
MAX_ORDER = 5000  # 200 to 400 MB for the matrices, and minutes for the eigenvectors
_COMMUTANT: dict[Kind, int] = {"real": 1, "complex": 2, "quaternionic": 4}


@dataclass(frozen=True, eq=False)
class Irrep:
    """An irreducible representation: `matrices[g]` is ρ(g), unitary, or orthogonal over the real numbers.

    `kind` is the Frobenius–Schur type. A complex irrep is real if it is equivalent to one by real matrices, complex if
    it is not equivalent to its conjugate, quaternionic otherwise. The kind of a real irrep is the field (ℝ, ℂ or ℍ)
    formed by the matrices that commute with it.
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
    """The irreps sorted by dimension, then by character, the trivial one first; their matrices become read-only."""
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
    """(matrices, kind) of every irrep of an abelian group: characters over ℂ; signs and plane rotations over ℝ."""
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


_SAME = 1e-11  # eigenvalues closer than this, relative to the largest, are one eigenvalue
_APART = 1e-9  # other eigenvalues differ by at least this, or another map is drawn
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
    """The unitary representation nearest to an approximate one."""
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
    """An orthonormal basis (d, d/2) of the eigenspace of i of J, for a real irrep of complex or quaternionic kind.

    J is a real matrix with J² = −1 and Jᵀ = −J that commutes with the irrep, which therefore keeps the eigenspace.
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
    """For each unit vector (order, k), the number of the irrep whose copies contain it."""
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
    """Vᵀ ρ(g) V for every invariant subspace with orthonormal basis V.

    Computed from V for few elements t only; the others are products k·t of known matrices. Each t about doubles the
    known set, so that no element is a product of more than some log₂ |G| factors.
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
