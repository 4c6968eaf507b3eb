"""Errors ‖f(g·atoms) − g·f(atoms)‖ of every structure, quantity and move, and the rows that are made of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equitangents.audit.potentials.evaluate import Potential, Values
from equitangents.audit.potentials.intervals import Sampling
from equitangents.audit.potentials.moves import Move, lattice_translated, permuted, supercell, translated, turned
from equitangents.audit.potentials.quantities import Quantity
from equitangents.audit.potentials.results import Row, outcome
from equitangents.audit.report.sections import Estimate
from equitangents.groups import so3

SYMMETRIES = ("rotation", "reflection", "translation", "lattice translation", "permutation", "supercell")
_UNDEFINED = {"supercell": ("stresses", "dipole"), "lattice translation": ("dipole",)}
"""What is not compared, since it does not test the potential: some calculators divide the stresses of atoms by the
cell's volume, and the dipole of a periodic structure depends on which copies of the atoms are chosen."""
_LARGEST = 512  # atoms in a supercell


@dataclass(eq=False)
class Known:
    """What is known of the structures as they are."""

    structures: list[Any]
    values: list[Values]
    floors: list[dict[str, float]]
    at_rest: list[bool]
    tolerances: dict[str, float]

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


@dataclass(eq=False)
class _Errors:
    """Errors of one quantity in one test: by structure, the moves' labels and errors."""

    by_structure: dict[int, list[tuple[str, float]]] = field(default_factory=lambda: defaultdict(list))


def measure(potential: Potential, known: Known, test: str, count: int, sampling: Sampling) -> list[Row] | str:
    """One row a quantity, or why the test says nothing of these structures."""
    found: dict[str, _Errors] = defaultdict(_Errors)
    rng = np.random.default_rng([sampling.seed, SYMMETRIES.index(test)])
    matrices = so3(2).random(count, seed=int(rng.integers(2**31)))
    for i, (atoms, values) in enumerate(zip(known.structures, known.values, strict=True)):
        for move in _moves(test, atoms, matrices, count, rng):
            moved = potential(move.atoms, list(values))
            for name, value in values.items():
                if name in moved and name not in _UNDEFINED.get(test, ()):
                    q = potential.quantities[name]
                    error = q.apart(moved[name], move.expected(q, value), len(move.atoms))
                    found[name].by_structure[i].append((move.label, error))
    if not found:
        return _WHY[test]
    return [_row(potential.quantities[name], test, errors, known, sampling) for name, errors in found.items()]


_WHY = {
    "lattice translation": "no structure is periodic",
    "supercell": f"no structure is periodic with at most {_LARGEST // 2} atoms",
    "permutation": "no structure has two atoms of one element",
}


def _moves(test: str, atoms: Any, matrices: np.ndarray, count: int, rng: np.random.Generator) -> list[Move]:
    if test in ("rotation", "reflection"):
        sign = 1 if test == "rotation" else -1
        return [turned(atoms, sign * R, _label(R, sign)) for R in matrices]
    if test == "translation":
        return [translated(atoms, rng) for _ in range(count)]
    if test == "lattice translation":
        return [lattice_translated(atoms, rng, wrap=k % 2 == 1) for k in range(count)] if any(atoms.pbc) else []
    if test == "permutation":
        return [move for _ in range(count) if (move := permuted(atoms, rng)) is not None]
    move = supercell(atoms, _LARGEST)
    return [] if move is None else [move]


def _row(q: Quantity, test: str, errors: _Errors, known: Known, sampling: Sampling) -> Row:
    order = sorted(errors.by_structure)
    table = np.array([[e for _, e in errors.by_structure[i]] for i in order]).T
    estimate, covers = sampling.mean(table, "orientations" if test in ("rotation", "reflection") else "moves")
    k, j = np.unravel_index(int(np.argmax(table)), table.shape)
    floor = float(np.mean([known.floors[i][q.name] for i in order]))
    worst, tolerance = float(table.max()), known.tolerances[q.name]
    scales = known.scales(q)
    moving = [c for c, i in enumerate(order) if i in scales]
    relative: Estimate | None = None
    if moving:
        divisors = np.array([scales[order[c]] for c in moving])
        relative = sampling.mean(table[:, moving] / divisors)[0]
    return Row(
        test=test,
        quantity=q.name,
        unit=q.unit,
        error=estimate,
        covers=covers,
        worst=worst,
        worst_structure=order[int(j)],
        worst_move=errors.by_structure[order[int(j)]][int(k)][0],
        floor=floor,
        tolerance=tolerance,
        relative=relative,
        structures=len(order),
        moves=len(table),
        outcome=outcome(estimate, worst, floor, tolerance),
        errors=table.T.tolist(),
    )


def _label(R: np.ndarray, sign: int) -> str:
    degrees = float(np.degrees(np.arccos(np.clip((np.trace(R) - 1) / 2, -1, 1))))
    return f"{degrees:.1f}°" if sign > 0 else f"inversion and {degrees:.1f}°"
