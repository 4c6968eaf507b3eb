"""What calculators return: its unit in reports, how it turns with the atoms, and the error that molecular dynamics
does not notice.

Under a rotation or reflection R scalars stay, vectors become R v, tensors R S Rᵀ, irreps D(R) v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from equitangents.audit.contract.irreps import blocks_of, irreps_matrix
from equitangents.errors import ShapeError

_VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))


@dataclass(frozen=True)
class Quantity:
    """One output of a calculator."""

    name: str
    unit: str
    """The unit of errors in reports."""
    factor: float
    """From ASE's unit to that one."""
    kind: Literal["scalar", "vector", "tensor", "irreps"]
    per_atom: bool
    tolerance: float
    """The error that counts as small, in `unit`."""
    extensive: bool = False
    """Whether the whole of a supercell is the sum over its cells."""
    by_atoms: bool = False
    """Whether errors are divided by the number of atoms."""
    irreps: str = ""

    def turned(self, value: np.ndarray, R: Float[np.ndarray, "3 3"]) -> np.ndarray:
        """What the value should be once the atoms were turned by R."""
        if self.kind == "scalar":
            return value
        if self.kind == "vector":
            return value @ R.T
        if self.kind == "tensor":
            return R @ self.full(value) @ R.T
        D = irreps_matrix(blocks_of(self.irreps, "features are"), R)
        if value.shape[-1] != len(D):
            raise ShapeError(f"{self.name} has shape {value.shape}; {self.irreps} has {len(D)} entries")
        return value @ D.T

    def full(self, value: np.ndarray) -> np.ndarray:
        """Tensors as 3 × 3, from Voigt's xx, yy, zz, yz, xz, xy; everything else as it is."""
        if self.kind != "tensor" or value.shape[-2:] == (3, 3):
            return value
        whole = np.empty((*value.shape[:-1], 3, 3))
        for k, (i, j) in enumerate(_VOIGT):
            whole[..., i, j] = whole[..., j, i] = value[..., k]
        return whole

    def size(self, value: np.ndarray, atoms: int) -> float:
        """Root mean square over atoms of the norm, or the norm, in the unit of reports."""
        whole = self.full(value)
        square = float((whole.astype(np.float64) ** 2).sum())
        if self.per_atom:
            square /= atoms
        return self.factor * float(np.sqrt(square)) / (atoms if self.by_atoms else 1)

    def apart(self, a: np.ndarray, b: np.ndarray, atoms: int) -> float:
        """The size of the difference of two values."""
        a, b = self.full(a), self.full(b)
        if a.shape != b.shape:
            raise ShapeError(f"{self.name} has shape {a.shape}, and after a move {b.shape}")
        return self.size(a - b, atoms)


QUANTITIES = {
    q.name: q
    for q in (
        Quantity("energy", "meV/atom", 1e3, "scalar", False, 0.1, extensive=True, by_atoms=True),
        Quantity("forces", "meV/Å", 1e3, "vector", True, 1.0),
        Quantity("stress", "meV/Å³", 1e3, "tensor", False, 0.1),
        Quantity("dipole", "e·Å", 1.0, "vector", False, 1e-3),
        Quantity("charges", "e", 1.0, "scalar", True, 1e-3),
        Quantity("magmom", "μB", 1.0, "scalar", False, 1e-3, extensive=True),
        Quantity("magmoms", "μB", 1.0, "scalar", True, 1e-3),
        Quantity("energies", "meV", 1e3, "scalar", True, 0.1),
        Quantity("stresses", "meV/Å³", 1e3, "tensor", True, 0.1),
    )
}
"""By ASE's names."""


def feature(name: str, irreps: str) -> Quantity:
    """Features of every atom, (atoms, D), that turn by irreps such as "8x0e+4x1o", in e3nn's basis."""
    blocks_of(irreps, "features are")
    return Quantity(name, "", 1.0, "irreps", True, 1e-3, irreps=irreps)
