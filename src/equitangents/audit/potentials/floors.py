"""What rounding and chance alone change, of the same quantity under the same kind of move.

null     ‖f(h g x) − h f(g x)‖, a move g of the test and a tiny move h after it, by which all is rounded anew
repeat   ‖f(x) − f(x)‖ of calls that differ: the noise of a calculator
floor    √F₀.₉₉(d, D) rms + 8 ε ‖f‖, rms of nulls and repeats: 99 of 100 errors of an exact potential are no larger

d counts the entries of one error (1 of an energy), D those of all nulls, fewer where few of them carry the sum of their
squares (Satterthwaite). Entries of one value are counted up to 9, since atoms that are close err together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import fdtri

from equitangents.audit.potentials.evaluate import Potential, Values
from equitangents.audit.potentials.moves import Move, nudged
from equitangents.audit.potentials.quantities import Quantity

_ROUNDINGS = 8.0  # of a result's own size: layers round their sums, too
_ENTRIES = 9
_LEVEL = 0.99
_REPEATED = 3  # structures that are asked twice
_ENOUGH = 4  # tests with a null of their own, beside which one structure needs no second one
_MORE = 3  # repeats of each of these, where some differ
_NOISE = 1e3  # roundings by which repeats may differ on parallel machines: more is noise


@dataclass(eq=False)
class Floors:
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


def floors_of(of: list[Floors], name: str, test: str = "") -> list[float]:
    """The floor of one quantity in one test, structure by structure, in the units of reports."""
    squares = np.square([e for f in of for e in f.all(name)])
    count = float(squares.sum() ** 2 / (squares**2).sum()) if (squares**2).sum() > 0 else 1.0
    entries = min(f.entries[name] for f in of)
    factor = float(np.sqrt(fdtri(entries, max(count, 1.0) * entries, _LEVEL)))
    return [factor * f.spread(name, test) + _ROUNDINGS * f.unit * f.sizes[name] for f in of]


def first_floors(
    potential: Potential, structures: list[Any], values: list[Values], seed: int, later: int = 0
) -> list[Floors]:
    """Floors of the structures as they are given, from a null of each, and repeats of a few.

    Two nulls of a single structure, unless `later` tests bring enough of their own.
    """
    nulls = 2 if len(structures) == 1 and later < _ENOUGH else 1
    q, rng = potential.quantities, np.random.default_rng([seed, 1])
    found = []
    for atoms, v in zip(structures, values, strict=True):
        sizes = {name: q[name].size(value, len(atoms)) for name, value in v.items()}
        floors = Floors(sizes, {name: min(value.size, _ENTRIES) for name, value in v.items()}, potential.unit)
        for _ in range(nulls):
            floors.note("as given", null(potential, nudged(atoms, rng), v))
        found.append(floors)
    few = np.linspace(0, len(structures) - 1, min(_REPEATED, len(structures))).astype(int)
    if any([_repeat(potential, structures[i], values[i], found[i]) for i in few]):
        for i, atoms in enumerate(structures):
            for _ in range(_MORE):
                _repeat(potential, atoms, values[i], found[i])
    return found


def null(potential: Potential, nudge: Move, before: Values) -> dict[str, float]:
    """What a tiny move changes beyond what it should; what is not finite is left out."""
    after = potential(nudge.atoms, list(before), finite=False)
    apart = {
        name: potential.quantities[name].apart(
            after[name], nudge.expected(potential.quantities[name], value), len(nudge.atoms)
        )
        for name, value in before.items()
        if name in after
    }
    return {name: error for name, error in apart.items() if np.isfinite(error)}


def _repeat(potential: Potential, atoms: Any, before: Values, floors: Floors) -> bool:
    """Ask once more, and remember what differs; whether anything does."""
    again = potential(atoms, list(before), finite=False)
    errors = {n: potential.quantities[n].apart(again[n], v, len(atoms)) for n, v in before.items() if n in again}
    for name, error in errors.items():
        if np.isfinite(error) and (error > 0 or name in floors.repeats):
            floors.repeats.setdefault(name, []).append(error)
    return any(error > 0 for error in errors.values())


def noise(of: Iterable[Floors], quantities: dict[str, Quantity]) -> dict[str, float]:
    """Quantities that differ from call to call by more than parallel sums do, and by how much (root mean square)."""
    of, found = list(of), {}
    for name in quantities:
        repeats = [e for f in of for e in f.repeats.get(name, [])]
        rounding = [_NOISE * f.unit * f.sizes[name] for f in of if name in f.sizes]
        if repeats and (size := float(np.sqrt(np.mean(np.square(repeats))))) > np.mean(rounding):
            found[name] = size
    return found
