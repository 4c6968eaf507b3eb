"""Molecules in one padded batch: elements and positions of their atoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int, Real

from equitangents._types import ArrayLike, Numbers, Rows
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError, require
from equitangents.validation import as_rectangular, check_array

if TYPE_CHECKING:
    from ase import Atoms

LARGEST_ATOMIC_NUMBER = 118
_CLOSEST = 1e-3  # Å: nearer atoms are one atom given twice
_FARTHEST = 1e6  # Å: farther ones are in another unit, and powers of their distances overflow


@dataclass(frozen=True, eq=False)
class Molecules:
    """N molecules of at most A atoms; both arrays are read-only copies.

    Args:
        atomic_numbers: (N, A) integers from 1 to 118; 0 where a smaller molecule has no atom.
        positions: (N, A, 3) in ångström; arbitrary where there is no atom.

    Raises:
        ShapeError: The shapes do not fit.
        InvalidArgumentError: An atomic number is invalid, a molecule has no atom, or two atoms coincide.

    >>> water = Molecules(np.array([[8, 1, 1]]), np.array([[[0, 0, 0.1], [0, 0.8, -0.5], [0, -0.8, -0.5]]]))
    >>> len(water), water.sizes.tolist()
    (1, [3])
    """

    atomic_numbers: Int[np.ndarray, "molecules atoms"]
    positions: Float[np.ndarray, "molecules atoms 3"]

    def __init__(
        self,
        atomic_numbers: Real[ArrayLike, "n a"] | Sequence[Sequence[int]],
        positions: Real[ArrayLike, "n a 3"] | Sequence[Sequence[Sequence[float]]],
    ) -> None:
        numbers = _checked_numbers(atomic_numbers)
        x = as_rectangular("positions", positions)
        if x.shape != (*numbers.shape, 3):
            raise ShapeError("positions", x.shape, (*numbers.shape, 3), "as atomic_numbers has")
        x = check_array("positions", np.where(numbers[..., None] > 0, x, np.zeros((), x.dtype)))
        x = x.astype(np.float32 if x.dtype == np.float32 else np.float64)
        if np.abs(x).max() > _FARTHEST:
            raise InvalidArgumentError("positions", float(x.flat[np.abs(x).argmax()]), "at most 1e6 Å", verb="holds")
        _check_distances(numbers, x)
        for name, value in (("atomic_numbers", numbers), ("positions", x)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @classmethod
    def from_ase(cls, atoms: Atoms | Iterable[Atoms]) -> Molecules:
        """Molecules from one or several Atoms of ASE.

        Raises InvalidArgumentError for periodic ones, since copies of atoms are not supported, and for dummy atoms X.
        """
        atoms = _list_of_atoms(atoms)
        if not atoms:
            raise InvalidArgumentError("atoms", atoms, "at least one molecule")
        for i, a in enumerate(atoms):
            if 0 in a.numbers:
                dummy, remedy = "a dummy atom X, of atomic number 0", "leave such atoms out"
                raise InvalidArgumentError("atoms", dummy, "elements", remedy, verb="holds", at=i)
            if any(a.pbc):
                expected, remedy = "molecules, which are not periodic", "in a box: set pbc to False"
                raise InvalidArgumentError("atoms", a.pbc.tolist(), expected, remedy, verb="has pbc", at=i)
        most = max(len(a) for a in atoms)
        numbers, positions = np.zeros((len(atoms), most), int), np.zeros((len(atoms), most, 3))
        for i, a in enumerate(atoms):
            numbers[i, : len(a)], positions[i, : len(a)] = a.numbers, a.positions
        return cls(numbers, positions)

    def to_ase(self) -> list[Atoms]:
        """A list with one ASE Atoms per molecule."""
        ase = require("ase", "atoms", "to_ase")
        both = zip(self.atomic_numbers, self.positions, strict=True)
        return [ase.Atoms(numbers=z[z > 0], positions=x[z > 0]) for z, x in both]

    @property
    def sizes(self) -> Int[np.ndarray, " molecules"]:
        """Number of atoms of each molecule."""
        return (self.atomic_numbers > 0).sum(axis=1)

    @property
    def elements(self) -> tuple[int, ...]:
        """The atomic numbers that occur, ascending."""
        return tuple(int(z) for z in np.unique(self.atomic_numbers) if z > 0)

    def with_positions(self, positions: Real[ArrayLike, "n a 3"] | Sequence[Sequence[Sequence[float]]]) -> Molecules:
        """These atoms at other positions."""
        return Molecules(self.atomic_numbers, positions)

    def __len__(self) -> int:
        return len(self.atomic_numbers)

    def __getitem__(self, index: Rows) -> Molecules:
        """Some of the molecules, by a slice, a mask or indices."""
        index = [index] if isinstance(index, int | np.integer) else index
        numbers = self.atomic_numbers[index]
        if not len(numbers):
            raise InvalidArgumentError("index", index, range(len(self)), verb="chooses none of the molecules:")
        return Molecules(numbers, self.positions[index])

    def __repr__(self) -> str:
        return f"Molecules({len(self)}, of up to {self.atomic_numbers.shape[1]} atoms)"


def _list_of_atoms(atoms: Any) -> list[Any]:
    """One Atoms, or several, as a list; InvalidTypeError for anything without their attributes."""
    is_atoms = lambda a: all(hasattr(a, name) for name in ("numbers", "positions", "pbc"))
    if is_atoms(atoms):
        return [atoms]
    found = list(atoms) if isinstance(atoms, Iterable) else [atoms]
    for a in found:
        if not is_atoms(a):
            raise InvalidTypeError("atoms", type(a), "ASE's Atoms, one or several", verb="holds")
    return found


def _checked_numbers(atomic_numbers: Numbers) -> Int[np.ndarray, "n a"]:
    numbers = np.asarray(check_array("atomic_numbers", atomic_numbers, rank=2))
    if not np.array_equal(numbers, np.round(numbers)):
        raise InvalidArgumentError("atomic_numbers", numbers.dtype, "whole numbers", verb="has type")
    if numbers.min() < 0 or numbers.max() > LARGEST_ATOMIC_NUMBER:
        wrong = int(numbers[(numbers < 0) | (numbers > LARGEST_ATOMIC_NUMBER)][0])
        raise InvalidArgumentError("atomic_numbers", wrong, "1 to 118, or 0 for no atom", verb="holds")
    numbers = numbers.astype(np.int64)
    empty = np.flatnonzero((numbers > 0).sum(axis=1) == 0)
    if len(empty):
        raise InvalidArgumentError("atomic_numbers", 0, "at least one atom", verb="has atoms,", at=int(empty[0]))
    return numbers


def _check_distances(numbers: np.ndarray, x: np.ndarray) -> None:
    for start in range(0, len(x), 1024):
        z, y = numbers[start : start + 1024], x[start : start + 1024]
        distance = np.linalg.norm(y[:, :, None] - y[:, None], axis=-1)
        both = (z[:, :, None] > 0) & (z[:, None] > 0) & ~np.eye(z.shape[1], dtype=bool)
        close = np.argwhere(both & (distance < _CLOSEST))
        if len(close):
            n, i, j = (int(v) for v in close[0])
            raise InvalidArgumentError(
                "positions", (i, j), "different places", verb="coincide for the atoms", at=start + n
            )
