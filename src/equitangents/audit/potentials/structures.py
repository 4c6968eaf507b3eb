"""Structures: reading files, symmetry moves, and chirality.

Rotation and reflection transform the cell with the positions. A reflection R = −Q keeps the cell's handedness: −R a is
written Q a, the same lattice.

Chirality is tested by random smooth pseudoscalars, which vanish if a structure is its own mirror image:
χ = Σ_i w(Z_i) det(a_i, b_i, c_i),  a_i = Σ_j α(Z_j) exp(−r_ij/λ) (1 − r_ij²/R²)² d_ij, and b, c likewise: no rotation,
shift or renumbering changes it, and a reflection changes its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import expm

from equitangents.audit.adapters.model import first_line
from equitangents.audit.potentials.calculator import Quantity
from equitangents.errors import InvalidArgumentError

if TYPE_CHECKING:
    from ase import Atoms

_PICKLES = (".pckl", ".pkl", ".pickle", ".bundle")


def read_structures(path: str, limit: int | None = None, seed: int = 0) -> list[Any]:
    """All structures of a file, or `limit` of them drawn at random; nothing is unpickled."""
    from ase.io import read

    if not Path(path).is_file():
        raise InvalidArgumentError("structures", path, "a file")
    if Path(path).suffix.lower() in _PICKLES:
        raise InvalidArgumentError("structures", path, "no pickle, which runs any code when it is loaded")
    try:
        structures = read(path, index=":")
    except Exception as error:  # whatever ASE's many readers raise
        raise InvalidArgumentError("structures", path, "a file that ASE reads", first_line(error)) from None
    if not structures:
        raise InvalidArgumentError("structures", path, "at least one structure in it")
    if limit is None or limit >= len(structures):
        return list(structures)
    if limit < 1:
        raise InvalidArgumentError("limit", limit, "at least 1")
    rows = np.sort(np.random.default_rng(seed).choice(len(structures), limit, replace=False))
    return [structures[i] for i in rows]


_CUTOFF = 6.0  # Å
_DRAWS = 3
_CANCELLED, _ROUNDING = 1e-6, 1e-15  # of the sum of |χ_i|, and of its upper bound


def chiral(atoms: Atoms) -> bool:
    """Whether one of a few random pseudoscalars is nonzero beyond rounding."""
    from ase.neighborlist import neighbor_list

    if len(atoms) < 2:
        return False
    i, j, d = neighbor_list("ijD", atoms, _cutoff(atoms))
    rng, N = np.random.default_rng(0), len(atoms)
    r = np.linalg.norm(d, axis=1, keepdims=True)
    for _ in range(_DRAWS):
        weights = rng.normal(size=int(atoms.numbers.max()) + 1)[atoms.numbers]
        vectors, most = np.zeros((3, N, 3)), np.ones(N)
        for k in range(3):
            charges = rng.normal(size=int(atoms.numbers.max()) + 1)[atoms.numbers]
            term = charges[j][:, None] * np.exp(-r / rng.uniform(0.7, 3.0)) * (1 - (r / _cutoff(atoms)) ** 2) ** 2 * d
            np.add.at(vectors[k], i, term)
            most *= np.bincount(i, np.abs(term).sum(axis=1), N)
        each = weights * np.linalg.det(vectors.transpose(1, 0, 2))
        floor = _CANCELLED * np.abs(each).sum() + _ROUNDING * float((np.abs(weights) * most).sum())
        if abs(float(each.sum())) > floor:
            return True
    return False


def _cutoff(atoms: Atoms) -> float:
    """The cutoff radius, which covers a whole molecule."""
    if any(atoms.pbc):
        return _CUTOFF
    return max(_CUTOFF, 1.5 * float(np.linalg.norm(np.ptp(atoms.positions, axis=0))))


Expected = Callable[[Quantity, np.ndarray], np.ndarray]
_FAR = 5.0  # Å, how far structures are shifted
_TINY = 3e-6
"""Size in Å and radians of a move that only rounds structures again: some roundings of positions in single precision,
which change a broken symmetry by a millionth of itself."""
_VECTORS = ("momenta", "initial_magmoms")


@dataclass(frozen=True, eq=False)
class Move:
    """One moved copy of a structure."""

    label: str
    atoms: Atoms
    expected: Expected


def rotated(atoms: Atoms, R: np.ndarray, label: str) -> Move:
    """Positions and cell rotated by an orthogonal matrix."""
    moved = free(atoms)
    moved.set_cell(np.asarray(atoms.cell) @ (R * np.sign(np.linalg.det(R))).T, scale_atoms=False)
    moved.positions[:] = atoms.positions @ R.T
    for name in _VECTORS:
        if name in moved.arrays and moved.arrays[name].ndim == 2:
            axial = np.linalg.det(R) if name == "initial_magmoms" else 1.0
            moved.arrays[name][:] = axial * atoms.arrays[name] @ R.T
    return Move(label, moved, lambda q, v: q.rotated(v, R))


def translated(atoms: Atoms, rng: np.random.Generator) -> Move:
    """All atoms shifted alike."""
    shift = rng.uniform(-_FAR, _FAR, 3)
    moved = free(atoms)
    moved.positions += shift
    return Move(f"({', '.join(f'{x:.2f}' for x in shift)}) Å", moved, _dipole_shifted(atoms, shift))


def lattice_translated(atoms: Atoms, rng: np.random.Generator, wrap: bool) -> Move:
    """Every atom shifted by lattice vectors of its own, or all shifted alike and wrapped into the cell."""
    moved = free(atoms)
    if wrap:
        moved.positions += rng.uniform(-_FAR, _FAR, 3)
        moved.wrap()
        label = "shifted and wrapped"
    else:
        steps = rng.integers(-1, 2, (len(atoms), 3)) * np.asarray(atoms.pbc)
        moved.positions += steps @ np.asarray(atoms.cell)
        label = "atoms in other cells"
    return Move(label, moved, lambda q, v: v)


def nudged(atoms: Atoms, rng: np.random.Generator) -> Move:
    """Rotated by a tiny angle and shifted by a tiny vector."""
    a, shift = _TINY * rng.normal(size=3), _TINY * rng.normal(size=3)
    R = expm(np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]]))
    move = rotated(atoms, R, "nudged")
    move.atoms.positions += shift
    moved = _dipole_shifted(atoms, shift)
    return Move("nudged", move.atoms, lambda q, v: moved(q, q.rotated(v, R)))


def permuted(atoms: Atoms, rng: np.random.Generator) -> Move | None:
    """Atoms of the same element renumbered; None where no two are equal."""
    order, numbers = np.arange(len(atoms)), atoms.numbers
    for number in np.unique(numbers):
        same = np.flatnonzero(numbers == number)
        order[same] = rng.permutation(same)
    if (order == np.arange(len(atoms))).all():
        twice = [n for n in np.unique(numbers) if (numbers == n).sum() > 1]
        if not twice:
            return None
        same = np.flatnonzero(numbers == twice[0])
        order[same] = np.roll(same, 1)
    return Move("equal atoms renumbered", free(atoms)[order], lambda q, v: v[order] if q.per_atom else v)


def supercell(atoms: Atoms, most: int) -> Move | None:
    """The cell doubled along its shortest periodic vector; None without one, or where that has too many atoms."""
    axes = np.flatnonzero(np.asarray(atoms.pbc))
    if not len(axes) or 2 * len(atoms) > most:
        return None
    lengths = atoms.cell.lengths()
    axis = int(axes[np.argmin(lengths[axes])])
    times = [2 if i == axis else 1 for i in range(3)]

    def expected(q: Quantity, v: np.ndarray) -> np.ndarray:
        if q.per_atom:
            return np.concatenate([v, v])
        return 2 * v if q.extensive else v

    return Move("×".join(map(str, times)), free(atoms).repeat(times), expected)


def free(atoms: Atoms) -> Atoms:
    """A copy without constraints and calculator."""
    moved = atoms.copy()
    moved.set_constraint()
    return moved


def _dipole_shifted(atoms: Atoms, shift: np.ndarray) -> Expected:
    """Dipoles of charged structures move with them, by the charges that the structure carries."""
    total = float(atoms.get_initial_charges().sum())
    return lambda q, v: v + total * shift if q.name == "dipole" else v
