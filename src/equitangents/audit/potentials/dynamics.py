"""A short run at constant energy (velocity Verlet): the drift of the total energy, with the forces that the calculator
gives, with half the step, and with the gradient of its energy in their place.

Verlet's own error falls with the square of the step, so that (4 E_{dt/2}(t) − E_dt(t))/3 is the energy along the run
without it: constant, if forces are conservative. The floor is the steepest line through what is left: the error of the
half step, or, where that is less, the scatter of the energy without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents.audit.potentials.known import Known
from equitangents.audit.potentials.results import Row, single
from equitangents.audit.potentials.structures import free

if TYPE_CHECKING:
    from ase import Atoms

Evaluate = Callable[[Any], tuple[np.ndarray, float]]
"""Forces and energy of a structure."""
DRIFT = 1.0
"""meV/atom/ps that count as small in so short a run."""
_KELVIN = 300.0
_STEPS = 200
_FEWEST = 40
_FEMTOSECONDS = {True: 0.5, False: 1.0}  # with and without hydrogen
_GRADIENT = 1e-3  # Å
_LARGEST = 256  # atoms


def dynamics(known: Known, seed: int, budget: float, time_step: float | None = None) -> list[Row] | str:
    """The row "drift" of one structure, or why there is none; `budget` seconds for the run with the gradient.

    `time_step`: femtoseconds, of a run that is as long as one of `_STEPS` usual steps.
    """
    potential = known.potential
    if not {"forces", "energy"} <= set(potential.quantities):
        return "the calculator gives no energy or no forces"
    finite = [{"forces", "energy"} <= set(v) for v in known.values]
    sizes = {i: len(a) for i, a in enumerate(known.structures) if 1 < len(a) <= _LARGEST and finite[i]}
    if not sizes:
        return f"no structure has 2 to {_LARGEST} atoms"
    i = min(sizes, key=lambda i: sizes[i])
    atoms = known.structures[i]
    usual = _FEMTOSECONDS[bool((atoms.numbers == 1).any())]
    dt = usual if time_step is None else time_step
    count = math.ceil(_STEPS * usual / dt)
    energy = lambda a: float(potential(a, ["energy"])["energy"])

    def given_forces(a: Atoms) -> tuple[np.ndarray, float]:
        values = potential(a, ["energy", "forces"])
        return values["forces"], float(values["energy"])

    given = run(atoms, given_forces, count, dt, seed)
    half = run(atoms, given_forces, 2 * count, dt / 2, seed)[::2]
    exact = (4 * half - given) / 3
    picoseconds = count * dt / 1e3
    left = exact - _slope(exact, dt) * np.arange(count + 1) * dt / 1e3
    integrator = math.sqrt(12) * float(np.min([(half - exact).std(), left.std()])) / picoseconds
    rounding = known.floors_of("energy", [i])[0] / picoseconds
    each = (6 * len(atoms) + 1) * potential.seconds_each
    steps = int(min(count / 2, budget / max(each, 1e-9)))
    slopes = {f"with steps of {dt / 2:g} fs": half, f"with steps of {dt:g} fs": given}
    if steps >= _FEWEST:
        h = _GRADIENT if not potential.single else 20 * _GRADIENT
        by_gradient = run(atoms, lambda a: (_gradient(energy, a, h), energy(a)), steps, dt, seed)
        slopes[f"with −∇E in place of the forces, over the first {steps * dt:g} fs"] = by_gradient
    drifts = "; ".join(f"{_slope(totals, dt):+.3g} {how}" for how, totals in slopes.items())
    row = single(
        abs(_slope(exact, dt)),
        integrator + rounding,
        DRIFT,
        test="drift",
        quantity="total energy",
        unit="meV/atom/ps",
        worst_structure=i,
        worst_move="",
        structures=1,
        moves=count,
        note=f"{count * dt:g} fs from {_KELVIN:g} K: {drifts}",
    )
    shorter = row.outcome == "undecided" and rounding < integrator
    return [replace(row, decide=f"time_step={dt / 2:g} (fs)") if shorter else row]


def run(atoms: Atoms, evaluate: Evaluate, steps: int, dt: float, seed: int) -> np.ndarray:
    """Total energies, meV/atom, of velocity Verlet from a Maxwell distribution without total momentum."""
    from ase import units

    moved = free(atoms)
    m, rng = moved.get_masses()[:, None], np.random.default_rng(seed)
    v = rng.normal(size=moved.positions.shape) * np.sqrt(units.kB * _KELVIN / m)
    v -= (m * v).sum(axis=0) / m.sum()
    step, (F, E) = dt * units.fs, evaluate(moved)
    totals = [E + 0.5 * float((m * v**2).sum())]
    for _ in range(steps):
        v = v + 0.5 * step * F / m
        moved.positions += step * v
        F, E = evaluate(moved)
        v = v + 0.5 * step * F / m
        totals.append(E + 0.5 * float((m * v**2).sum()))
    return np.array(totals) * 1e3 / len(atoms)


def _slope(totals: np.ndarray, dt: float) -> float:
    """How fast energies every dt femtoseconds rise, per picosecond."""
    return float(np.polyfit(np.arange(len(totals)) * dt / 1e3, totals, 1)[0])


def _gradient(energy: Callable[[Any], float], atoms: Atoms, h: float) -> np.ndarray:
    """−∇E by central differences."""
    F = np.empty_like(atoms.positions)
    for index in np.ndindex(F.shape):
        ends = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions[index] += sign * h
            ends.append(energy(moved))
        F[index] = -(ends[0] - ends[1]) / (2 * h)
    return F
