"""Along paths: drift of the total energy in a short run (velocity Verlet), and jumps while a structure is stretched.

Verlet's own error falls with the square of the step, so that (4 E_{dt/2}(t) − E_dt(t))/3 is the energy along the run
without it: constant, if forces are conservative. The floor is the steepest line through what is left: the error of the
half step, or, where that is less, the scatter of the energy without it.

Jumps of energy and forces occur as pairs of atoms cross a cutoff: a structure is stretched, and where it changes most
abruptly the interval is halved until a jump, if there is one, is all that is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents.audit.potentials.calculator import Potential, Values
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
_FEMTOSECONDS = {True: 0.5, False: 1.0}  # with and without hydrogen
_LARGEST = 256  # atoms


def dynamics(known: Known, seed: int, time_step: float | None = None) -> list[Row] | str:
    """The row "drift" of one structure, or why there is none.

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
        note=f"{count * dt:g} fs from {_KELVIN:g} K",
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


_POINTS = 60
_HALVINGS = {False: 24, True: 14}  # of double and single precision
_PLACES = 2  # intervals that are looked into, of energy and of forces
_STEEPER = 4.0  # than on average over a step, within it
_LEAST, _MOST = 0.96, 1.08
_APART = 8.0  # Å to which neighbours of molecules are pulled apart
_ONE_PLACE = 1e-6  # Å: atoms that are no farther apart cannot be pulled apart
_STRUCTURES = 2
_STRETCHED = 128


def smoothness(known: Known) -> list[Row] | str:
    """The rows "jump" of energy and forces, or why there are none."""
    potential = known.potential
    sizes = {i: len(a) for i, a in enumerate(known.structures) if 1 < len(a) <= _STRETCHED and known.values[i]}
    if not sizes:
        return f"no structure has 2 to {_STRETCHED} atoms"
    one_place = [i for i in sizes if not any(known.structures[i].pbc) and _nearest(known.structures[i]) < _ONE_PLACE]
    for i in one_place:
        del sizes[i]
    if not sizes:
        return "two atoms are at one place, and no stretching pulls them apart"
    left_out = "; without structures with two atoms at one place" if one_place else ""
    picked = sorted(sorted(sizes, key=lambda i: sizes[i])[:_STRUCTURES])
    jumps: dict[str, list[tuple[float, float, float, int]]] = {
        name: [] for name in ("energy", "forces") if all(name in known.values[i] for i in picked)
    }
    for i in picked:
        for name, (size, scale, smooth) in _jumps(potential, known.structures[i], list(jumps)).items():
            jumps[name].append((size, scale, smooth, i))
    rows = []
    for name, found in jumps.items():
        q = potential.quantities[name]
        size, scale, smooth, i = max(found)
        floor = float(np.mean([2 * f for f in known.floors_of(name, picked)])) + smooth
        rows.append(
            single(
                size,
                floor,
                known.tolerances[name],
                test="jump",
                quantity=name,
                unit=q.unit,
                worst_structure=i,
                worst_move=f"stretched to {scale:.4f} of its size",
                structures=len(picked),
                moves=_POINTS,
                note="the largest jump while the structure was stretched" + left_out,
            )
        )
    return rows


def _jumps(potential: Potential, atoms: Atoms, names: list[str]) -> dict[str, tuple[float, float, float]]:
    """(size of the largest jump, where, what a smooth function changes over the last interval) of every quantity."""
    at = lambda s: potential(_stretched(atoms, s), names)
    most = _MOST if any(atoms.pbc) else max(_MOST, _APART / _nearest(atoms))
    scales = np.geomspace(_LEAST, most, _POINTS)
    values = [at(s) for s in scales]
    found = {}
    for name in names:
        q = potential.quantities[name]
        apart = lambda a, b, q=q, name=name: q.apart(a[name], b[name], len(atoms))
        bends = np.array([_bend(values, k, name) for k in range(len(values) - 1)])
        sharpest = np.argsort(-bends)[:_PLACES]
        ends = [_halved(at, apart, scales, values, int(k), _HALVINGS[potential.single]) for k in sharpest]
        widest = max(apart(a, b) for a, b in pairwise(values))
        found[name] = (*max(ends), widest * _STEEPER / 2 ** _HALVINGS[potential.single])
    return found


def _bend(values: list[Values], k: int, name: str) -> float:
    """How far the step from point k differs from its neighbours."""
    step = lambda j: values[j + 1][name] - values[j][name]
    beside = [step(j) for j in (k - 1, k + 1) if 0 <= j < len(values) - 1]
    return float(np.linalg.norm(step(k) - np.mean(beside, axis=0)))


def _halved(
    at: Callable[[float], Values],
    apart: Callable[[Values, Values], float],
    scales: np.ndarray,
    values: list[Values],
    k: int,
    times: int,
) -> tuple[float, float]:
    """What is left of the step from point k when the interval is halved again and again, and where."""
    low, high, a, b = scales[k], scales[k + 1], values[k], values[k + 1]
    for _ in range(times):
        middle = 0.5 * (low + high)
        c = at(middle)
        if apart(a, c) > apart(c, b):
            high, b = middle, c
        else:
            low, a = middle, c
    return apart(a, b), float(low)


def _stretched(atoms: Atoms, s: float) -> Atoms:
    moved = free(atoms)
    if any(atoms.pbc):
        moved.set_cell(np.asarray(atoms.cell) * s, scale_atoms=False)
        moved.positions *= s
    else:
        centre = moved.positions.mean(axis=0)
        moved.positions[:] = centre + s * (moved.positions - centre)
    return moved


def _nearest(atoms: Atoms) -> float:
    d = np.linalg.norm(atoms.positions[:, None] - atoms.positions[None], axis=2)
    return float(d[~np.eye(len(atoms), dtype=bool)].min())
