"""What decides an audit of a potential: floors of the same kind of move, structures that can show it, every pose."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
from ase.calculators.emt import EMT
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from audit.potentials import Cluster, clusters, rattled
from equitangents.audit.potentials.conservation import slopes
from equitangents.audit.potentials.report import below
from equitangents.audit.potentials.results import Trial, outcome, single
from equitangents.audit.potentials.structures import chiral
from equitangents.audit.report.numbers import MeanEstimate
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups import so3
from examples import examples

FEW = {"resamples": 200}
CLUSTERS = clusters(6)


@pytest.mark.slow
@pytest.mark.parametrize("structure", [rattled(), rattled("Al"), molecule("H2O"), molecule("CH3OH")])
def test_exact_potentials_in_double_precision_are_said_to_hold_to_rounding(structure: Atoms) -> None:
    report = et.audit.atoms(EMT(), structure, elements=4, **FEW)
    rows = [r for r in report.rows if r.test != "drift" and r.outcome != "holds"]
    assert all(r.blind for r in rows), [(r.test, r.quantity, r.error.mean, r.floor) for r in rows]
    assert all(r.floor < 1e-9 for r in report.rows if r.test in ("rotation", "reflection", "translation"))


def test_a_perfect_crystal_decides_nothing_about_forces() -> None:
    report = et.audit.atoms(EMT(), [bulk("Cu", cubic=True), bulk("Al")], ["rotation", "reflection"], elements=3, **FEW)
    assert report.verdict == "undecided"
    assert "rattle" in report.summary()
    for row in (report.row("rotation", "forces"), report.row("reflection", "energy")):
        assert row.outcome == "undecided"
        assert row.blind
    assert report.row("rotation", "energy").outcome == "holds"
    assert not all(check.passed for check in below(report, 0.1))
    mixed = et.audit.atoms(EMT(), [bulk("Cu", cubic=True), rattled()], ["rotation", "reflection"], elements=3, **FEW)
    assert mixed.verdict == "holds"
    assert (mixed.row("rotation", "forces").structures, mixed.row("rotation", "forces").given) == (1, 2)
    assert "own mirror image" in mixed.row("reflection", "energy").note


class Crooked(EMT):
    """EMT with a force along x that the crystal's symmetry does not allow."""

    def get_property(self, name, atoms=None, allow_calculation=True):
        value = super().get_property(name, atoms, allow_calculation)
        return value + np.array([0.01, 0.0, 0.0]) if name == "forces" and len(atoms) < 8 else value


def test_a_perfect_crystal_that_shows_an_error_all_the_same_counts() -> None:
    report = et.audit.atoms(Crooked(), bulk("Cu", cubic=True), ["rotation", "supercell"], elements=5, **FEW)
    assert report.row("rotation", "forces").outcome == "fails"
    assert report.row("supercell", "energy").outcome == "holds"
    assert report.row("supercell", "forces").outcome == "fails"


class Noisy(Cluster):
    """Each call differs by 5 meV, and forces by 20 meV/Å."""

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        if not hasattr(self, "rng"):
            self.rng = np.random.default_rng(0)
        self.results["energy"] += 5e-3 * self.rng.normal()
        self.results["forces"] = self.results["forces"] + 0.02 * self.rng.normal(size=self.results["forces"].shape)


def test_noise_is_called_noise_and_decides_nothing() -> None:
    report = et.audit.atoms(Noisy(), CLUSTERS, ["rotation", "reflection", "conservation"], elements=4, **FEW)
    assert report.verdict == "undecided"
    assert not [r for r in report.rows if r.outcome == "fails"]
    assert set(report.noise) == {"energy", "forces"}
    assert 10 < report.noise["forces"] / np.sqrt(2 * 3) < 40
    assert "a calculator without noise" in report.summary()
    assert not et.audit.atoms(Cluster(), CLUSTERS, ["rotation"], elements=2, **FEW).noise


class Holes(Cluster):
    """NaN forces, or an exception, where the first atom stands far to the left; `fault` says which."""

    fault = "nan"

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        if self.atoms.positions[0, 0] < -1.0:
            if self.fault == "raises":
                raise RuntimeError("no grid there\nsecond line")
            self.results["forces"] = self.results["forces"] * np.nan


def test_a_pose_without_a_result_is_a_finding_that_loses_nothing() -> None:
    report = et.audit.atoms(Holes(), CLUSTERS, ["rotation", "translation"], elements=6, **FEW)
    assert (report.verdict, report.reason) == ("fails", "not finite")
    assert {p.test for p in report.broken} >= {"translation"}
    assert (report.row("translation", "energy").outcome, report.row("translation", "energy").moves) == ("holds", 6)
    assert not all(check.passed for check in below(report, 0.1))
    assert "NaN or infinite forces" in report.summary()
    assert "NaN" in report.to_markdown()


def test_an_exception_in_a_pose_is_one_line_with_its_place() -> None:
    calculator = Holes()
    calculator.fault = "raises"
    report = et.audit.atoms(calculator, CLUSTERS, ["translation", "conservation"], elements=6, **FEW)
    assert (report.verdict, report.row("gradient").outcome) == ("undecided", "holds")
    assert "RuntimeError: no grid there, at test_potential_floors.py:" in report.summary()
    assert "second line" not in report.summary()


def test_nothing_finite_as_given_is_refused_and_one_structure_is_a_finding() -> None:
    far = CLUSTERS[1].copy()
    far.positions -= 10.0
    with pytest.raises(et.errors.NotFiniteError, match="expected a finite result"):
        et.audit.atoms(Cluster(forces=lambda F: F * np.nan, energy=lambda a: np.nan), far, ["rotation"], **FEW)
    report = et.audit.atoms(Holes(), [far, *CLUSTERS[2:4]], ["permutation", "conservation"], elements=3, **FEW)
    assert (report.broken[0].test, report.row("gradient").structures) == ("as given", 2)


class Wall(Calculator):
    """Two atoms with a wall of 5 eV that is 0.004 Å thin at 0.71 Å; energies in single precision, forces exact."""

    implemented_properties = ("energy", "forces")

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        d = self.atoms.positions[1] - self.atoms.positions[0]
        r = np.linalg.norm(d)
        t = np.tanh((r - 0.712) / 0.004)
        pull = -5 / 2 * (1 - t**2) / 0.004 * d / r
        self.results = {"energy": np.float32(50 - 5 / 2 * t), "forces": np.float32(np.array([pull, -pull]))}


def test_steps_too_large_for_a_contact_are_in_the_floor() -> None:
    contact = Atoms("Cu2", positions=[[0, 0, 0], [0.71, 0, 0]])
    report = et.audit.atoms(Wall(), contact, "conservation", **FEW)
    assert report.row("gradient").outcome == "undecided"
    assert report.row("gradient").error.mean <= 2 * report.row("gradient").floor
    assert (report.verdict, report.row("gradient").decide) == ("undecided", "the calculator in double precision")


def test_one_structure_alone_fails_where_its_error_is_far_beyond_floor_and_tolerance() -> None:
    field = Cluster(energy=lambda atoms: -0.01 * float(atoms.positions[:, 2].sum()))
    alone = et.audit.atoms(field, CLUSTERS[0], ["translation"], elements=2, **FEW).row("translation", "energy")
    errors = et.audit.atoms(field, CLUSTERS[0], ["translation"], elements=6, **FEW)
    row = errors.row("translation", "energy")
    assert (alone.outcome, row.outcome, errors.verdict) == ("fails", "fails", "fails")
    assert (row.structures, row.given, row.note, errors.row("translation", "forces").outcome) == (1, 1, "", "holds")
    # an interval that reaches below the limit: one error far above it, the others at the floor
    for worst, said in ((30.0, "fails"), (0.9, "undecided")):
        trial = Trial(
            "translation", "energy", "meV/atom", [0], 6, [("", worst)], [5e-4], 0.1,
            np.zeros((6, 1)), lambda errors: MeanEstimate(10.0, 0.0, 20.0),
        )  # fmt: skip
        assert trial.decided().outcome == said


class Lacking(Cluster):
    """No forces where the first atom stands far to the left."""

    def get_property(self, name, atoms=None, allow_calculation=True):
        if name == "forces" and atoms.positions[0, 0] < -1.0:
            raise PropertyNotImplementedError("forces")
        return super().get_property(name, atoms, allow_calculation)


def test_a_pose_that_lacks_what_the_structure_has_is_broken() -> None:
    report = et.audit.atoms(Lacking(), CLUSTERS, ["rotation", "translation"], elements=6, **FEW)
    assert (report.verdict, report.row("translation", "energy").moves) == ("undecided", 6)
    assert {p.test for p in report.broken} >= {"translation"}
    assert all(p.raises and "gives no forces" in p.result for p in report.broken)
    near = CLUSTERS[0].copy()
    near.positions[:, 0] += -1.0 + 1e-4 - near.positions[0, 0]
    derived = et.audit.atoms(Lacking(), near, ["translation", "conservation"], elements=2, **FEW)
    assert [p.test for p in derived.broken if p.structure is None] == ["conservation"]


class Springs(Calculator):
    """Atoms bound to their mean, wherever they are."""

    implemented_properties = ("energy", "forces")

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        d = self.atoms.positions - self.atoms.positions.mean(axis=0)
        self.results = {"energy": float((d**2).sum()), "forces": -2 * d}


def test_atoms_at_one_place_are_left_out_of_the_test_that_pulls_them_apart() -> None:
    twice, calculator = Atoms("Cu3", positions=[[0, 0, 0], [0, 0, 0], [2.0, 0, 0]]), Springs()
    row = et.audit.atoms(calculator, [twice, CLUSTERS[0]], ["smoothness"], **FEW).row("jump", "energy")
    assert (row.structures, row.worst_structure) == (1, 1)
    report = et.audit.atoms(calculator, twice, ["translation", "smoothness"], elements=2, **FEW)
    assert {m.section: m.reason for m in report.missing}["smoothness"].endswith("at one place")


def test_a_broken_parity_in_single_precision_is_not_hidden_by_the_floor() -> None:
    def handed(atoms: Atoms) -> float:
        x = atoms.positions - atoms.positions.mean(axis=0)
        return 0.02 * float(np.tanh(np.linalg.det(x[:3])))

    class Single(Cluster):
        def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
            super().calculate(atoms, properties, system_changes)
            self.results["energy"] = np.float32(self.results["energy"])

    wide = clusters(3)
    for atoms in wide:
        atoms.positions += 20.0
    report = et.audit.atoms(Single(energy=handed, dtype=np.float32), wide, ["rotation", "reflection"], **FEW)
    row = report.row("reflection", "energy")
    assert (report.precision, report.row("rotation", "energy").outcome, row.outcome) == ("single", "holds", "fails")
    assert row.floor < 0.05


@examples(4, random=40)
@given(st.integers(0, 10**6))
def test_chirality_is_that_of_the_structure_and_not_of_its_pose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    atoms = Atoms("CHFClBr", positions=rng.normal(size=(5, 3)) * 1.5)
    R = so3(2).random(1, seed=seed)[0]
    assert chiral(atoms)
    flat, turned = atoms.copy(), molecule("CH3OH")
    flat.positions[:, 2] = 0.0
    flat.positions[:] = flat.positions @ R.T + rng.normal(size=3)
    turned.positions[:] = turned.positions @ R.T
    assert not chiral(flat)
    assert not chiral(turned)
    crystal = bulk("Cu", cubic=True)
    assert not chiral(crystal)
    crystal.rattle(0.05, seed=seed)
    assert chiral(crystal)
    assert not chiral(Atoms("Si2", positions=rng.normal(size=(2, 3)), cell=np.eye(3) * 4, pbc=True))


@examples(10, random=40)
@given(st.floats(0.3, 3.0), st.floats(0.5, 300.0))
def test_the_error_of_slopes_is_in_their_estimate(x: float, rate: float) -> None:
    f = lambda v: np.sin(rate * np.array([1.0, 0.7, 1.3]) * v)
    exact = rate * np.array([1.0, 0.7, 1.3]) * np.cos(rate * np.array([1.0, 0.7, 1.3]) * x)
    found, error, step = slopes(lambda h: (f(x + h) - f(x - h)) / (2 * h), 1e-2, 1e-14, 1e-9)
    assert np.sqrt(np.mean((found - exact) ** 2)) <= 2 * error + 1e-10 * rate
    assert step <= 1e-2


@examples(20, random=100)
@given(st.tuples(*[st.floats(0, 1)] * 3).map(sorted), st.floats(0, 1), st.floats(0.01, 1), st.booleans())
def test_outcomes_and_limits_go_by_the_one_decision(interval, floor, limit, has_interval) -> None:
    low, mean, high = interval if has_interval else [interval[1]] * 3
    error = MeanEstimate(mean, low, high) if has_interval else MeanEstimate(mean, np.nan, np.nan)
    passes, fails = high <= limit and 2 * floor <= limit, low > limit and low > 2 * floor
    found = outcome(error, high, floor, limit)
    assert (found in ("holds", "within tolerance"), found == "fails") == (passes, fails)
    row = single(mean, floor, 2.0, test="rotation", quantity="forces", unit="", worst_structure=0, worst_move="",
                 structures=1, moves=1)  # fmt: skip
    row = replace(row, error=error, relative=error, outcome="holds")
    (check,) = below(SimpleNamespace(rows=[row], broken=[]), limit)
    floor = floor if mean else 0.0
    passes, fails = high <= limit and 2 * floor <= limit, low > limit and low > 2 * floor
    assert (check.passed, check.undecided) == (passes, not passes and not fails), check


@pytest.mark.slow
def test_a_shorter_time_step_decides_what_the_run_says_it_would() -> None:
    water = molecule("H2O")
    water.rattle(0.05, seed=1)
    drift = lambda **more: et.audit.atoms(EMT(), water, "dynamics", **more).rows[0]
    open_ = drift()
    assert (open_.outcome, open_.decide) == ("undecided", "time_step=0.25 (fs)")
    found = drift(time_step=0.25)
    assert found.outcome == "holds"
    assert found.moves == 2 * open_.moves
    for wrong in (0, -1.0, np.nan, True, "0.5", 11):
        error = InvalidTypeError if isinstance(wrong, bool | str) else InvalidArgumentError
        with pytest.raises(error, match="time_step"):
            drift(time_step=wrong)
