"""Tests that forces are the gradient of the energy with a symmetric Jacobian, energy is conserved, and both are smooth.

gradient    r = u·∇E + F·u along random u; E r² = ‖∇E + F‖² for u of independent normal entries
asymmetry   with J = ∂F/∂x and random v, w: E (wᵀJv − vᵀJw)² = ‖J − Jᵀ‖² and E ‖Jv‖² = ‖J‖²

Directional derivatives are central differences with several steps (three for the energy, two for forces), with
Richardson's estimate of the error. s(h) = s + a h² + b h⁴ + …,  fine (4 s(h) − s(2h))/3, coarse (4 s(2h) − s(4h))/3.
The error of fine is at most |fine − coarse| if the steps are small enough, so that s(h) − s(2h) is a quarter of
s(2h) − s(4h); otherwise, or if rounding dominates, it is the change between steps. If it is too large, steps shrink for
all directions at once, since the error of a single direction may be small by chance.

The error of velocity Verlet falls with the square of the step, so that (4 E_{dt/2}(t) − E_dt(t))/3 is the energy along
a run without it: constant, if forces are conservative. The floor of the drift is the steepest line through the
remainder: the error of the half step or the scatter of the energy without it, whichever is smaller.

Jumps of energy and forces occur as pairs of atoms cross a cutoff: a structure is stretched, and the interval of the
most abrupt change is halved until only a jump remains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from equitangents.audit.potentials.calculator import Potential, Values
from equitangents.audit.potentials.reference import Reference
from equitangents.audit.potentials.results import ENOUGH, Row, Sampling, Trial, single
from equitangents.audit.potentials.structures import free
from equitangents.audit.report.numbers import MeanEstimate

if TYPE_CHECKING:
    from ase import Atoms

_EXPECTED = 0.3
"""Steps are small enough if differences fall to this share; a quarter is expected."""
_SMALLER = 4.0
_REFINED = 3

Slopes = Callable[[float], Float[np.ndarray, "directions ..."]]
"""Central differences of a step, along every direction."""


def slopes(
    s: Slopes, h: float, rounding: float, enough: float, steps: int = 3, of_size: bool = False
) -> tuple[np.ndarray, float, float]:
    """(derivatives, root mean square of their errors, smallest step).

    `rounding` is the rounding error of a derivative with step h. Smaller steps are tried while the error is above
    `enough` (`of_size`: times the size of the derivatives) and rounding is not most of it. With two steps, h and 2h,
    the error of s(h) stands for that of fine.
    """
    best = (np.empty(0), np.inf, h)
    for _ in range(1 + _REFINED):
        slope, error = _richardson([s(h * 2**k) for k in range(steps)])
        if not best[1] <= error + rounding:
            best = (slope, error + rounding, h)
        limit = enough * rms(_norms(slope)) if of_size else enough
        if error + rounding <= limit or not _SMALLER * rounding < error:
            break
        h, rounding = h / _SMALLER, _SMALLER * rounding
    return best


def _richardson(s: list[np.ndarray]) -> tuple[np.ndarray, float]:
    fine, change = (4 * s[0] - s[1]) / 3, _norms(s[0] - s[1])
    if len(s) == 2:
        return fine, rms(change)
    small = change <= _EXPECTED * _norms(s[1] - s[2])
    return fine, rms(_norms(fine - (4 * s[1] - s[2]) / 3) + np.where(small, 0.0, change))


def _norms(a: np.ndarray) -> np.ndarray:
    return np.sqrt((a.reshape(len(a), -1) ** 2).sum(axis=1))


def rms(values: np.ndarray) -> float:
    """The root mean square of all entries."""
    return float(np.sqrt(np.mean(np.square(values))))


_DIRECTIONS = 8
_PROBES = 8
_STEP = {False: 1e-3, True: 5e-3}  # Å, of double and single precision
MOST_STRUCTURES = 10
ASYMMETRY = 1e-3
"""The relative asymmetry allowed."""


def chosen(count: int) -> list[int]:
    """At most `MOST_STRUCTURES`, evenly spaced."""
    return sorted({*np.linspace(0, count - 1, min(count, MOST_STRUCTURES)).astype(int).tolist()})


def conservation(reference: Reference, sampling: Sampling) -> list[Row] | str:
    """The rows "gradient" and "asymmetry", or why there are none."""
    if "forces" not in reference.potential.quantities:
        return "the calculator gives no forces"
    usable = [i for i, v in enumerate(reference.values) if "forces" in v]
    picked = [usable[k] for k in chosen(len(usable))]
    rng = np.random.default_rng([sampling.seed, 17])
    rows = []
    if "energy" in reference.potential.quantities and (of := [i for i in picked if "energy" in reference.values[i]]):
        rows.append(_gradient(reference, of, rng, sampling))
    several = [i for i in picked if len(reference.structures[i]) > 1]  # a single atom's Jacobian is 0
    if several:
        rows.append(_asymmetry(reference, several, rng, sampling))
    return rows or "the calculator gives no energy, and every structure has one atom"


def _gradient(reference: Reference, picked: list[int], rng: np.random.Generator, s: Sampling) -> Row:
    potential, factor, tolerance = reference.potential, 1e3, reference.tolerances["forces"]
    h = _STEP[potential.single]
    forces_floors = reference.floors_of("forces", picked)
    squares, floors, steps = [], [], []
    for i, forces_floor in zip(picked, forces_floors, strict=True):
        atoms, forces = reference.structures[i], reference.values[i]["forces"]
        N = len(atoms)
        U, per = rng.normal(size=(_DIRECTIONS, N, 3)), factor / np.sqrt(N)
        along = lambda step, U=U, atoms=atoms: np.array([_along(potential, atoms, "energy", u, step) for u in U])
        rounding = reference.rounding("energy", i) / factor * N / h
        slope, error, step = slopes(along, h, rounding, 0.25 * tolerance / per)
        squares.append(((slope + np.einsum("aij,ij->a", U, forces)) * per) ** 2)
        floors.append(error * per + forces_floor)
        steps.append(step)
    every = np.array(squares).T
    scales = reference.scales(potential.quantities["forces"])
    return Trial(
        test="gradient",
        quantity="forces",
        unit="meV/Å",
        structures=picked,
        moves=_DIRECTIONS,
        worst=[("", float(worst)) for worst in np.sqrt(every.mean(axis=0))],
        floors=floors,
        tolerance=tolerance,
        errors=every,
        mean=s.root_mean_square,
        scales={i: scale**2 for i, scale in scales.items()},
        floor=rms,
        note=f"central differences of the energy, steps from {min(steps):g} to {4 * h:g} Å, and their own error",
        blind=[reference.vanishes("forces", i) for i in picked],
    ).decided()


def _along(potential: Potential, atoms: Atoms, name: str, v: np.ndarray, h: float) -> np.ndarray:
    """The derivative of a quantity along v, as a central difference."""
    ends = []
    for sign in (1, -1):
        moved = free(atoms)
        moved.positions += sign * h * v
        ends.append(potential(moved, [name])[name])
    return (ends[0] - ends[1]) / (2 * h)


def _asymmetry(reference: Reference, picked: list[int], rng: np.random.Generator, s: Sampling) -> Row:
    potential, h = reference.potential, _STEP[reference.potential.single]
    products, sizes, floors, steps = [], [], [], []
    for i in picked:
        atoms = reference.structures[i]
        V = rng.normal(size=(_PROBES, len(atoms), 3))
        along = lambda step, V=V, atoms=atoms: np.array([_along(potential, atoms, "forces", v, step) for v in V])
        noise = reference.rounding("forces", i) / 1e3 * np.sqrt(len(atoms)) / h
        JV, error, step = slopes(along, h, noise, 0.25 * ASYMMETRY, steps=2, of_size=True)
        products.append(np.einsum("aix,bix->ab", V, JV))
        sizes.append((JV**2).sum(axis=(1, 2)))
        floors.append(np.sqrt(2) * error / max(float(np.sqrt(sizes[-1].mean())), 1e-300))
        steps.append(step)
    S, J, every = np.array(products), np.array(sizes), np.arange(_PROBES)
    probes = (every, *(np.delete(every, k) for k in every))
    table = np.sqrt([_squares(S, J, some) for some in probes])
    return Trial(
        test="asymmetry",
        quantity="force Jacobian",
        unit="of ‖J‖",
        structures=picked,
        moves=_PROBES,
        worst=[("", float(worst)) for worst in table[0]],
        floors=floors,
        tolerance=ASYMMETRY,
        errors=table,
        mean=partial(_jackknife, s),
        scales=dict.fromkeys(picked, 1.0),
        note=f"‖J − Jᵀ‖/‖J‖ from {_PROBES} random directions, steps from {min(steps):g} to {2 * h:g} Å",
    ).decided()


def _squares(S: np.ndarray, J: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """‖J − Jᵀ‖²/‖J‖² of every structure from some probes: S[i, a, b] = v_aᵀ J v_b, J[i, a] = ‖J v_a‖²."""
    off = S[:, probes][:, :, probes]
    a, b = np.triu_indices(len(probes), 1)
    pairs = (off[:, a, b] - off[:, b, a]) ** 2
    return pairs.mean(axis=1) / np.maximum(J[:, probes].mean(axis=1), 1e-300)


def _jackknife(s: Sampling, table: Float[np.ndarray, "all_and_without_one structures"]) -> MeanEstimate:
    """The mean over structures; of few of them the interval is a jackknife of logarithms over probes."""
    if table.shape[1] >= ENOUGH or not table[0].any():
        return s.mean(table[:1])
    logs = np.log(np.maximum(table.mean(axis=1), 1e-300))
    error = float(np.sqrt((_PROBES - 1) / _PROBES * ((logs[1:] - logs[1:].mean()) ** 2).sum()))
    width = float(stdtrit(_PROBES - 1, (1 + s.confidence) / 2)) * error
    return MeanEstimate(*(float(np.exp(logs[0] + sign * width)) for sign in (0, -1, 1)))


DRIFT = 1.0
"""meV/atom/ps that count as small in so short a run."""
_KELVIN = 300.0
_STEPS = 200
_FEMTOSECONDS = {True: 0.5, False: 1.0}  # with and without hydrogen
_LARGEST = 256  # atoms


def dynamics(reference: Reference, seed: int, time_step: float | None = None) -> list[Row] | str:
    """The row "drift" of one structure, or why there is none.

    `time_step`: femtoseconds, of a run that is as long as one of `_STEPS` usual steps.
    """
    potential = reference.potential
    if not {"forces", "energy"} <= set(potential.quantities):
        return "the calculator gives no energy or no forces"
    finite = [{"forces", "energy"} <= set(v) for v in reference.values]
    sizes = {i: len(a) for i, a in enumerate(reference.structures) if 1 < len(a) <= _LARGEST and finite[i]}
    if not sizes:
        return f"no structure has 2 to {_LARGEST} atoms"
    i = min(sizes, key=lambda i: sizes[i])
    atoms = reference.structures[i]
    usual = _FEMTOSECONDS[bool((atoms.numbers == 1).any())]
    dt = usual if time_step is None else time_step
    count = math.ceil(_STEPS * usual / dt)
    given, half = run(potential, atoms, count, dt, seed), run(potential, atoms, 2 * count, dt / 2, seed)[::2]
    exact = (4 * half - given) / 3
    picoseconds = count * dt / 1e3
    left = exact - _rise(exact, dt) * np.arange(count + 1) * dt / 1e3
    integrator = math.sqrt(12) * float(np.min([(half - exact).std(), left.std()])) / picoseconds
    rounding = reference.floors_of("energy", [i])[0] / picoseconds
    row = single(
        abs(_rise(exact, dt)),
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


def run(potential: Potential, atoms: Atoms, steps: int, dt: float, seed: int) -> np.ndarray:
    """Total energies, meV/atom, of velocity Verlet from a Maxwell distribution without total momentum."""
    from ase import units

    moved = free(atoms)
    m, rng = moved.get_masses()[:, None], np.random.default_rng(seed)
    v = rng.normal(size=moved.positions.shape) * np.sqrt(units.kB * _KELVIN / m)
    v -= (m * v).sum(axis=0) / m.sum()
    step, totals, F = dt * units.fs, [], np.zeros_like(v)
    for k in range(steps + 1):
        if k:
            v = v + 0.5 * step * F / m
            moved.positions += step * v
        values = potential(moved, ["energy", "forces"])
        F = values["forces"]
        v = v + 0.5 * step * F / m if k else v
        totals.append(float(values["energy"]) + 0.5 * float((m * v**2).sum()))
    return np.array(totals) * 1e3 / len(atoms)


def _rise(totals: np.ndarray, dt: float) -> float:
    """How fast energies every dt femtoseconds rise, per picosecond."""
    return float(np.polyfit(np.arange(len(totals)) * dt / 1e3, totals, 1)[0])


_POINTS = 60
_HALVINGS = {False: 24, True: 14}  # of double and single precision
_PLACES = 2  # intervals examined, for energy and for forces
_STEEPER = 4.0  # largest slope within a step over its average
_LEAST, _MOST = 0.96, 1.08
_SEPARATED = 8.0  # Å, to which neighbours in molecules are stretched
_ONE_PLACE = 1e-6  # Å; closer atoms cannot be separated
_STRUCTURES = 2
_STRETCHED = 128


def smoothness(reference: Reference) -> list[Row] | str:
    """The rows "jump" of energy and forces, or why there are none."""
    potential = reference.potential
    separable = lambda a: any(a.pbc) or _nearest(a) >= _ONE_PLACE
    several = {i: a for i, a in enumerate(reference.structures) if 1 < len(a) <= _STRETCHED and reference.values[i]}
    sizes = {i: len(a) for i, a in several.items() if separable(a)}
    if not sizes:
        return f"no structure has 2 to {_STRETCHED} atoms that are not at one place"
    picked = sorted(sorted(sizes, key=lambda i: sizes[i])[:_STRUCTURES])
    jumps: dict[str, list[tuple[float, float, float, int]]] = {
        name: [] for name in ("energy", "forces") if all(name in reference.values[i] for i in picked)
    }
    for i in picked:
        for name, (size, scale, smooth) in _jumps(potential, reference.structures[i], list(jumps)).items():
            jumps[name].append((size, scale, smooth, i))
    rows = []
    for name, jump in jumps.items():
        q = potential.quantities[name]
        size, scale, smooth, i = max(jump)
        floor = float(np.mean([2 * f for f in reference.floors_of(name, picked)])) + smooth
        rows.append(
            single(
                size,
                floor,
                reference.tolerances[name],
                test="jump",
                quantity=name,
                unit=q.unit,
                worst_structure=i,
                worst_move=f"stretched to {scale:.4f} of its size",
                structures=len(picked),
                moves=_POINTS,
                note="the largest jump while the structure was stretched",
            )
        )
    return rows


def _jumps(potential: Potential, atoms: Atoms, names: list[str]) -> dict[str, tuple[float, float, float]]:
    """(largest jump, its place, change of a smooth function over the last interval) of every quantity."""
    at = lambda s: potential(_stretched(atoms, s), names)
    most = _MOST if any(atoms.pbc) else max(_MOST, _SEPARATED / _nearest(atoms))
    scales = np.geomspace(_LEAST, most, _POINTS)
    values = [at(s) for s in scales]
    jumps = {}
    for name in names:
        q = potential.quantities[name]
        difference = lambda a, b, q=q, name=name: q.difference(a[name], b[name], len(atoms))
        bends = np.array([_bend(values, k, name) for k in range(len(values) - 1)])
        sharpest = np.argsort(-bends)[:_PLACES]
        ends = [_halved(at, difference, scales, values, int(k), _HALVINGS[potential.single]) for k in sharpest]
        widest = max(difference(a, b) for a, b in pairwise(values))
        jumps[name] = (*max(ends), widest * _STEEPER / 2 ** _HALVINGS[potential.single])
    return jumps


def _bend(values: list[Values], k: int, name: str) -> float:
    """Difference between the step from point k and its neighbours."""
    step = lambda j: values[j + 1][name] - values[j][name]
    neighbours = [step(j) for j in (k - 1, k + 1) if 0 <= j < len(values) - 1]
    return float(np.linalg.norm(step(k) - np.mean(neighbours, axis=0)))


def _halved(
    at: Callable[[float], Values],
    difference: Callable[[Values, Values], float],
    scales: np.ndarray,
    values: list[Values],
    k: int,
    times: int,
) -> tuple[float, float]:
    """(the step from point k after repeated halving of its interval, its place)."""
    low, high, a, b = scales[k], scales[k + 1], values[k], values[k + 1]
    for _ in range(times):
        middle = 0.5 * (low + high)
        c = at(middle)
        if difference(a, c) > difference(c, b):
            high, b = middle, c
        else:
            low, a = middle, c
    return difference(a, b), float(low)


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
