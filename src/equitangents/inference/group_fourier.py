"""The Fourier transform of a finite group: f̂(ρ) = Σ_q f(q) ρ(q) for every irrep ρ, f real.

Inverse: f(q) = (1/|G|) Σ_ρ d_ρ tr(ρ(q)* f̂(ρ)). Of an irrep and its conjugate, whose transforms are conjugate, one is
kept and counts twice; irreps of real kind are taken by real matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Inexact

from equitangents.groups import Group
from equitangents.groups.irreps import Irrep
from equitangents.groups.wallpaper_group import TranslationGroup

_FAST = 16  # waves of a torus from which on a fast Fourier transform pays
_SAME = 1e-6  # characters of different irreps differ by more


@dataclass(frozen=True)
class Frequency:
    """The wave exp(2πi k·t/n) on a torus of shape n, k the row-major index of its frequency."""

    torus: tuple[int, ...]
    index: int

    @property
    def opposite(self) -> int:
        """The index of −k."""
        k = np.unravel_index(self.index, self.torus)
        return int(np.ravel_multi_index(tuple(-i % n for i, n in zip(k, self.torus, strict=True)), self.torus))

    def values(self) -> np.ndarray:
        """The wave at every translation t, (order,); real where it can be."""
        k = np.unravel_index(self.index, self.torus)
        phases = sum(i * t / n for i, t, n in zip(k, np.indices(self.torus), self.torus, strict=True))
        wave = np.exp(2j * np.pi * np.asarray(phases)).ravel()
        return wave.real.round() if self.opposite == self.index else wave


@dataclass(frozen=True, eq=False)
class FourierIrrep:
    """An irrep as the transform uses it: matrices (|G|, d, d), real where it can be real.

    `count` is 2 for one that stands for its conjugate, too, else 1. `frequency`: which wave it is, of translations.
    """

    matrices: Inexact[np.ndarray, "order d d"]
    count: int = 1
    frequency: Frequency | None = None

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
        """count · d/|G|: what its share of the inverse transform is multiplied by."""
        return self.count * self.dimension / len(self.matrices)

    def fixed_basis(self, subgroup: np.ndarray) -> Inexact[np.ndarray, "d rank"]:
        """An orthonormal basis of the vectors that all ρ(h), h in the subgroup, leave alone."""
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
    """The irreps of translations, one of each pair of opposite frequencies."""
    frequencies = (Frequency(torus, index) for index in range(math.prod(torus)))
    return tuple(
        FourierIrrep(f.values()[:, None, None], 1 if f.opposite == f.index else 2, f)
        for f in frequencies
        if f.index <= f.opposite
    )


@dataclass(frozen=True)
class GroupFourier:
    """The transform to some irreps of a group: functions along the last axis, one matrix for each irrep back.

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
        """All matrix entries side by side, real and imaginary parts apart."""
        parts = []
        for irrep in self.irreps:
            flat = irrep.matrices.reshape(len(irrep.matrices), -1)
            parts += [flat] if irrep.is_real else [flat.real, flat.imag]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def forward(self, f: Float[np.ndarray, "*batch order"]) -> list[Inexact[np.ndarray, "*batch d d"]]:
        """f̂(ρ) = Σ_q f(q) ρ(q) for each irrep; of many waves on a torus by a fast Fourier transform."""
        if self._torus is not None:
            return self._forward_fast(f, self._torus)
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
        """f(q) = Σ_ρ count · (d/|G|) Re tr(ρ(q)* f̂(ρ)); without all irreps, the projection on those given."""
        if self._torus is not None:
            return self._inverse_fast(transformed, self._torus)
        parts = []
        for irrep, matrix in zip(self.irreps, transformed, strict=True):
            flat = irrep.weight * matrix.reshape(*matrix.shape[:-2], -1)
            parts += [flat.real] if irrep.is_real else [flat.real, flat.imag]
        return np.concatenate(parts, axis=-1) @ self.columns.T

    @property
    def _torus(self) -> tuple[int, ...] | None:
        """The torus, where fast transforms pay."""
        first = self.irreps[0].frequency
        if first is None or len(self.irreps) < _FAST or any(irrep.frequency is None for irrep in self.irreps):
            return None
        return first.torus

    @property
    def _indices(self) -> np.ndarray:
        return np.array([irrep.frequency.index for irrep in self.irreps if irrep.frequency is not None])

    def _forward_fast(self, f: np.ndarray, torus: tuple[int, ...]) -> list[np.ndarray]:
        axes = tuple(range(-len(torus), 0))
        waves = np.fft.fftn(f.reshape(*f.shape[:-1], *torus), axes=axes).conj()  # Σ f exp(+2πi k·t/n), f real
        waves = waves.reshape(*f.shape[:-1], -1)[..., self._indices]
        parts = np.moveaxis(waves, -1, 0)[..., None, None]
        return [part.real.copy() if i.is_real else part for i, part in zip(self.irreps, parts, strict=True)]

    def _inverse_fast(self, transformed: list[np.ndarray], torus: tuple[int, ...]) -> np.ndarray:
        batch = transformed[0].shape[:-2]
        waves = np.zeros((*batch, math.prod(torus)), complex)
        for irrep, part in zip(self.irreps, transformed, strict=True):
            assert irrep.frequency is not None
            value = part[..., 0, 0] * (irrep.count / 2)
            waves[..., irrep.frequency.index] += value.conj()
            waves[..., irrep.frequency.opposite] += value
        axes = tuple(range(-len(torus), 0))
        return np.fft.ifftn(waves.reshape(*batch, *torus), axes=axes).real.reshape(*batch, -1)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() < _SAME * max(1.0, float(np.abs(a).max())))
