"""Interatomic potentials drawn at random for the table of first lines, with what is true of them by hand.

Pair potentials of `bench_audit_atoms` with one fault or none, of a size drawn from three powers of ten about the
tolerance. By hand means: moved structures are made here, and E and F compared in plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks.bench_audit_atoms import Pairs, clusters, crystals

TESTS = ("rotation", "reflection", "translation", "permutation")
MOVES = 60
TOLERANCES = {"energy": 0.1, "forces": 1.0}  # meV/atom, meV/Å
_NEAR = 1.25  # within this factor of the tolerance either answer is right

Array = np.ndarray
Truth = Literal["kept", "violated", "either"]
Change = Callable[[Any, dict[str, Any]], None]


@dataclass(frozen=True)
class DrawnPotential:
    """One potential with its structures, and what is true of it."""

    calculator: Any
    structures: list[Any]
    truth: Truth

    def line(self, seed: int, **_: Any) -> str:
        """The first line of its audit; settings are those of audits of groups."""
        from equitangents.audit import atoms

        return atoms(self.calculator, self.structures, TESTS, elements=8, seed=seed).summary().splitlines()[0]


def potential(rng: np.random.Generator) -> DrawnPotential:
    """One time in three without a fault; results in single precision one time in three."""
    structures = (clusters, crystals)[rng.integers(2)](rng)
    faults = [_nothing] if rng.random() < 1 / 3 else [fault(rng) for fault in FAULTS]
    single = rng.random() < 1 / 3
    fault = faults[rng.integers(len(faults))]

    def change(atoms: Any, found: dict[str, Any]) -> None:
        fault(atoms, found)
        if single:
            found["energy"], found["forces"] = np.float32(found["energy"]), np.float32(found["forces"])

    state = rng.integers(2**32)
    made = lambda change: Pairs(np.random.default_rng(state), change)
    ratio = 0.0 if fault is _nothing else violation(made(fault), structures, rng)
    truth: Truth = "kept" if ratio < 1 / _NEAR else "violated" if ratio > _NEAR else "either"
    return DrawnPotential(made(change), structures, truth)


def violation(calculator: Any, structures: list[Any], rng: np.random.Generator) -> float:
    """The largest mean error of any test, over its tolerance: of E in meV/atom, of F by root mean square over atoms."""
    ratios = []
    for test in TESTS:
        errors: dict[str, list[float]] = {"energy": [], "forces": []}
        for atoms in structures:
            E, F = _evaluated(calculator, atoms)
            for moved, expected in _moves(test, atoms, F, rng):
                E2, F2 = _evaluated(calculator, moved)
                errors["energy"].append(1e3 * abs(E2 - E) / len(atoms))
                errors["forces"].append(1e3 * np.sqrt(((F2 - expected) ** 2).sum(axis=1).mean()))
        ratios += [float(np.mean(e)) / TOLERANCES[name] for name, e in errors.items()]
    return float(np.max(ratios))


def _evaluated(calculator: Any, atoms: Any) -> tuple[float, Array]:
    found = atoms.copy()
    found.calc = calculator
    return float(found.get_potential_energy()), np.array(found.get_forces(), np.float64)


def _moves(test: str, atoms: Any, F: Array, rng: np.random.Generator) -> Iterator[tuple[Any, Array]]:
    """Moved copies, and the forces that they should have."""
    for _ in range(MOVES):
        moved = atoms.copy()
        if test in ("rotation", "reflection"):
            R = Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()
            sign = 1 if test == "rotation" else -1
            moved.set_cell(np.asarray(atoms.cell) @ R.T)  # −a, −b, −c span the lattice of a, b, c
            moved.positions = sign * atoms.positions @ R.T
            yield moved, sign * F @ R.T
        elif test == "translation":
            moved.positions += rng.uniform(-5, 5, 3)
            yield moved, F
        else:
            order = np.arange(len(atoms))
            for number in np.unique(atoms.numbers):
                same = np.flatnonzero(atoms.numbers == number)
                order[same] = rng.permutation(same)
            yield moved[order], F[order]


def _nothing(atoms: Any, found: dict[str, Any]) -> None:
    """No fault."""


def _stretched(rng: np.random.Generator) -> Change:
    """Forces too large along one axis."""
    factor = 1 + 10 ** rng.uniform(-4, -1) * np.eye(3)[rng.integers(3)]

    def change(atoms: Any, found: dict[str, Any]) -> None:
        found["forces"] = found["forces"] * factor

    return change


def _handed(rng: np.random.Generator) -> Change:
    """An energy that mirror images do not share."""
    size = 10 ** rng.uniform(-4, -1)

    def change(atoms: Any, found: dict[str, Any]) -> None:
        x = atoms.positions - atoms.positions.mean(axis=0)
        r2, heavy = (x**2).sum(1), atoms.numbers > 29
        found["energy"] += size * float(np.tanh(np.linalg.det([heavy @ x, r2 @ x, r2**2 @ x])))

    return change


def _in_a_field(rng: np.random.Generator) -> Change:
    """An energy that depends on where the structure is."""
    size, axis = 10 ** rng.uniform(-5.5, -2.5), rng.integers(3)

    def change(atoms: Any, found: dict[str, Any]) -> None:
        found["energy"] += size * float(atoms.positions[:, axis].sum())

    return change


def _counted(rng: np.random.Generator) -> Change:
    """Forces of the first atom that are too large."""
    factor = 1 + 10 ** rng.uniform(-3.5, -0.5)

    def change(atoms: Any, found: dict[str, Any]) -> None:
        found["forces"] = found["forces"] * np.where(np.arange(len(atoms)) == 0, factor, 1.0)[:, None]

    return change


FAULTS = (_stretched, _handed, _in_a_field, _counted)
