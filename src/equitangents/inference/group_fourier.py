"""The Fourier transform of a finite group: f̂(ρ) = Σ_q f(q) ρ(q) for every irrep ρ, f real.

Inverse: f(q) = (1/|G|) Σ_ρ d_ρ tr(ρ(q)* f̂(ρ)). Of an irrep and its conjugate, whose transforms are conjugate, one is
kept and counted twice; irreps of real type use real matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Inexact

from equitangents.groups import Group
from equitangents.groups.irreps import Irrep
from equitangents.groups.wallpaper_group import TranslationGroup

_SAME = 1e-6  # characters of different irreps differ by more


@dataclass(frozen=True, eq=False)
class FourierIrrep:
    """An irrep in the form used by the transform: matrices (|G|, d, d), real if possible.

    `count` is 2 if it also represents its conjugate, else 1.
    """

    matrices: Inexact[np.ndarray, "order d d"]
    count: int = 1

    @property
    def dimension(self) -> int:
        """The size d of the irrep's matrices."""
        return self.matrices.shape[1]

    @property
    def is_real(self) -> bool:
        """Whether its matrices are real."""
        return not np.iscomplexobj(self.matrices)

    @property
    def weight(self) -> float:
        """count · d/|G|: its factor in the inverse transform."""
        return self.count * self.dimension / len(self.matrices)

    def fixed_basis(self, subgroup: np.ndarray) -> Inexact[np.ndarray, "d rank"]:
        """An orthonormal basis of the vectors fixed by all ρ(h), h in the subgroup."""
        values, vectors = np.linalg.eigh(self.matrices[subgroup].mean(axis=0))
        return vectors[:, values > 0.5]


def fourier_irreps(group: Group) -> tuple[FourierIrrep, ...]:
    """All irreps of the group, the trivial one first; one of each pair of conjugates.

    >>> from equitangents.groups import cyclic
    >>> [irrep.count for irrep in fourier_irreps(cyclic(5))]
    [1, 2, 2]
    """
    if isinstance(group, TranslationGroup):
        return _waves(group.shape)
    kept: list[FourierIrrep] = []
    waiting: list[Irrep] = []  # of complex kind, whose conjugates have not been met
    for irrep in group.irreps("complex"):
        if irrep.kind != "complex":
            real = irrep.kind == "real"
            kept.append(FourierIrrep(np.ascontiguousarray(irrep.matrices.real) if real else irrep.matrices))
            continue
        conjugate = next((w for w in waiting if _equal(w.character, irrep.character.conj())), None)
        if conjugate is None:
            waiting.append(irrep)
            kept.append(FourierIrrep(irrep.matrices, count=2))
        else:
            waiting.remove(conjugate)
    return tuple(kept)


def _waves(torus: tuple[int, ...]) -> tuple[FourierIrrep, ...]:
    """The irreps exp(2πi Σ k·t/n) of translations t, one of each pair of frequencies k and −k; real if −k = k."""
    size, found = np.array(torus), []
    places = np.indices(torus).reshape(len(torus), -1)
    for index, k in enumerate(places.T):
        opposite = int(np.ravel_multi_index(tuple(-k % size), torus))
        if index <= opposite:
            wave = np.exp(2j * np.pi * ((k / size) @ places))
            wave = wave.real.round() if index == opposite else wave
            found.append(FourierIrrep(wave[:, None, None], 1 if index == opposite else 2))
    return tuple(found)


@dataclass(frozen=True)
class GroupFourier:
    """The transform to some irreps of a group: from functions along the last axis to one matrix per irrep, and back.

    >>> from equitangents.groups import dihedral
    >>> transform = GroupFourier(fourier_irreps(dihedral(4)))
    >>> f = np.arange(8.0)
    >>> [m.shape for m in transform.forward(f)]
    [(1, 1), (1, 1), (1, 1), (1, 1), (2, 2)]
    >>> transform.inverse(transform.forward(f)).round(12).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """

    irreps: tuple[FourierIrrep, ...]

    @cached_property
    def columns(self) -> Float[np.ndarray, "order width"]:
        """All matrix entries concatenated, with separate real and imaginary parts."""
        parts = []
        for irrep in self.irreps:
            flat = irrep.matrices.reshape(len(irrep.matrices), -1)
            parts += [flat] if irrep.is_real else [flat.real, flat.imag]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def forward(self, f: Float[np.ndarray, "*batch order"]) -> list[Inexact[np.ndarray, "*batch d d"]]:
        """f̂(ρ) = Σ_q f(q) ρ(q) for each irrep."""
        product = f.reshape(-1, f.shape[-1]) @ self.columns
        found: list[np.ndarray] = []
        start = 0
        for irrep in self.irreps:
            d = irrep.dimension
            part = product[:, start : start + d * d]
            start += d * d
            if not irrep.is_real:
                part = part + 1j * product[:, start : start + d * d]
                start += d * d
            found.append(part.reshape(*f.shape[:-1], d, d))
        return found

    def inverse(self, transformed: list[Inexact[np.ndarray, "*batch d d"]]) -> Float[np.ndarray, "*batch order"]:
        """f(q) = Σ_ρ count · (d/|G|) Re tr(ρ(q)* f̂(ρ)); with only some irreps, the projection on these."""
        parts = []
        for irrep, matrix in zip(self.irreps, transformed, strict=True):
            flat = irrep.weight * matrix.reshape(*matrix.shape[:-2], -1)
            parts += [flat.real] if irrep.is_real else [flat.real, flat.imag]
        return np.concatenate(parts, axis=-1) @ self.columns.T


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() < _SAME * max(1.0, float(np.abs(a).max())))
