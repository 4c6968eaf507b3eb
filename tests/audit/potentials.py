"""Potentials whose faults are known: pair potentials of clusters, as ASE calculators, in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.calculator import Calculator, all_changes

Forces = Callable[[np.ndarray], np.ndarray]


class Cluster(Calculator):
    """Σ over pairs of exp(−2(r − r0)) − 2 exp(−(r − r0)) within a cutoff; no periodic images.

    `forces` and `energy` change what is given of either; `dtype` is what it computes in.
    """

    implemented_properties = ("energy", "forces")

    def __init__(
        self,
        forces: Forces = lambda F: F,
        energy: Callable[[Atoms], float] = lambda atoms: 0.0,
        cutoff: float = np.inf,
        dtype: type = np.float64,
    ):
        super().__init__()
        self.head, self.extra, self.cutoff, self.dtype = forces, energy, cutoff, dtype

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        x = self.atoms.positions.astype(self.dtype)
        d = x[:, None] - x[None]
        r = np.sqrt((d**2).sum(axis=2) + np.eye(len(x), dtype=self.dtype))
        inside = (r < self.cutoff) & ~np.eye(len(x), dtype=bool)
        near = np.exp(-(r - 2))
        energy = 0.5 * np.where(inside, near**2 - 2 * near, 0).sum(dtype=self.dtype)
        slope = np.where(inside, -2 * near**2 + 2 * near, 0) / r
        forces = -(slope[:, :, None] * d).sum(axis=1)
        given = self.head(forces.astype(np.float64)) if self.dtype is np.float64 else forces
        self.results = {"energy": float(energy) + self.extra(self.atoms), "forces": given}


def clusters(count: int, atoms: int = 6, seed: int = 0) -> list[Atoms]:
    """Random clusters whose atoms keep their distance."""
    rng = np.random.default_rng(seed)
    lattice = np.stack(np.meshgrid(*[np.arange(2)] * 3), axis=-1).reshape(-1, 3)[:atoms] * 2.0
    return [Atoms(f"Cu{atoms - 2}Au2", positions=lattice + 0.25 * rng.normal(size=lattice.shape)) for _ in range(count)]


def rattled(name: str = "Cu", size: float = 0.1) -> Atoms:
    """A crystal whose atoms are moved a little from their places."""
    atoms = bulk(name, cubic=True)
    atoms.rattle(size, seed=0)
    return atoms
