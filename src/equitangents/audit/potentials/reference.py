"""Reference values of the unmoved structures, their noise floors, and which structures can show a violation.

If forces vanish, so does an error proportional to them; a structure that is its own mirror image has the energy of its
mirror image for every potential. Such structures decide nothing, unless they show an error.

A noise floor is the change by rounding and chance, of the same quantity under the same kind of move:

null     ‖f(h g x) − h f(g x)‖, a move g of the test followed by a tiny move h, which rounds everything again
repeat   ‖f(x) − f(x)‖ of calls that differ: the noise of a calculator
floor    √F₀.₉₉(d, D) rms + 8 ε ‖f‖, rms of nulls and repeats: 99 of 100 errors of an exact potential are no larger

d counts the entries of one error (1 of an energy), D those of all nulls, fewer where few of them carry the sum of their
squares (Satterthwaite). Entries of one value are counted up to 9, since atoms that are close err together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import fdtri

from equitangents.audit.potentials.calculator import Potential, Quantity, Values
from equitangents.audit.potentials.results import NO_FORCES, BrokenPose
from equitangents.audit.potentials.structures import Move, chiral, nudged
from equitangents.errors import InvalidArgumentError, ModelError, NotFiniteError
from equitangents.keywords import unknown

if TYPE_CHECKING:
    from ase import Atoms

_ROUNDINGS = 8.0  # of the size of a result: layers round their sums as well
_ENTRIES = 9
_LEVEL = 0.99
_REPEATED = 3  # structures evaluated twice
_ENOUGH = 4  # tests with their own null, with which a single structure needs no second one
_MORE = 3  # repeats of all structures, if some of these differ
_NOISE = 1e3  # roundings by which repeats may differ on parallel machines; more is noise


@dataclass(eq=False)
class StructureNoiseFloors:
    """Nulls of every quantity by test, and repeats that differ, of one structure."""

    sizes: dict[str, float]
    entries: dict[str, int]
    unit: float
    nulls: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    repeats: dict[str, list[float]] = field(default_factory=dict)

    def note(self, test: str, errors: dict[str, float]) -> None:
        """Remember the nulls of a test."""
        for name, error in errors.items():
            self.nulls.setdefault(name, {}).setdefault(test, []).append(error)

    def rms_of(self, name: str, test: str = "") -> float:
        """Root mean square of all nulls and repeats, or of this test's nulls, whichever is larger."""
        every, own = self.all(name), self.nulls.get(name, {}).get(test, [])
        rms = lambda values: float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0
        return float(np.max([rms(every), rms(own)]))

    def all(self, name: str) -> list[float]:
        """Every null and repeat of a quantity."""
        return [e for errors in self.nulls.get(name, {}).values() for e in errors] + self.repeats.get(name, [])


def null(potential: Potential, nudge: Move, before: Values) -> dict[str, float]:
    """Errors of a tiny move; those that are not finite are left out."""
    expected = {name: nudge.expected(potential.quantities[name], value) for name, value in before.items()}
    errors = _errors(potential, nudge.atoms, expected)
    return {name: error for name, error in errors.items() if np.isfinite(error)}


def _errors(potential: Potential, atoms: Atoms, expected: Values) -> dict[str, float]:
    """Differences between the values of a structure and those expected."""
    values = potential(atoms, list(expected), finite=False)
    return {n: potential.quantities[n].difference(values[n], v, len(atoms)) for n, v in expected.items() if n in values}


def _repeat(potential: Potential, atoms: Atoms, before: Values, floors: StructureNoiseFloors) -> bool:
    """Evaluate once more and record differences; return whether there are any."""
    errors = _errors(potential, atoms, before)
    for name, error in errors.items():
        if np.isfinite(error) and (error > 0 or name in floors.repeats):
            floors.repeats.setdefault(name, []).append(error)
    return any(error > 0 for error in errors.values())


AT_REST = 10.0
"""meV/Å: structures whose root mean square force is below are at rest."""
_VANISHES = 10.0
"""Floors below which a value counts as none."""


@dataclass(eq=False)
class Reference:
    """A potential with values and noise floors of the unmoved structures."""

    potential: Potential
    structures: list[Any]
    values: list[Values]
    """Finite values."""
    floors: list[StructureNoiseFloors]
    at_rest: list[bool]
    tolerances: dict[str, float]
    broken: list[BrokenPose] = field(default_factory=list)
    """Poses without a finite result, of all tests."""
    _chiral: dict[int, bool] = field(default_factory=dict)

    def scales(self, q: Quantity) -> dict[int, float]:
        """The divisors of relative errors by structure; structures at rest have none."""
        have = [i for i, v in enumerate(self.values) if q.name in v]
        if q.extensive:
            per = [float(self.values[i][q.name]) * q.factor / len(self.structures[i]) for i in have]
            std = float(np.std(per, ddof=1)) if len(per) > 1 else 0.0
            return dict.fromkeys(have, std) if std > 10 * self.tolerances[q.name] else {}
        sizes = {i: q.size(self.values[i][q.name], len(self.structures[i])) for i in have}
        moving = {i: s for i, s in sizes.items() if s > 10 * self.tolerances[q.name]}
        return {i: s for i, s in moving.items() if q.name != "forces" or not self.at_rest[i]}

    def floors_of(self, name: str, of: list[int], test: str = "") -> list[float]:
        """Noise floors of one quantity in one test by structure, in the units of reports."""
        floors = [self.floors[i] for i in of]
        squares = np.square([e for f in floors for e in f.all(name)])
        count = float(squares.sum() ** 2 / (squares**2).sum()) if (squares**2).sum() > 0 else 1.0
        entries = min(f.entries[name] for f in floors)
        factor = float(np.sqrt(fdtri(entries, max(count, 1.0) * entries, _LEVEL)))
        return [factor * f.rms_of(name, test) + _ROUNDINGS * f.unit * f.sizes[name] for f in floors]

    def noise(self) -> dict[str, float]:
        """Root mean square differences between calls, of quantities for which they exceed those of parallel sums."""
        noise = {}
        for name in self.potential.quantities:
            repeats = [e for f in self.floors for e in f.repeats.get(name, [])]
            rounding = [_NOISE * f.unit * f.sizes[name] for f in self.floors if name in f.sizes]
            if repeats and (size := float(np.sqrt(np.mean(np.square(repeats))))) > np.mean(rounding):
                noise[name] = size
        return noise

    def rounding(self, name: str, i: int) -> float:
        """Root mean square difference of two evaluations by rounding and noise, in the units of reports."""
        floors = self.floors[i]
        return max(floors.rms_of(name), 0.5 * floors.unit * floors.sizes[name])

    def vanishes(self, name: str, i: int) -> bool:
        """Whether a quantity is no larger than its tolerance, or than ten floors."""
        size = self.potential.quantities[name].size(self.values[i][name], len(self.structures[i]))
        return size <= max(_VANISHES * self.floors_of(name, [i])[0], self.tolerances[name])

    def shows_nothing(self, q: Quantity, test: str, i: int) -> str:
        """Why structure i cannot show errors of a quantity; "" if it can."""
        if q.name == "forces" and self.vanishes("forces", i):
            return NO_FORCES
        if test == "reflection" and q.kind == "scalar" and not q.per_atom and not self.is_chiral(i):
            return ACHIRAL
        return ""

    def is_chiral(self, i: int) -> bool:
        """Whether the structure differs from its mirror image."""
        if i not in self._chiral:
            self._chiral[i] = chiral(self.structures[i])
        return self._chiral[i]

    def moved_values(self, move: Move, names: list[str], test: str, i: int) -> Values:
        """Finite values of a moved structure; missing and infinite values and exceptions are recorded in `broken`."""
        try:
            values = self.potential(move.atoms, names, finite=False)
        except ModelError as error:
            self.broken.append(BrokenPose(test, i, move.label, str(error), True))
            return {}
        if lacking := [name for name in names if name not in values]:
            self.broken.append(BrokenPose(test, i, move.label, self.potential.lacks(lacking, move.atoms), True))
        return self._finite(values, test, i, move.label)

    def _finite(self, values: Values, test: str, i: int, label: str) -> Values:
        wrong = [name for name, v in values.items() if not np.isfinite(v).all()]
        if wrong:
            self.broken.append(BrokenPose(test, i, label, f"NaN or infinite {', '.join(wrong)}", False))
        return {name: v for name, v in values.items() if name not in wrong}


ACHIRAL = "the structure is its own mirror image"


def measure_reference(
    potential: Potential, given: list[Any], tolerances: Mapping[str, float] | None, seed: int, later: int = 0
) -> Reference:
    """Evaluate the unmoved structures: values, noise floors from nulls and a few repeats, and structures at rest.

    A single structure gets two nulls, unless `later` tests add enough of their own.

    Raises NotFiniteError if no structure has a finite value, ModelError if the calculator raises.
    """
    limits = {name: q.tolerance for name, q in potential.quantities.items()}
    reference = Reference(potential, given, [], [], [], limits)
    for i, atoms in enumerate(given):
        reference.values.append(reference._finite(potential(atoms, finite=False), "as given", i, ""))
    if not any(reference.values):
        raise NotFiniteError(potential.name, reference.broken[0].result, "a finite result", verb="gives")
    for name, value in (tolerances or {}).items():
        if name not in limits:
            raise unknown("tolerances", name, list(limits))
        if isinstance(value, bool) or not isinstance(value, int | float) or not (np.isfinite(value) and value > 0):
            raise InvalidArgumentError("tolerances", value, "a number above 0", at=name)
        limits[name] = float(value)
    nulls, rng = (2 if len(given) == 1 and later < _ENOUGH else 1), np.random.default_rng([seed, 1])
    for atoms, v in zip(given, reference.values, strict=True):
        sizes = {name: potential.quantities[name].size(value, len(atoms)) for name, value in v.items()}
        entries = {name: min(value.size, _ENTRIES) for name, value in v.items()}
        floors = StructureNoiseFloors(sizes, entries, potential.unit)
        for _ in range(nulls):
            floors.note("as given", null(potential, nudged(atoms, rng), v))
        reference.floors.append(floors)
    few = np.linspace(0, len(given) - 1, min(_REPEATED, len(given))).astype(int)
    if any([_repeat(potential, given[i], reference.values[i], reference.floors[i]) for i in few]):
        for atoms, v, floors in zip(given, reference.values, reference.floors, strict=True):
            for _ in range(_MORE):
                _repeat(potential, atoms, v, floors)
    force = potential.quantities.get("forces")
    reference.at_rest += [
        force is not None and "forces" in v and force.size(v["forces"], len(a)) < AT_REST
        for a, v in zip(given, reference.values, strict=True)
    ]
    return reference
