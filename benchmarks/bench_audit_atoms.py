"""How often an audit of a potential finds faults where there are none, and misses planted ones.

Random pair potentials of clusters and crystals, in NumPy, that have all symmetries and conserve energy, and the same
with one fault each. A false alarm is a test of an exact potential that fails, a miss one of a faulty potential that
holds. `python -m benchmarks audit_atoms` prints the lines of docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes

from benchmarks.totals import totals

MODELS = 10  # of each fault
EXACT = 20  # potentials without a fault
ELEMENTS = 6

Array = np.ndarray
Results = dict[str, Any]


class Pairs(Calculator):
    """Σ over pairs and their periodic images of D(n² − 2n) s(r), n = exp(−a(r − r0)), s = (1 − r²/c²)³ within c.

    A dipole beside energy and forces; `fault` changes the results.
    """

    implemented_properties = ["energy", "forces", "dipole"]  # noqa: RUF012 (as ASE has it)

    def __init__(self, rng: np.random.Generator, fault: Callable[[Atoms, Results], None], smooth: bool = True):
        super().__init__()
        self.depth, self.slope, self.least = rng.uniform(0.2, 0.6), rng.uniform(1, 2), rng.uniform(1.8, 2.4)
        self.cutoff, self.fault, self.smooth = 4.5, fault, smooth

    def calculate(
        self, atoms: Atoms | None = None, properties: Any = ("energy",), system_changes: Any = all_changes
    ) -> None:
        """ASE's: the results of one structure."""
        super().calculate(atoms, properties, system_changes)
        found: Any = self.atoms
        d = self._apart(found)
        r = np.sqrt((d**2).sum(-1))
        inside = (r < self.cutoff) & (r > 0)
        r = np.where(inside, r, 1.0)
        near = np.exp(-self.slope * (r - self.least))
        well, steep = near**2 - 2 * near, -2 * self.slope * (near**2 - near)
        left = 1 - (r / self.cutoff) ** 2
        s, ds = (left**3, -6 * r / self.cutoff**2 * left**2) if self.smooth else (np.ones_like(r), np.zeros_like(r))
        pull = np.where(inside, self.depth * (steep * s + well * ds) / r, 0)[..., None] * d
        each = np.where(inside, self.depth * well * s, 0)
        species = np.where(found.numbers == 29, 1.0, -1.0)
        species = species - species.mean()
        self.results = {
            "energy": 0.5 * float(each.sum()),
            "forces": -pull.sum(axis=(1, 2)),
            "dipole": species @ found.positions,
        }
        self.fault(found, self.results)

    def _apart(self, atoms: Atoms) -> Array:
        """Differences of all atoms and images, (atoms, atoms, images, 3)."""
        x = atoms.positions
        d = x[:, None] - x[None]
        if not atoms.pbc.all():
            return d[:, :, None]
        cell = np.asarray(atoms.cell)
        d = d - np.rint(d @ np.linalg.inv(cell)) @ cell
        steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(-1, 3) @ cell
        return d[:, :, None] + steps


def clusters(rng: np.random.Generator, count: int = 3) -> list[Atoms]:
    """Six atoms of two elements, which keep their distance."""
    lattice = 2.2 * np.stack(np.meshgrid(*[np.arange(2)] * 3), axis=-1).reshape(-1, 3)[:6]
    return [Atoms("Cu3Au3", positions=lattice + 0.2 * rng.normal(size=(6, 3))) for _ in range(count)]


def crystals(rng: np.random.Generator, count: int = 3) -> list[Atoms]:
    """Rattled cells of four atoms, a little longer than the cutoff along every side."""
    sites = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) / 2
    found = []
    for _ in range(count):
        cell = np.diag(rng.uniform(4.7, 5.2, 3)) + 0.2 * rng.normal(size=(3, 3))
        found.append(Atoms("Cu2Au2", positions=sites @ cell + 0.1 * rng.normal(size=(4, 3)), cell=cell, pbc=True))
    return found


def _sound(atoms: Atoms, found: Results) -> None:
    """No fault."""


def _tilted(atoms: Atoms, found: Results) -> None:
    found["forces"] = found["forces"] * [1, 1, 1.02]


def _long_dipole(atoms: Atoms, found: Results) -> None:
    found["dipole"] = found["dipole"] * [1.02, 1, 1]


def _handed(atoms: Atoms, found: Results) -> None:
    x = atoms.positions - atoms.positions.mean(axis=0)
    r2, heavy = (x**2).sum(1), atoms.numbers > 29
    found["energy"] += 0.02 * float(np.tanh(np.linalg.det([heavy @ x, r2 @ x, r2**2 @ x])))


def _placed(atoms: Atoms, found: Results) -> None:
    found["energy"] += 0.005 * float(atoms.positions[:, 2].sum())


def _counted(atoms: Atoms, found: Results) -> None:
    found["forces"] = found["forces"] * np.where(np.arange(len(atoms)) == 0, 1.05, 1.0)[:, None]


def _unwrapped(atoms: Atoms, found: Results) -> None:
    found["energy"] += 0.01 * float(np.floor(atoms.get_scaled_positions(wrap=False)).sum())


def _per_cell(atoms: Atoms, found: Results) -> None:
    found["energy"] += 0.05


def _other_head(atoms: Atoms, found: Results) -> None:
    size = np.linalg.norm(found["forces"], axis=1, keepdims=True)
    found["forces"] = found["forces"] * (1 + 0.05 * np.tanh(size))


def _twisted(atoms: Atoms, found: Results) -> None:
    c, s = np.cos(np.radians(10)), np.sin(np.radians(10))
    found["forces"] = found["forces"] @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])


@dataclass(frozen=True)
class Fault:
    """One fault, the structures that show it, the test that is asked for, and the rows that should fail."""

    name: str
    change: Callable[[Atoms, Results], None]
    structures: Callable[[np.random.Generator], list[Atoms]]
    test: str
    row: tuple[str, str]
    smooth: bool = True


FAULTS = (
    Fault("forces 2 % too large along z", _tilted, clusters, "rotation", ("rotation", "forces")),
    Fault("dipole 2 % too large along x", _long_dipole, clusters, "rotation", ("rotation", "dipole")),
    Fault("20 meV by handedness", _handed, clusters, "reflection", ("reflection", "energy")),
    Fault("a field of 5 meV/Å", _placed, clusters, "translation", ("translation", "energy")),
    Fault("forces of the first atom 5 % too large", _counted, clusters, "permutation", ("permutation", "forces")),
    Fault("10 meV by an atom's copy", _unwrapped, crystals, "lattice translation", ("lattice translation", "energy")),
    Fault("50 meV a cell", _per_cell, crystals, "supercell", ("supercell", "energy")),
    Fault("forces of a separate head", _other_head, clusters, "conservation", ("gradient", "forces")),
    Fault("forces turned by 10°", _twisted, clusters, "conservation", ("asymmetry", "force Jacobian")),
    Fault("forces turned by 10°, in a run", _twisted, clusters, "dynamics", ("drift", "total energy")),
    Fault("a hard cutoff", _sound, clusters, "smoothness", ("jump", "energy"), smooth=False),
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One line of the table: how many rows of reports failed, were undecided, or held."""

    name: str
    test: str
    planted: bool
    fails: int
    undecided: int
    rows: int

    @property
    def wrong(self) -> int:
        """False alarms of exact potentials, misses of faulty ones."""
        return self.rows - self.fails - self.undecided if self.planted else self.fails


def audited(seed: list[int], fault: Fault | None, structures: Callable[..., list[Atoms]]) -> dict[tuple[str, str], str]:
    """The outcome of every row of one audit."""
    from equitangents.audit import atoms

    rng = np.random.default_rng(seed)
    smooth, change = (True, _sound) if fault is None else (fault.smooth, fault.change)
    report = atoms(
        Pairs(rng, change, smooth), structures(rng), None if fault is None else [fault.test], elements=ELEMENTS,
        seed=seed[-1],
    )  # fmt: skip
    return {(row.test, row.quantity): row.outcome for row in report.rows}


def lines(models: int = MODELS, exact: int = EXACT) -> list[Line]:
    """False alarms of exact potentials by test, then every fault."""
    outcomes: dict[str, list[str]] = {}
    for seed in range(exact):
        for (test, _), outcome in audited([99, seed], None, clusters if seed % 2 else crystals).items():
            outcomes.setdefault(test, []).append(outcome)
    found = [Line("none", test, False, *_counts(all_of)) for test, all_of in outcomes.items()]
    for number, fault in enumerate(FAULTS):
        seen = [audited([number, m], fault, fault.structures)[fault.row] for m in range(models)]
        found.append(Line(fault.name, ", ".join(fault.row), True, *_counts(seen)))
    return found


def _counts(outcomes: list[str]) -> tuple[int, int, int]:
    return outcomes.count("fails"), outcomes.count("undecided"), len(outcomes)


def table(found: list[Line]) -> str:
    """Every line, and the totals with exact binomial intervals."""
    rows = ["| planted fault | row | fails | undecided | false alarms | missed |", "|---|---|---|---|---|---|"]
    for one in found:
        wrong = ("–", str(one.wrong)) if one.planted else (str(one.wrong), "–")
        rows.append(f"| {one.name} | {one.test} | {one.fails} of {one.rows} | {one.undecided} | {' | '.join(wrong)} |")
    alarms = [(one.wrong, one.rows) for one in found if not one.planted]
    missed = [(one.wrong, one.rows) for one in found if one.planted]
    return "\n".join(rows) + "\n\n" + totals(("false alarms", alarms), ("missed", missed))


def main() -> None:
    """The table, and the totals."""
    print(table(lines()))
