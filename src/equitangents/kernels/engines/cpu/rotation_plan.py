"""What the CPU engine runs in place of fibres: a field with one position, averaged over relative rotations.

Signals are their harmonic coefficients, one vector (B²·C,) each, scaled so that their kernel is the mean of products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equitangents.kernels.plans.levels import Levels, grid_levels
from equitangents.kernels.program import FrozenArray, Op


@dataclass(frozen=True)
class RotationPlan:
    """Run `field` at every rotation, average with `weights`, then run `vector`.

    Either rings of Euler angles R_z(α) R_y(β) R_z(γ), each of azimuths² rotations of one weight: `waves`,
    (azimuths // 2 + 1, 2B - 1), hold cos kα for k ≥ 0 and sin |k|α for k < 0, and `mixing`, (rings, 2, entries), the
    factors that make a ring's spectrum of the products of degrees 1 to B - 1 (see `rotations.hpp`). Or, with
    azimuths = 0, single rotations, and `mixing` holds their Wigner matrices, degree after degree.
    """

    field: tuple[Op, ...]
    vector: tuple[Op, ...]
    bandlimit: int
    azimuths: int
    waves: FrozenArray
    mixing: FrozenArray
    weights: FrozenArray

    single = False
    positions = 1
    block_weight = 1.0

    @cached_property
    def levels(self) -> Levels:
        """One position, at every depth."""
        return grid_levels(self.field, ())

    @cached_property
    def fibres(self) -> FrozenArray:
        """As many as there are rotations."""
        return FrozenArray(np.zeros((self.weights.array.size * max(1, self.azimuths) ** 2, 0), np.int32))

    @property
    def labels(self) -> FrozenArray:
        """One label for all positions: the readout is a mean over all of them."""
        return FrozenArray(np.zeros(1, np.int32))
