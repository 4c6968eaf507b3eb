"""Audits of potentials: EMT and Lennard-Jones of ASE, and SevenNet-0, whose weights are in the wheel of `sevenn`.

`python -m benchmarks potentials` prints the table of docs/guide/audit-potentials.md. SevenNet is left out where
`sevenn` (0.13) is not installed; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEVENNET = "pretrained_potentials/SevenNet_0__11Jul2024/checkpoint_sevennet_0.pth"
_TESTS = ["rotation", "reflection", "translation", "lattice translation", "permutation", "supercell"]
_ELEMENTS = 6


def metals() -> list[Any]:
    """Rattled cells of three metals, and an alloy."""
    from ase.build import bulk

    alloy = bulk("Cu", cubic=True)
    alloy.symbols[:2] = "Au"
    return _rattled([bulk("Cu", cubic=True), bulk("Al", cubic=True), bulk("Ni", cubic=True), alloy])


def argon() -> list[Any]:
    """Rattled cells of argon."""
    from ase.build import bulk

    return _rattled([bulk("Ar", "fcc", a=5.3, cubic=True), bulk("Ar", "hcp", a=3.75)])


def crystals_and_molecules() -> list[Any]:
    """Rattled crystals, and molecules of which some are chiral."""
    from ase.build import bulk, molecule

    solids = [bulk("Si"), bulk("Cu", cubic=True), bulk("NaCl", "rocksalt", a=5.64), bulk("MgO", "rocksalt", a=4.21)]
    return _rattled([*solids, *(molecule(name) for name in ("CH3OH", "C2H6CHOH", "CH3CONH2", "H2O"))])


def _rattled(structures: list[Any]) -> list[Any]:
    for seed, one in enumerate(structures):
        one.rattle(0.08, seed=seed)
    return structures


def potentials() -> Iterator[tuple[str, Any, list[Any], list[str]]]:
    """(name, calculator, structures, tests)."""
    from ase.calculators.emt import EMT
    from ase.calculators.lj import LennardJones

    whole = [*_TESTS, "conservation", "dynamics", "smoothness"]
    yield "EMT", EMT(), metals(), whole
    yield "Lennard-Jones, cut at 2.5 σ", LennardJones(sigma=3.4, epsilon=0.0104, rc=8.5), argon(), whole
    found = importlib.util.find_spec("sevenn")
    if found is None or found.origin is None:
        print("SevenNet-0 is left out: sevenn is not installed", flush=True)
        return
    from sevenn.calculator import SevenNetCalculator

    weights = Path(found.origin).parent / SEVENNET
    yield (
        "SevenNet-0",
        SevenNetCalculator(str(weights), device="cpu"),
        crystals_and_molecules(),
        [
            *_TESTS,
            "conservation",
        ],
    )


def main() -> None:
    """Print every report and what it cost."""
    warnings.simplefilter("ignore")
    import equitangents as et

    for name, calculator, structures, tests in potentials():
        began = time.process_time()
        report = et.audit.atoms(calculator, structures, tests, elements=_ELEMENTS)
        print(f"\n{name}: {report.evaluations} evaluations, {time.process_time() - began:.1f} processor seconds")
        print(report.summary(), flush=True)
