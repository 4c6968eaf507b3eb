"""A calculator at work: every quantity of one structure, evaluated anew, counted and timed."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.audit.potentials.quantities import QUANTITIES, Quantity, feature
from equitangents.errors import EquitangentsError, InvalidArgumentError, InvalidTypeError, ModelError, NotFiniteError

Values = dict[str, np.ndarray]


class Potential:
    """An ASE calculator; `calls` and `seconds` count what it was asked, and `told` hears of every call."""

    def __init__(self, calculator: Any, features: Mapping[str, str] | None = None):
        if isinstance(calculator, type) or (callable(calculator) and not hasattr(calculator, "get_property")):
            calculator = calculator()
        if not hasattr(calculator, "get_property") or not hasattr(calculator, "implemented_properties"):
            raise InvalidTypeError(
                f"calculator is {calculator!r}; expected an ASE calculator, its class, or a function that makes one"
            )
        self.calculator = calculator
        self.told: Callable[[int], None] = lambda calls: None
        self.name = getattr(calculator, "name", None) or type(calculator).__name__
        if not isinstance(self.name, str) or self.name in ("unknown", "calculator"):
            self.name = type(calculator).__name__
        self.calls, self.seconds, self.single = 0, 0.0, True
        told = {name: feature(name, irreps) for name, irreps in (features or {}).items()}
        listed = list(calculator.implemented_properties)
        self.quantities: dict[str, Quantity] = {n: QUANTITIES[n] for n in QUANTITIES if n in listed} | told
        if "energy" not in self.quantities and "forces" not in self.quantities:
            raise InvalidArgumentError(f"{self.name} gives neither energy nor forces; it lists {', '.join(listed)}")

    def __call__(self, atoms: Any, names: Any = None, finite: bool = True) -> Values:
        """The quantities of a structure, of those `names` that it has; stress only of crystals.

        NotFiniteError where one is NaN or infinite, unless `finite` is False; ModelError where the calculator raises.
        """
        asked = [name for name in self.quantities if names is None or name in names]
        if not (all(atoms.pbc) and atoms.cell.rank == 3):
            asked = [name for name in asked if name not in ("stress", "stresses")]
        began = time.perf_counter()
        atoms = atoms.copy()
        try:
            if hasattr(self.calculator, "reset"):
                self.calculator.reset()
            values = {name: v for name in asked if (v := self._one(name, atoms)) is not None}
        except EquitangentsError:
            raise
        except Exception as error:
            said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
            said = f"{type(error).__name__}: {said[:300]}{_place(error)}"
            raise ModelError(f"{self.name} failed on {atoms.get_chemical_formula()}: {said}") from error
        for name in values if finite else ():
            if not np.isfinite(values[name]).all():
                raise NotFiniteError(f"{self.name} gives NaN or infinite {name} for {atoms.get_chemical_formula()}")
        self.calls += 1
        self.seconds += time.perf_counter() - began
        self.told(self.calls)
        return values

    def _one(self, name: str, atoms: Any) -> np.ndarray | None:
        from ase.calculators.calculator import PropertyNotImplementedError

        try:
            if name in QUANTITIES:
                value = self.calculator.get_property(name, atoms)
            else:
                self.calculator.get_property("energy" if "energy" in self.quantities else "forces", atoms)
                value = self.calculator.results.get(name)
                if value is None:
                    known = ", ".join(self.calculator.results)
                    raise InvalidArgumentError(f"features names {name!r}; the calculator's results are {known}")
        except PropertyNotImplementedError:
            return None
        if value is None:
            return None
        given = np.asarray(value)
        array = np.array(given, np.float64)
        if not np.isfinite(array).all():
            return array
        if given.dtype != np.float32 and not np.array_equal(array, array.astype(np.float32).astype(np.float64)):
            self.single = False
        return array

    @property
    def unit(self) -> float:
        """The rounding of one operation, of single precision if every number that was seen is one of these."""
        return float(np.finfo(np.float32 if self.single else np.float64).eps)

    @property
    def seconds_each(self) -> float:
        """Mean time of one evaluation."""
        return self.seconds / max(self.calls, 1)


def _place(error: BaseException) -> str:
    """ " (emt.py:181)": the line that raised, of the innermost file."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if len(frames) > 1 else ""
