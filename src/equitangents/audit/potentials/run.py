"""`audit.atoms`: whether a potential respects the symmetries of atoms, conserves energy, and is smooth.

Symmetries: errors ‖f(g·atoms) − g·f(atoms)‖ of every structure, quantity and move, and the rows made from them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents.audit.parts import versions
from equitangents.audit.potentials.calculator import Potential, Quantity
from equitangents.audit.potentials.conservation import MOST_STRUCTURES, conservation, dynamics, smoothness
from equitangents.audit.potentials.reference import Reference, measure_reference, null
from equitangents.audit.potentials.report import FORMAT, AtomsReason, AtomsReport
from equitangents.audit.potentials.results import (
    BrokenPose,
    Outcome,
    Row,
    Sampling,
    StructureResult,
    Trial,
    what_decides,
)
from equitangents.audit.potentials.structures import (
    Move,
    lattice_translated,
    nudged,
    permuted,
    rotated,
    supercell,
    translated,
)
from equitangents.audit.report.sections import MissingSection
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ModelError, NotFiniteError, require
from equitangents.groups import so3
from equitangents.groups.rotations_of_space import rotation_angle
from equitangents.keywords import unknown
from equitangents.progress import Progress, ProgressCallback, callback_of
from equitangents.validation import check_number

if TYPE_CHECKING:
    from ase import Atoms

SYMMETRIES = ("rotation", "reflection", "translation", "lattice translation", "permutation", "supercell")
_UNDEFINED = {"supercell": ("stresses", "dipole"), "lattice translation": ("dipole",)}
"""Quantities that do not test the potential: some calculators divide the stresses of atoms by the cell's volume, and
the dipole of a periodic structure depends on the chosen copies of the atoms."""
_LARGEST = 512  # atoms in a supercell
TESTS = (*SYMMETRIES, "conservation", "dynamics", "smoothness")


def atoms(
    calculator: Any,
    structures: Any,
    tests: Sequence[str] | None = None,
    *,
    elements: int = 8,
    tolerances: Mapping[str, float] | None = None,
    time_step: float | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    progress: bool | ProgressCallback = False,
) -> AtomsReport:
    """How far an interatomic potential is from the symmetries of atoms, from conserving energy, and from being smooth.

    Errors are in meV/atom, meV/Å and meV/Å³, with the noise floor of the potential's precision, and relative to the
    size of each quantity where structures are not at rest.

    Args:
        calculator: an ASE calculator, its class, or a function without arguments that makes one.
        structures: ASE `Atoms`, or a list of them, of any sizes: molecules and crystals.
        tests: some of "rotation", "reflection", "translation", "lattice translation", "permutation", "supercell",
            "conservation" (finite differences of the energy, symmetry of the force Jacobian), "dynamics" (drift of the
            energy in a short run) and "smoothness" (jumps at cutoffs); None: all that apply.
        elements: random rotations, reflections, translations and permutations of every structure.
        tolerances: errors allowed by quantity: {"forces": 1.0} in meV/Å, {"energy": 0.1} in meV/atom,
            {"stress": 0.1} in meV/Å³ are the defaults.
        time_step: femtoseconds of the short run, 0.001 to 10; None: 0.5 with hydrogen, else 1. The run stays as long.
        confidence: of the intervals.
        resamples: of the bootstrap.
        seed: the random seed.
        progress: True shows on stderr how far a long audit is; a function is called as progress(structures evaluated,
            structures planned, seconds left); False: it is logged.

    Returns:
        A report with `.verdict`, `.rows`, `.summary()`, and `.to_json(path)`, `.to_html(path)`,
        `.to_markdown(path)`.

    Raises:
        InvalidArgumentError, InvalidTypeError: for arguments that cannot be used.
        ModelError: if the calculator fails on an unmoved structure; failures and NaN on moved ones are in `.broken`.
        NotFiniteError: if it gives no finite value for any structure.

    >>> import equitangents as et
    >>> from ase.build import bulk
    >>> from ase.calculators.emt import EMT
    >>> copper = bulk("Cu", cubic=True)
    >>> copper.rattle(0.1, seed=0)
    >>> et.audit.atoms(EMT(), copper, tests=["rotation", "permutation"]).verdict
    'holds'
    """
    began = time.perf_counter()
    require("ase", "atoms", "the audit of potentials")
    callback_of(progress)
    given, chosen = check_structures(structures), _check_tests(tests)
    if isinstance(elements, bool) or not isinstance(elements, int) or elements < 1:
        raise InvalidArgumentError("elements", elements, "a whole number, at least 1")
    if time_step is not None:
        check_number("time_step", time_step, "a number of femtoseconds from 0.001 to 10", lambda t: 1e-3 <= t <= 10)
    if not isinstance(tolerances, Mapping | None):
        raise InvalidTypeError("tolerances", tolerances, "numbers by quantity, as {'forces': 1.0}")
    potential, sampling = Potential(calculator), Sampling(confidence, resamples, seed)
    shown = Progress(
        0, sum(planned(test, len(given), elements) for test in chosen), progress, task="audit", unit="structures"
    )
    potential.progress = lambda calls: shown.add(1, 1)
    rows: list[Row] = []
    missing: list[MissingSection] = []
    reference = measure_reference(potential, given, tolerances, seed, len(set(chosen) & set(ROUNDED_AGAIN)))
    own_tests = {
        "conservation": partial(conservation, reference, sampling),
        "dynamics": partial(dynamics, reference, seed, time_step),
        "smoothness": partial(smoothness, reference),
    }
    for test in chosen:
        result = _measured(test, reference, own_tests.get(test, partial(measure, reference, test, elements, sampling)))
        if isinstance(result, str):
            missing.append(MissingSection(test, result))
        else:
            rows += result
    if not rows:
        reasons = "; ".join(f"{m.section}: {m.reason}" for m in missing)
        raise InvalidArgumentError("tests", tests, "a test that applies", reasons)
    noisy = reference.noise()
    rows = [replace(r, decide=what_decides(r, potential.single, r.quantity in noisy)) for r in rows]
    verdict, reason = _verdict(rows, reference.broken)
    return AtomsReport(
        format=FORMAT,
        verdict=verdict,
        reason=reason,
        calculator=potential.name,
        precision="single" if potential.single else "double",
        structures=_structures(reference),
        rows=rows,
        missing=missing,
        broken=reference.broken,
        noise=noisy,
        settings={"tests": list(chosen), "elements": elements, "confidence": confidence, "resamples": resamples,
                  "seed": seed, "tolerances": reference.tolerances, "time_step": time_step},
        versions=versions("ase", "numpy", type(potential.calculator).__module__.partition(".")[0]),
        evaluations=potential.calls,
        seconds=potential.seconds,
        total_seconds=time.perf_counter() - began,
    )  # fmt: skip


def _measured(test: str, reference: Reference, run: Callable[[], list[Row] | str]) -> list[Row] | str:
    """The rows of one test, or why it does not apply to these structures."""
    try:
        return run()
    except (ModelError, NotFiniteError) as error:
        if test in SYMMETRIES:
            raise
        reference.broken.append(BrokenPose(test, None, "", str(error), isinstance(error, ModelError)))
        return str(error)


def planned(test: str, structures: int, elements: int) -> int:
    """Approximate number of evaluations of one test."""
    few = min(structures, MOST_STRUCTURES)
    return {"conservation": 80 * few, "dynamics": 600, "smoothness": 400, "supercell": structures}.get(
        test, structures * elements
    )


def check_structures(structures: Any) -> list[Any]:
    """A list of ASE structures; raises an error that names one that cannot be used."""
    from ase import Atoms

    given = [structures] if isinstance(structures, Atoms) else structures
    if not isinstance(given, Iterable):
        raise InvalidTypeError("structures", type(structures), "ASE Atoms, or a list of them", verb="is of type")
    given = list(given)
    if not given:
        raise InvalidArgumentError("structures", given, "at least one ASE Atoms")
    for i, one in enumerate(given):
        if not isinstance(one, Atoms):
            raise InvalidTypeError("structures", type(one), "ASE Atoms", verb="is of type", at=i)
        if not len(one):
            raise InvalidArgumentError("structures", one, "at least one atom", at=i)
        if not (np.isfinite(one.positions).all() and np.isfinite(np.asarray(one.cell)).all()):
            raise NotFiniteError("structures", one, "finite positions and a finite cell", verb="is", at=i)
        if any(one.pbc) and not all(length > 0 for length in one.cell.lengths()[one.pbc]):
            raise InvalidArgumentError("structures", one, "periodic directions with cell vectors above length 0", at=i)
    return given


def _check_tests(tests: Sequence[str] | None) -> tuple[str, ...]:
    if tests is None:
        return TESTS
    if not isinstance(tests, Iterable):
        raise InvalidTypeError("tests", tests, list(TESTS))
    names = [tests] if isinstance(tests, str) else list(tests)
    if not names:
        raise InvalidArgumentError("tests", (), list(TESTS))
    for test in names:
        if test not in TESTS:
            raise unknown("tests", test, TESTS)
    return tuple(test for test in TESTS if test in names)


def _structures(reference: Reference) -> list[StructureResult]:
    structures = []
    for i, (a, v) in enumerate(zip(reference.structures, reference.values, strict=True)):
        rms = 1e3 * float(np.sqrt((v["forces"] ** 2).sum() / len(a))) if "forces" in v else None
        formula = a.get_chemical_formula()
        structures.append(StructureResult(i, formula, len(a), bool(any(a.pbc)), rms, reference.at_rest[i]))
    return structures


def _verdict(rows: list[Row], broken: list[BrokenPose]) -> tuple[Outcome, AtomsReason]:
    """The worst of all rows; a pose without a finite result fails, one that raises leaves it undecided."""
    if any(not pose.raises for pose in broken):
        return "fails", "not finite"
    if any(r.outcome == "fails" for r in rows):
        return "fails", "above the tolerance"
    if broken:
        return "undecided", "raises"
    if any(r.outcome == "undecided" for r in rows):
        return "undecided", "undecided tests"
    if any(r.outcome == "within tolerance" for r in rows):
        return "within tolerance", "below the tolerance"
    return "holds", "at noise floor"


_Errors = dict[int, list[tuple[str, float]]]
"""Labels and errors of the moves by structure, of one quantity in one test."""


def measure(reference: Reference, test: str, count: int, sampling: Sampling) -> list[Row] | str:
    """One row per quantity, or why the test does not apply to these structures."""
    potential = reference.potential
    errors: dict[str, _Errors] = defaultdict(lambda: defaultdict(list))
    rng = np.random.default_rng([sampling.seed, SYMMETRIES.index(test)])
    matrices = so3(2).random(count, seed=int(rng.integers(2**31)))
    tiny = np.random.default_rng([sampling.seed, 100 + SYMMETRIES.index(test)])
    applies = False
    for i, (atoms, values) in enumerate(zip(reference.structures, reference.values, strict=True)):
        for k, move in enumerate(_moves(test, atoms, matrices, count, rng)):
            applies = True
            moved = reference.moved_values(move, list(values), test, i)
            kept = {name: v for name, v in values.items() if name in moved and name not in _UNDEFINED.get(test, ())}
            for name, value in kept.items():
                q = potential.quantities[name]
                error = q.difference(moved[name], move.expected(q, value), len(move.atoms))
                errors[name][i].append((move.label, error))
            if k == 0 and test in ROUNDED_AGAIN and kept:
                reference.floors[i].note(test, null(potential, nudged(move.atoms, tiny), {n: moved[n] for n in kept}))
    if not errors:
        return _WHY[test] if not applies else "the calculator gives no finite result"
    return [_row(potential.quantities[name], test, each, reference, sampling) for name, each in errors.items()]


ROUNDED_AGAIN = ("rotation", "reflection", "translation", "lattice translation", "supercell")
"""Tests whose moves have their own null; renumbering changes only the order of sums, and uses those of the others."""
_WHY = {
    "lattice translation": "no structure is periodic",
    "supercell": f"no structure is periodic with at most {_LARGEST // 2} atoms",
    "permutation": "no structure has two atoms of one element",
}


def _moves(test: str, atoms: Atoms, matrices: np.ndarray, count: int, rng: np.random.Generator) -> list[Move]:
    if test in ("rotation", "reflection"):
        sign = 1 if test == "rotation" else -1
        return [rotated(atoms, sign * R, _label(R, sign)) for R in matrices]
    if test == "translation":
        return [translated(atoms, rng) for _ in range(count)]
    if test == "lattice translation":
        return [lattice_translated(atoms, rng, wrap=k % 2 == 1) for k in range(count)] if any(atoms.pbc) else []
    if test == "permutation":
        return [move for _ in range(count) if (move := permuted(atoms, rng)) is not None]
    move = supercell(atoms, _LARGEST)
    return [] if move is None else [move]


def _row(q: Quantity, test: str, errors: _Errors, reference: Reference, sampling: Sampling) -> Row:
    order, count = sorted(errors), min(map(len, errors.values()))
    every = np.array([[e for _, e in errors[i][:count]] for i in order]).T
    return Trial(
        test=test,
        quantity=q.name,
        unit=q.unit,
        structures=order,
        moves=count,
        # of all poses, also of those beyond the rectangle where others have none
        worst=[max(errors[i], key=lambda pair: pair[1]) for i in order],
        floors=reference.floors_of(q.name, order, test),
        tolerance=reference.tolerances[q.name],
        errors=every,
        mean=sampling.mean,
        scales=reference.scales(q),
        blind=[reference.shows_nothing(q, test, i) for i in order],
    ).decided()


def _label(R: np.ndarray, sign: int) -> str:
    return f"{rotation_angle(R):.1f}°" if sign > 0 else f"inversion and {rotation_angle(R):.1f}°"
