"""Whether forces are the gradient of the energy, and whether their Jacobian is symmetric, without either in full.

gradient    r = u·∇E + F·u along random u; E r² = ‖∇E + F‖² for u of independent normal entries
asymmetry   with J = ∂F/∂x and random v, w: E (wᵀJv − vᵀJw)² = ‖J − Jᵀ‖² and E ‖Jv‖² = ‖J‖²

Derivatives along directions are central differences of some steps, of the energy three, of forces two, with
Richardson's estimate of their error. s(h) = s + a h² + b h⁴ + …,  fine (4 s(h) − s(2h))/3, coarse (4 s(2h) − s(4h))/3.
The error of fine is at most |fine − coarse| where the steps are small enough, so that s(h) − s(2h) is a quarter of
s(2h) − s(4h); where they are not, or rounding is what is seen, it is as large as what the steps change. Where that is
too large the steps become smaller, those of all directions at once, since of one alone an error is small by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from equitangents.audit.potentials.calculator import Potential
from equitangents.audit.potentials.known import Known
from equitangents.audit.potentials.results import ENOUGH, Row, Sampling, Trial
from equitangents.audit.potentials.structures import free
from equitangents.audit.report.numbers import Estimate

if TYPE_CHECKING:
    from ase import Atoms

_EXPECTED = 0.3
"""Steps whose differences fall by less are not small enough: a quarter is expected."""
_SMALLER = 4.0
_REFINED = 3

Slopes = Callable[[float], Float[np.ndarray, "directions ..."]]
"""Central differences of a step, along every direction."""


def slopes(
    s: Slopes, h: float, rounding: float, enough: float, steps: int = 3, of_size: bool = False
) -> tuple[np.ndarray, float, float]:
    """Derivatives, the root mean square of their errors (norms, of vectors), and the smallest step of which they are.

    `rounding` is the error by rounding alone of a derivative of step h; smaller steps are tried while the error is
    above `enough` (`of_size`: times the derivatives' own size) and rounding is not most of it. With two steps, h and
    2h, the error of s(h) stands for that of fine.
    """
    best = (np.empty(0), np.inf, h)
    for _ in range(1 + _REFINED):
        found, error = _richardson([s(h * 2**k) for k in range(steps)])
        if not best[1] <= error + rounding:
            best = (found, error + rounding, h)
        limit = enough * rms(_norms(found)) if of_size else enough
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
"""The relative asymmetry that counts as small."""


def chosen(count: int) -> list[int]:
    """At most `MOST_STRUCTURES`, spread over all."""
    return sorted({*np.linspace(0, count - 1, min(count, MOST_STRUCTURES)).astype(int).tolist()})


def conservation(known: Known, sampling: Sampling) -> list[Row] | str:
    """The rows "gradient" and "asymmetry", or why there are none."""
    if "forces" not in known.potential.quantities:
        return "the calculator gives no forces"
    usable = [i for i, v in enumerate(known.values) if "forces" in v]
    picked = [usable[k] for k in chosen(len(usable))]
    rng = np.random.default_rng([sampling.seed, 17])
    rows = []
    if "energy" in known.potential.quantities and (of := [i for i in picked if "energy" in known.values[i]]):
        rows.append(_gradient(known, of, rng, sampling))
    several = [i for i in picked if len(known.structures[i]) > 1]  # a single atom's Jacobian is 0
    if several:
        rows.append(_asymmetry(known, several, rng, sampling))
    return rows or "the calculator gives no energy, and every structure has one atom"


def _gradient(known: Known, picked: list[int], rng: np.random.Generator, s: Sampling) -> Row:
    potential, factor, tolerance = known.potential, 1e3, known.tolerances["forces"]
    h = _STEP[potential.single]
    forces_floors = known.floors_of("forces", picked)
    squares, floors, steps = [], [], []
    for i, forces_floor in zip(picked, forces_floors, strict=True):
        atoms, forces = known.structures[i], known.values[i]["forces"]
        N = len(atoms)
        U, per = rng.normal(size=(_DIRECTIONS, N, 3)), factor / np.sqrt(N)
        along = lambda step, U=U, atoms=atoms: np.array([_slope(potential, atoms, u, step) for u in U])
        rounding = known.rounding("energy", i) / factor * N / h
        found, error, step = slopes(along, h, rounding, 0.25 * tolerance / per)
        squares.append(((found + np.einsum("aij,ij->a", U, forces)) * per) ** 2)
        floors.append(error * per + forces_floor)
        steps.append(step)
    every = np.array(squares).T
    scales = known.scales(potential.quantities["forces"])

    def relative(columns: list[int]) -> Estimate | None:
        moving = [c for c in columns if picked[c] in scales]
        divisors = np.array([scales[picked[c]] for c in moving])
        return s.root_mean_square(every[:, moving] / divisors**2, "directions")[0] if moving else None

    return Trial(
        test="gradient",
        quantity="forces",
        unit="meV/Å",
        structures=picked,
        moves=_DIRECTIONS,
        worst=[("", float(worst)) for worst in np.sqrt(every.mean(axis=0))],
        floors=floors,
        tolerance=tolerance,
        estimate=lambda columns: s.root_mean_square(every[:, columns], "directions"),
        relative=relative,
        floor=rms,
        note=f"central differences of the energy, steps from {min(steps):g} to {4 * h:g} Å, and their own error",
        blind=[known.vanishes("forces", i) for i in picked],
    ).decided()


def _slope(potential: Potential, atoms: Atoms, u: np.ndarray, h: float) -> float:
    """dE/dh along u."""
    ends = [float(potential(_displaced(atoms, sign * h * u), ["energy"])["energy"]) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * h)


def _asymmetry(known: Known, picked: list[int], rng: np.random.Generator, s: Sampling) -> Row:
    potential, h = known.potential, _STEP[known.potential.single]
    products, sizes, floors, steps = [], [], [], []
    for i in picked:
        atoms = known.structures[i]
        V = rng.normal(size=(_PROBES, len(atoms), 3))
        along = lambda step, V=V, atoms=atoms: np.array([_along(potential, atoms, v, step) for v in V])
        noise = known.rounding("forces", i) / 1e3 * np.sqrt(len(atoms)) / h
        JV, error, step = slopes(along, h, noise, 0.25 * ASYMMETRY, steps=2, of_size=True)
        products.append(np.einsum("aix,bix->ab", V, JV))
        sizes.append((JV**2).sum(axis=(1, 2)))
        floors.append(np.sqrt(2) * error / max(float(np.sqrt(sizes[-1].mean())), 1e-300))
        steps.append(step)
    S, J = np.array(products), np.array(sizes)
    per = np.sqrt(_squares(S, J, np.arange(_PROBES)))
    estimate = lambda columns: _estimate(S[columns], J[columns], s)
    return Trial(
        test="asymmetry",
        quantity="force Jacobian",
        unit="of ‖J‖",
        structures=picked,
        moves=_PROBES,
        worst=[("", float(worst)) for worst in per],
        floors=floors,
        tolerance=ASYMMETRY,
        estimate=estimate,
        relative=lambda columns: estimate(columns)[0],
        note=f"‖J − Jᵀ‖/‖J‖ from {_PROBES} random directions, steps from {min(steps):g} to {2 * h:g} Å",
    ).decided()


def _squares(S: np.ndarray, J: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """‖J − Jᵀ‖²/‖J‖² of every structure from some probes: S[i, a, b] = v_aᵀ J v_b, J[i, a] = ‖J v_a‖²."""
    off = S[:, probes][:, :, probes]
    a, b = np.triu_indices(len(probes), 1)
    pairs = (off[:, a, b] - off[:, b, a]) ** 2
    return pairs.mean(axis=1) / np.maximum(J[:, probes].mean(axis=1), 1e-300)


def _estimate(S: np.ndarray, J: np.ndarray, s: Sampling) -> tuple[Estimate, str]:
    """The mean over structures; of few of them the interval is a jackknife of logarithms over probes."""
    every = np.arange(_PROBES)
    ratios = np.sqrt(_squares(S, J, every))
    if len(ratios) >= ENOUGH or not ratios.any():
        return s.mean(ratios[None], "directions")
    log = lambda probes: float(np.log(max(float(np.sqrt(_squares(S, J, probes)).mean()), 1e-300)))
    left_out = np.array([log(np.delete(every, k)) for k in every])
    error = float(np.sqrt((_PROBES - 1) / _PROBES * ((left_out - left_out.mean()) ** 2).sum()))
    width, centre = float(stdtrit(_PROBES - 1, (1 + s.confidence) / 2)) * error, log(every)
    ends = (float(np.exp(centre + sign * width)) for sign in (0, -1, 1))
    return Estimate(*ends), "directions, for these structures"


def _along(potential: Potential, atoms: Atoms, v: np.ndarray, h: float) -> np.ndarray:
    """J v."""
    plus, minus = (potential(_displaced(atoms, sign * h * v), ["forces"])["forces"] for sign in (1, -1))
    return (plus - minus) / (2 * h)


def _displaced(atoms: Atoms, by: np.ndarray) -> Atoms:
    moved = free(atoms)
    moved.positions += by
    return moved
