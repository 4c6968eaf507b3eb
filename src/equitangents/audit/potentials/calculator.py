"""Quantities of interatomic potentials, and calculators that evaluate them, counted and timed, without caches.

A quantity has a unit, a behaviour under rotation, and a tolerance below which molecular dynamics is unaffected. Under a
rotation or reflection R scalars stay, vectors become R v, tensors R S Rᵀ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.actions.unchecked import INDICES
from equitangents.audit.adapters.model import in_short
from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    InvalidTypeError,
    ModelError,
    NotFiniteError,
    ShapeError,
)

if TYPE_CHECKING:
    from ase import Atoms


@dataclass(frozen=True)
class Quantity:
    """One output of a calculator."""

    name: str
    unit: str
    """The unit of errors in reports."""
    factor: float
    """From ASE's unit to that one."""
    kind: Literal["scalar", "vector", "tensor"]
    per_atom: bool
    tolerance: float
    """The error allowed, in `unit`."""
    extensive: bool = False
    """Whether the value of a supercell is the sum over its cells."""
    by_atoms: bool = False
    """Whether errors are divided by the number of atoms."""

    def rotated(self, value: np.ndarray, R: Float[np.ndarray, "3 3"]) -> np.ndarray:
        """The value expected after rotating the atoms by R."""
        if self.kind == "scalar":
            return value
        if self.kind == "vector":
            return value @ R.T
        return R @ self.full(value) @ R.T

    def shapes(self, atoms: int) -> list[tuple[int, ...]]:
        """Allowed shapes of a value for this many atoms."""
        every = (atoms,) if self.per_atom else ()
        ends: dict[str, list[tuple[int, ...]]] = {"scalar": [()], "vector": [(3,)], "tensor": [(6,), (3, 3)]}
        return [(*every, *end) for end in ends[self.kind]]

    def full(self, value: np.ndarray) -> np.ndarray:
        """Tensors as 3 × 3, from Voigt's xx, yy, zz, yz, xz, xy; other values unchanged."""
        if self.kind != "tensor" or value.shape[-2:] == (3, 3):
            return value
        whole = np.empty((*value.shape[:-1], 3, 3))
        for k, (i, j) in enumerate(INDICES[3]):
            whole[..., i, j] = whole[..., j, i] = value[..., k]
        return whole

    def size(self, value: np.ndarray, atoms: int) -> float:
        """Root mean square over atoms of the norm, or the norm, in the unit of reports."""
        whole = self.full(value)
        square = float((whole.astype(np.float64) ** 2).sum())
        if self.per_atom:
            square /= atoms
        return self.factor * float(np.sqrt(square)) / (atoms if self.by_atoms else 1)

    def difference(self, a: np.ndarray, b: np.ndarray, atoms: int) -> float:
        """The size of the difference of two values."""
        a, b = self.full(a), self.full(b)
        if a.shape != b.shape:
            raise ShapeError(self.name, b.shape, str(a.shape), "the shape before the move")
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


Values = dict[str, np.ndarray]


class Potential:
    """An ASE calculator, with its number of `calls`, `seconds`, and a `progress` function called after each."""

    def __init__(self, calculator: Any):
        if isinstance(calculator, type) or (callable(calculator) and not hasattr(calculator, "get_property")):
            calculator = _made(calculator)
        if not hasattr(calculator, "get_property") or not hasattr(calculator, "implemented_properties"):
            raise InvalidTypeError(
                "calculator", calculator, "an ASE calculator, its class, or a function that makes one"
            )
        self.calculator = calculator
        self.progress: Callable[[int], None] = lambda calls: None
        self.name = getattr(calculator, "name", None) or type(calculator).__name__
        if not isinstance(self.name, str) or self.name in ("unknown", "calculator"):
            self.name = type(calculator).__name__
        self.calls, self.seconds, self.single = 0, 0.0, True
        listed = list(calculator.implemented_properties)
        self.quantities: dict[str, Quantity] = {n: QUANTITIES[n] for n in QUANTITIES if n in listed}
        if "energy" not in self.quantities and "forces" not in self.quantities:
            raise InvalidArgumentError("calculator", list(listed), "energy or forces", self.name, verb="lists")

    def __call__(self, atoms: Atoms, names: Any = None, finite: bool = True) -> Values:
        """Quantities of a structure, by default all; stress only of crystals.

        Raises ModelError if the calculator raises and, unless `finite` is False, if one of `names` is missing;
        NotFiniteError for NaN and infinite values, unless `finite` is False.
        """
        chosen = [name for name in self.quantities if names is None or name in names]
        if not (all(atoms.pbc) and atoms.cell.rank == 3):
            chosen = [name for name in chosen if name not in ("stress", "stresses")]
        began = time.perf_counter()
        atoms = atoms.copy()
        try:
            if hasattr(self.calculator, "reset"):
                self.calculator.reset()
            values = {name: v for name in chosen if (v := self._one(name, atoms)) is not None}
        except EquitangentsError:
            raise
        except Exception as error:
            raise ModelError(f"{self.name} failed on {atoms.get_chemical_formula()}: {in_short(error)}") from error
        for name in values if finite else ():
            if not np.isfinite(values[name]).all():
                raise NotFiniteError(
                    self.name, name, "finite numbers", atoms.get_chemical_formula(), verb="gives NaN or infinite"
                )
        lacking = [name for name in chosen if name not in values]
        if finite and names is not None and lacking:
            raise ModelError(self.lacks(lacking, atoms))
        self.calls += 1
        self.seconds += time.perf_counter() - began
        self.progress(self.calls)
        return values

    def lacks(self, names: list[str], atoms: Atoms) -> str:
        """The message for results that exist for a structure, but not for its moved copy."""
        return f"{self.name} gives no {', '.join(names)} for {atoms.get_chemical_formula()} once it is moved"

    def _one(self, name: str, atoms: Atoms) -> np.ndarray | None:
        from ase.calculators.calculator import PropertyNotImplementedError

        try:
            value = self.calculator.get_property(name, atoms)
        except PropertyNotImplementedError:
            return None
        if value is None:
            return None
        given = np.asarray(value)
        array = self._shaped(name, np.array(given, np.float64), len(atoms))
        if not np.isfinite(array).all():
            return array
        if given.dtype != np.float32 and not np.array_equal(array, array.astype(np.float32).astype(np.float64)):
            self.single = False
        return array

    def _shaped(self, name: str, array: np.ndarray, atoms: int) -> np.ndarray:
        """The array in a shape of its quantity, up to axes of length 1."""
        shapes = self.quantities[name].shapes(atoms)
        plain = lambda shape: [n for n in shape if n != 1]
        shape = next((s for s in shapes if plain(s) == plain(array.shape)), None)
        if shape is None:
            expected = " or ".join(map(str, shapes))
            raise ShapeError(name, array.shape, expected, f"{self.name} gave it for {atoms} atoms")
        return array.reshape(shape)

    @property
    def unit(self) -> float:
        """Machine epsilon: that of single precision if all results so far are single-precision numbers."""
        return float(np.finfo(np.float32 if self.single else np.float64).eps)


def _made(factory: Callable[[], Any]) -> Any:
    """The calculator of a class or function; raises ModelError if that fails."""
    try:
        return factory()
    except EquitangentsError:
        raise
    except Exception as error:
        raise ModelError("calculator", factory, "a calculator", in_short(error)) from error
