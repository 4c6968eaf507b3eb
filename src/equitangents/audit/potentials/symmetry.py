"""Errors ‖f(g·atoms) − g·f(atoms)‖ of every structure, quantity and move, and the rows that are made of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from equitangents.audit.potentials.calculator import Quantity
from equitangents.audit.potentials.known import Known, null
from equitangents.audit.potentials.results import Row, Sampling, Trial
from equitangents.audit.potentials.structures import (
    Move,
    lattice_translated,
    nudged,
    permuted,
    supercell,
    translated,
    turned,
)
from equitangents.audit.report.numbers import Estimate
from equitangents.groups import so3

if TYPE_CHECKING:
    from ase import Atoms

SYMMETRIES = ("rotation", "reflection", "translation", "lattice translation", "permutation", "supercell")
_UNDEFINED = {"supercell": ("stresses", "dipole"), "lattice translation": ("dipole",)}
"""What is not compared, since it does not test the potential: some calculators divide the stresses of atoms by the
cell's volume, and the dipole of a periodic structure depends on which copies of the atoms are chosen."""
_LARGEST = 512  # atoms in a supercell


_Errors = dict[int, list[tuple[str, float]]]
"""Of one quantity in one test: by structure, the moves' labels and errors."""


def measure(known: Known, test: str, count: int, sampling: Sampling) -> list[Row] | str:
    """One row a quantity, or why the test says nothing of these structures."""
    potential = known.potential
    found: dict[str, _Errors] = defaultdict(lambda: defaultdict(list))
    rng = np.random.default_rng([sampling.seed, SYMMETRIES.index(test)])
    matrices = so3(2).random(count, seed=int(rng.integers(2**31)))
    tiny = np.random.default_rng([sampling.seed, 100 + SYMMETRIES.index(test)])
    applies = False
    for i, (atoms, values) in enumerate(zip(known.structures, known.values, strict=True)):
        for k, move in enumerate(_moves(test, atoms, matrices, count, rng)):
            applies = True
            moved = known.asked(move, list(values), test, i)
            kept = {name: v for name, v in values.items() if name in moved and name not in _UNDEFINED.get(test, ())}
            for name, value in kept.items():
                q = potential.quantities[name]
                error = q.apart(moved[name], move.expected(q, value), len(move.atoms))
                found[name][i].append((move.label, error))
            if k == 0 and test in ROUNDED_ANEW and kept:
                known.floors[i].note(test, null(potential, nudged(move.atoms, tiny), {n: moved[n] for n in kept}))
    if not found:
        return _WHY[test] if not applies else "the calculator gives no finite result"
    return [_row(potential.quantities[name], test, errors, known, sampling) for name, errors in found.items()]


ROUNDED_ANEW = ("rotation", "reflection", "translation", "lattice translation", "supercell")
"""Tests whose own moves have a null; renumbering changes the order of sums alone, and has those of the others."""
_WHY = {
    "lattice translation": "no structure is periodic",
    "supercell": f"no structure is periodic with at most {_LARGEST // 2} atoms",
    "permutation": "no structure has two atoms of one element",
}


def _moves(test: str, atoms: Atoms, matrices: np.ndarray, count: int, rng: np.random.Generator) -> list[Move]:
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
    order, count = sorted(errors), min(map(len, errors.values()))
    every = np.array([[e for _, e in errors[i][:count]] for i in order]).T
    floors, tolerance, scales = known.floors_of(q.name, order, test), known.tolerances[q.name], known.scales(q)

    def relative(columns: list[int]) -> Estimate | None:
        moving = [c for c in columns if order[c] in scales]
        return sampling.mean(every[:, moving] / np.array([scales[order[c]] for c in moving]))[0] if moving else None

    over = "orientations" if test in ("rotation", "reflection") else "moves"
    return Trial(
        test=test,
        quantity=q.name,
        unit=q.unit,
        structures=order,
        moves=count,
        # of all poses, also of those beyond the rectangle where others have none
        worst=[max(errors[i], key=lambda pair: pair[1]) for i in order],
        floors=floors,
        tolerance=tolerance,
        estimate=lambda columns: sampling.mean(every[:, columns], over),
        relative=relative,
        blind=[known.shows_nothing(q, test, i) for i in order],
    ).decided()


def _label(R: np.ndarray, sign: int) -> str:
    degrees = float(np.degrees(np.arccos(np.clip((np.trace(R) - 1) / 2, -1, 1))))
    return f"{degrees:.1f}°" if sign > 0 else f"inversion and {degrees:.1f}°"
