"""The neighbours of an atom as a signal on the sphere around it: a bump in the direction of every other atom.

Around atom i, in the direction n: Σ_j q_i q_j / |r_ij|^p · exp(-(n · r̂_ij - 1)²/β), one channel for each element of j
and each power p; q are nuclear charges. Source: arXiv 2406.06504.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.molecules.molecules import LARGEST_ATOMIC_NUMBER, Molecules
from equitangents.sphere.directions import legendre_coefficients
from equitangents.sphere.harmonics import check_bandlimit, degrees, polynomials

SHARPNESS = -((math.cos(math.pi / 4) - 1) ** 2) / math.log(0.05)
"""β: the bump falls to a twentieth at 45°."""
_CHUNK = 1 << 23  # numbers at a time


class Neighbourhoods(NamedTuple):
    """Signals of all atoms of a batch, one row per atom, without padding."""

    signals: Float[np.ndarray, "total harmonics channels"]
    molecule: Int[np.ndarray, " total"]
    element: Int[np.ndarray, " total"]


@dataclass(frozen=True)
class AtomSignals:
    """Definition of the atoms' signals.

    Args:
        bandlimit: Harmonics of degree below it are kept.
        powers: The powers p of the distance, one channel each.
        elements: Atomic numbers that have channels; None: those that occur. Atoms of other elements raise an error.
    """

    bandlimit: int = 6
    powers: tuple[float, ...] = (2.0, 6.0)
    elements: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_bandlimit("bandlimit", self.bandlimit)
        object.__setattr__(self, "powers", _numbers("powers", self.powers, "numbers such as (2.0, 6.0)"))
        if not self.powers or not all(math.isfinite(p) for p in self.powers):
            raise InvalidArgumentError("powers", self.powers, "at least one finite number")
        if self.elements is not None:
            elements = _numbers("elements", self.elements, "atomic numbers such as (1, 6, 8)")
            wrong = [z for z in elements if z not in range(1, LARGEST_ATOMIC_NUMBER + 1)]
            if wrong:
                raise InvalidArgumentError("elements", wrong[0], "whole numbers from 1 to 118", verb="holds")
            object.__setattr__(self, "elements", tuple(sorted({int(z) for z in elements})))

    def for_molecules(self, *batches: Molecules) -> AtomSignals:
        """These settings, with the elements of the molecules if `elements` is None."""
        present = sorted({z for batch in batches for z in batch.elements})
        if self.elements is None:
            return AtomSignals(self.bandlimit, self.powers, tuple(present))
        missing = [z for z in present if z not in self.elements]
        if missing:
            raise InvalidArgumentError("elements", self.elements, "all that the molecules hold", str(missing[0]))
        return self

    def __call__(self, molecules: Molecules) -> Neighbourhoods:
        """The signals of all atoms, molecule by molecule, in the precision of the positions."""
        signals = self.for_molecules(molecules)
        z, x = molecules.atomic_numbers, molecules.positions
        present = z > 0
        each = z.shape[1] ** 2 * (self.bandlimit**2 + signals.channels)
        step = max(1, _CHUNK // each)
        parts = [
            signals.coefficients(z[start : start + step], x[start : start + step])[present[start : start + step]]
            for start in range(0, len(z), step)
        ]
        molecule, atom = np.nonzero(present)
        return Neighbourhoods(np.concatenate(parts), molecule, z[molecule, atom])

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.elements or ()) * len(self.powers)

    def coefficients(self, numbers: Int[np.ndarray, "*n a"], positions: Float[ArrayLike, "*n a 3"]) -> ArrayLike:
        """Signals (..., A, B², channels) of padded molecules; differentiable in positions that are JAX arrays.

        The signal of padding is zero.
        """
        if self.elements is None:
            raise InvalidArgumentError("elements", None, remedy="name them, or use `for_molecules`")
        xp: ModuleType = jnp if isinstance(positions, jax.Array) else np
        dtype = positions.dtype
        atoms = numbers.shape[-1]
        pair = (numbers[..., :, None] > 0) & (numbers[..., None, :] > 0) & ~np.eye(atoms, dtype=bool)
        r = positions[..., None, :, :] - positions[..., :, None, :]
        # No atom sees itself or padding; any vector but zero in their place keeps derivatives finite.
        r = xp.where(pair[..., None], r, np.array([0.0, 0.0, 1.0], dtype))
        distance = xp.sqrt((r * r).sum(axis=-1))
        charges = (numbers[..., :, None] * numbers[..., None, :] * pair).astype(dtype)
        radial = xp.stack([charges * (1 / distance) ** p for p in self.powers], axis=-1)
        which = (numbers[..., None] == np.asarray(self.elements)).astype(dtype)
        weights = which[..., None, :, :, None] * radial[..., None, :]
        weights = weights.reshape(*weights.shape[:-2], self.channels)
        bumps = polynomials(r / distance[..., None], self.bandlimit) * _factors(self.bandlimit, dtype)
        return xp.einsum("...ijk,...ijc->...ikc", bumps, weights)


def _numbers(name: str, values: Any, wanted: str) -> tuple[float, ...]:
    try:
        return tuple(float(v) for v in values)
    except (TypeError, ValueError):
        raise InvalidTypeError(name, values, wanted) from None


@lru_cache(maxsize=32)
def _factors(bandlimit: int, dtype: np.dtype) -> np.ndarray:
    """4π p_l of the bump's profile, for every coefficient."""
    profile = lambda cosine: np.exp(-((cosine - 1) ** 2) / SHARPNESS)
    return (4 * np.pi * legendre_coefficients(profile, bandlimit)[degrees(bandlimit)]).astype(dtype)
