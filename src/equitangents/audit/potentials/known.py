"""What is known of the structures as they are: values, floors, and which of them can show a violation at all.

Where forces vanish, a fault in proportion to them does; a structure that is its own mirror image has the energy of its
mirror image whatever the potential. Such structures decide nothing, unless they show an error all the same.

A floor is what rounding and chance alone change, of the same quantity under the same kind of move:

null     ‖f(h g x) − h f(g x)‖, a move g of the test and a tiny move h after it, by which all is rounded anew
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

_ROUNDINGS = 8.0  # of a result's own size: layers round their sums, too
_ENTRIES = 9
_LEVEL = 0.99
_REPEATED = 3  # structures that are asked twice
_ENOUGH = 4  # tests with a null of their own, beside which one structure needs no second one
_MORE = 3  # repeats of each of these, where some differ
_NOISE = 1e3  # roundings by which repeats may differ on parallel machines: more is noise


@dataclass(eq=False)
class StructureNoiseFloors:
    """What floors of one structure are made of: nulls of every quantity by test, and repeats that differ."""

    sizes: dict[str, float]
    entries: dict[str, int]
    unit: float
    nulls: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    repeats: dict[str, list[float]] = field(default_factory=dict)

    def note(self, test: str, errors: dict[str, float]) -> None:
        """Remember the nulls of a test."""
        for name, error in errors.items():
            self.nulls.setdefault(name, {}).setdefault(test, []).append(error)

    def spread(self, name: str, test: str = "") -> float:
        """Root mean square of all nulls and repeats, or of this test's nulls, whichever is larger."""
        every, own = self.all(name), self.nulls.get(name, {}).get(test, [])
        rms = lambda values: float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0
        return float(np.max([rms(every), rms(own)]))

    def all(self, name: str) -> list[float]:
        """Every null and repeat of a quantity."""
        return [e for errors in self.nulls.get(name, {}).values() for e in errors] + self.repeats.get(name, [])


def null(potential: Potential, nudge: Move, before: Values) -> dict[str, float]:
    """What a tiny move changes beyond what it should; what is not finite is left out."""
    expected = {name: nudge.expected(potential.quantities[name], value) for name, value in before.items()}
    errors = _errors(potential, nudge.atoms, expected)
    return {name: error for name, error in errors.items() if np.isfinite(error)}


def _errors(potential: Potential, atoms: Atoms, expected: Values) -> dict[str, float]:
    """How far what a structure gives is from what is expected of it."""
    found = potential(atoms, list(expected), finite=False)
    return {n: potential.quantities[n].apart(found[n], v, len(atoms)) for n, v in expected.items() if n in found}


def _repeat(potential: Potential, atoms: Atoms, before: Values, floors: StructureNoiseFloors) -> bool:
    """Ask once more, and remember what differs; whether anything does."""
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
class Known:
    """A potential, and what is known of the structures as they are."""

    potential: Potential
    structures: list[Any]
    values: list[Values]
    """What is finite."""
    floors: list[StructureNoiseFloors]
    at_rest: list[bool]
    tolerances: dict[str, float]
    broken: list[BrokenPose] = field(default_factory=list)
    """Poses without a finite result, of all tests."""
    _chiral: dict[int, bool] = field(default_factory=dict)

    def scales(self, q: Quantity) -> dict[int, float]:
        """What errors of each structure are relative to; structures at rest have none."""
        have = [i for i, v in enumerate(self.values) if q.name in v]
        if q.extensive:
            per = [float(self.values[i][q.name]) * q.factor / len(self.structures[i]) for i in have]
            spread = float(np.std(per, ddof=1)) if len(per) > 1 else 0.0
            return dict.fromkeys(have, spread) if spread > 10 * self.tolerances[q.name] else {}
        sizes = {i: q.size(self.values[i][q.name], len(self.structures[i])) for i in have}
        moving = {i: s for i, s in sizes.items() if s > 10 * self.tolerances[q.name]}
        return {i: s for i, s in moving.items() if q.name != "forces" or not self.at_rest[i]}

    def floors_of(self, name: str, of: list[int], test: str = "") -> list[float]:
        """The floors of one quantity in one test, structure by structure, in the units of reports."""
        floors = [self.floors[i] for i in of]
        squares = np.square([e for f in floors for e in f.all(name)])
        count = float(squares.sum() ** 2 / (squares**2).sum()) if (squares**2).sum() > 0 else 1.0
        entries = min(f.entries[name] for f in floors)
        factor = float(np.sqrt(fdtri(entries, max(count, 1.0) * entries, _LEVEL)))
        return [factor * f.spread(name, test) + _ROUNDINGS * f.unit * f.sizes[name] for f in floors]

    def noise(self) -> dict[str, float]:
        """Quantities that differ from call to call by more than parallel sums do; by how much, root mean square."""
        found = {}
        for name in self.potential.quantities:
            repeats = [e for f in self.floors for e in f.repeats.get(name, [])]
            rounding = [_NOISE * f.unit * f.sizes[name] for f in self.floors if name in f.sizes]
            if repeats and (size := float(np.sqrt(np.mean(np.square(repeats))))) > np.mean(rounding):
                found[name] = size
        return found

    def rounding(self, name: str, i: int) -> float:
        """What one evaluation's rounding and noise change of another, root mean square, in the units of reports."""
        floors = self.floors[i]
        return max(floors.spread(name), 0.5 * floors.unit * floors.sizes[name])

    def vanishes(self, name: str, i: int) -> bool:
        """Whether a quantity is no larger than its tolerance, or than ten floors."""
        size = self.potential.quantities[name].size(self.values[i][name], len(self.structures[i]))
        return size <= max(_VANISHES * self.floors_of(name, [i])[0], self.tolerances[name])

    def shows_nothing(self, q: Quantity, test: str, i: int) -> str:
        """Why errors of a quantity cannot be seen on structure i; "" if they can."""
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

    def asked(self, move: Move, names: list[str], test: str, i: int) -> Values:
        """What is finite of a moved structure's values; what is not, what raises, and what it lacks is remembered."""
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


def as_they_are(
    potential: Potential, given: list[Any], tolerances: Mapping[str, float] | None, seed: int, later: int = 0
) -> Known:
    """The structures' values, whether they are at rest, and floors: from a null of each, and repeats of a few.

    Two nulls of a single structure, unless `later` tests bring enough of their own.

    NotFiniteError where nothing is finite for any structure; ModelError where the calculator raises.
    """
    limits = {name: q.tolerance for name, q in potential.quantities.items()}
    found = Known(potential, given, [], [], [], limits)
    for i, atoms in enumerate(given):
        found.values.append(found._finite(potential(atoms, finite=False), "as given", i, ""))
    if not any(found.values):
        raise NotFiniteError(f"{potential.name} gives no finite result: {found.broken[0].result}")
    for name, value in (tolerances or {}).items():
        if name not in limits:
            raise unknown("tolerances", name, list(limits))
        if isinstance(value, bool) or not isinstance(value, int | float) or not (np.isfinite(value) and value > 0):
            raise InvalidArgumentError("tolerances", value, "a number above 0", at=name)
        limits[name] = float(value)
    nulls, rng = (2 if len(given) == 1 and later < _ENOUGH else 1), np.random.default_rng([seed, 1])
    for atoms, v in zip(given, found.values, strict=True):
        sizes = {name: potential.quantities[name].size(value, len(atoms)) for name, value in v.items()}
        floors = StructureNoiseFloors(
            sizes, {name: min(value.size, _ENTRIES) for name, value in v.items()}, potential.unit
        )
        for _ in range(nulls):
            floors.note("as given", null(potential, nudged(atoms, rng), v))
        found.floors.append(floors)
    few = np.linspace(0, len(given) - 1, min(_REPEATED, len(given))).astype(int)
    if any([_repeat(potential, given[i], found.values[i], found.floors[i]) for i in few]):
        for atoms, v, floors in zip(given, found.values, found.floors, strict=True):
            for _ in range(_MORE):
                _repeat(potential, atoms, v, floors)
    force = potential.quantities.get("forces")
    found.at_rest += [
        force is not None and "forces" in v and force.size(v["forces"], len(a)) < AT_REST
        for a, v in zip(given, found.values, strict=True)
    ]
    return found
