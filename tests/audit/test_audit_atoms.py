"""Audits of potentials: planted faults are found with their known size, sound ones pass at their own floor."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import Calculator
from ase.calculators.emt import EMT
from ase.io import write

import equitangents as et
from audit.potentials import Cluster, clusters, rattled
from equitangents.audit.potentials import conservation
from equitangents.audit.potentials.calculator import QUANTITIES
from equitangents.audit.potentials.structures import rotated, supercell, translated
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ModelError, ShapeError
from equitangents.groups import so3

FEW = {"resamples": 200}
CLUSTERS = clusters(6)


def test_a_planted_anisotropy_of_known_size_is_recovered_within_its_interval() -> None:
    size = 0.03
    squeeze = np.diag([size, 0, 0])
    crooked = Cluster(forces=lambda F: F @ (np.eye(3) + squeeze))
    report = et.audit.atoms(crooked, CLUSTERS, ["rotation", "reflection"], elements=24, **FEW)
    forces = [Cluster().get_property("forces", a) for a in CLUSTERS]
    rotations = so3(2).random(4000, seed=1)
    literal = []
    for F in forces:
        off = np.einsum("rij,jk,nk->rni", rotations, squeeze, F) - np.einsum("ij,rjk,nk->rni", squeeze, rotations, F)
        literal.append(np.sqrt((off**2).sum(axis=2).mean(axis=1)))
    expected = 1e3 * float(np.mean(literal))
    for test in ("rotation", "reflection"):
        row = report.row(test, "forces")
        assert row.error.low < expected < row.error.high
        assert row.error.high - row.error.low < expected
        assert row.outcome == "fails"
        assert 0.01 < row.relative.mean < size
        assert report.row(test, "energy").outcome == "holds"


def test_forces_of_a_separate_head_are_found_not_to_be_the_gradient() -> None:
    head = lambda F: F * (1 + 0.05 * np.tanh(np.linalg.norm(F, axis=1, keepdims=True)))
    report = et.audit.atoms(Cluster(forces=head), CLUSTERS, ["rotation", "conservation"], **FEW)
    off = [head(F) - F for F in (Cluster().get_property("forces", a) for a in CLUSTERS)]
    literal = 1e3 * np.sqrt(np.mean([(o**2).sum(axis=1).mean() for o in off]))
    gradient, asymmetry = report.row("gradient"), report.row("asymmetry")
    assert gradient.error.low < literal < gradient.error.high
    assert gradient.error.mean == pytest.approx(literal, rel=0.25)
    assert (gradient.outcome, asymmetry.outcome) == ("fails", "fails")
    assert report.row("rotation", "forces").outcome == "holds"
    assert report.first_line.startswith("fails (above the tolerance): ")


def test_the_asymmetry_of_the_jacobian_is_that_of_the_whole_matrix() -> None:
    head = lambda F: F * (1 + 0.5 * np.tanh(np.linalg.norm(F, axis=1, keepdims=True)))
    calculator, atoms = Cluster(forces=head), CLUSTERS[0]
    J = np.empty((18, 18))
    for k in range(18):
        ends = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions.ravel()[k] += sign * 1e-4
            ends.append(calculator.get_property("forces", moved).ravel())
        J[:, k] = (ends[0] - ends[1]) / 2e-4
    literal = np.linalg.norm(J - J.T) / np.linalg.norm(J)
    row = et.audit.atoms(calculator, atoms, "conservation", **FEW).row("asymmetry")
    assert row.error.mean == pytest.approx(literal, rel=0.5)
    assert et.audit.atoms(Cluster(), atoms, "conservation", **FEW).row("asymmetry").outcome == "holds"


@pytest.mark.slow
def test_forces_that_are_no_gradient_heat_a_run_at_constant_energy() -> None:
    swirl = lambda F: F + 0.05 * np.cross([0.0, 0.0, 1.0], F)
    broken = et.audit.atoms(Cluster(forces=swirl), CLUSTERS[:1], "dynamics", **FEW).row("drift")
    sound = et.audit.atoms(Cluster(), CLUSTERS[:1], "dynamics", **FEW).row("drift")
    assert broken.outcome == "fails"
    assert sound.outcome in ("holds", "within tolerance")


def test_what_the_integrator_adds_is_taken_off_the_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    # Verlet's error: an energy that rises in time by the square of the step
    rising = lambda potential, atoms, steps, dt, seed: 100 * dt**2 * (dt * np.arange(steps + 1))
    monkeypatch.setattr(conservation, "run", rising)
    for dt in (None, 1e-3, 10):
        report = et.audit.atoms(Cluster(), CLUSTERS[:1], "dynamics", time_step=dt, **FEW)
        assert report.row("drift").error.mean <= 1e-9


def test_jumps_at_a_cutoff_have_their_known_size() -> None:
    pair, cutoff = Atoms("Cu2", positions=[[0, 0, 0], [2.0, 0, 0]]), 4.5
    report = et.audit.atoms(Cluster(cutoff=cutoff), pair, "smoothness", **FEW)
    near = np.exp(-(cutoff - 2))
    assert report.row("jump", "energy").error.mean == pytest.approx(1e3 * abs(near**2 - 2 * near) / 2, rel=1e-4)
    assert report.row("jump", "forces").error.mean == pytest.approx(1e3 * abs(-2 * near**2 + 2 * near), rel=1e-4)
    assert report.row("jump", "energy").outcome == "fails"
    assert et.audit.atoms(Cluster(), pair, "smoothness", **FEW).verdict == "holds"


@pytest.mark.parametrize(
    ("test", "energy"),
    [
        ("translation", lambda atoms: 0.01 * float(atoms.positions[:, 0].sum())),
        ("permutation", lambda atoms: 0.01 * float(atoms.positions[0] @ atoms.positions[1])),
        ("rotation", lambda atoms: 0.01 * float(np.ptp(atoms.positions[:, 0]))),
        ("reflection", lambda atoms: 0.01 * float(np.linalg.det(np.diff(atoms.positions[:4], axis=0)))),
    ],
)
def test_every_symmetry_that_an_energy_lacks_is_named(test: str, energy) -> None:
    tests = ["rotation", "reflection", "translation", "permutation"]
    report = et.audit.atoms(Cluster(energy=energy), CLUSTERS, tests, elements=5, **FEW)
    assert report.row(test, "energy").outcome == "fails"
    assert report.row("permutation" if test != "permutation" else "translation", "forces").outcome == "holds"


def test_the_worst_pose_is_named_by_its_angle_and_poses_are_counted_ahead() -> None:
    frame, planned = Atoms("Cu4", positions=[[0, 0, 0], *2 * np.eye(3)]), []
    trace = lambda atoms: float(np.trace(atoms.positions[1:] - atoms.positions[0])) / 2  # 3 of the frame at rest
    ask = {"tests": ["rotation", "reflection"], "elements": 8, "progress": lambda *told: planned.append(told[1]), **FEW}
    report = et.audit.atoms(Cluster(energy=trace), [frame] * 3, **ask)
    for test, sign, said in (("rotation", 1, ""), ("reflection", -1, "inversion and ")):
        row = report.row(test, "energy")
        turned = sign * (3 - 4e-3 * row.worst)  # 4 atoms, meV
        assert row.worst_move == f"{said}{np.degrees(np.arccos((turned - 1) / 2)):.1f}°"
    assert report.evaluations / 2 <= planned[0] <= report.evaluations


class Periodic(EMT):
    """EMT, with faults of crystals: a constant energy a cell, or one that knows which copy of an atom is given."""

    def __init__(self, fault: str):
        super().__init__()
        self.fault = fault

    def get_property(self, name, atoms=None, allow_calculation=True):
        value = super().get_property(name, atoms, allow_calculation)
        if name != "energy":
            return value
        return value + (1.0 if self.fault == "constant" else 0.01 * float(atoms.positions.std()))


def test_supercells_and_copies_of_atoms_are_tested_of_crystals() -> None:
    tests = ["lattice translation", "supercell"]
    constant = et.audit.atoms(Periodic("constant"), rattled(), tests, elements=2, **FEW)
    assert constant.row("supercell", "energy").error.mean == pytest.approx(1e3 / 8, rel=1e-9)
    assert constant.row("lattice translation", "energy").outcome == "holds"
    copies = et.audit.atoms(Periodic("copies"), rattled(), tests, elements=2, **FEW)
    assert copies.row("lattice translation", "energy").outcome == "fails"
    left = et.audit.atoms(Cluster(), CLUSTERS[:1], [*tests, "rotation"], elements=2, **FEW)
    assert {m.section: m.reason for m in left.missing}["lattice translation"] == "no structure is periodic"


def test_a_structure_at_rest_is_judged_on_an_absolute_scale() -> None:
    report = et.audit.atoms(EMT(), rattled(size=3e-4), ["rotation"], elements=3, **FEW)
    row = report.row("rotation", "forces")
    assert (report.structures[0].at_rest, row.relative) == (True, None)
    assert row.outcome in ("holds", "within tolerance")


def test_single_precision_has_a_floor_of_its_own() -> None:
    few = CLUSTERS[:3]
    report = et.audit.atoms(Cluster(dtype=np.float32), few, ["rotation", "permutation", "conservation"], **FEW)
    assert report.precision == "single"
    assert report.verdict in ("holds", "within tolerance")
    assert 1e-5 < report.row("rotation", "forces").floor < 1.0
    assert et.audit.atoms(Cluster(), few, ["rotation"], **FEW).precision == "double"


def test_tensors_are_the_same_in_voigts_order_and_in_full() -> None:
    S = np.random.default_rng(0).normal(size=(3, 3))
    S = S + S.T
    voigt = S[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
    stress, R = QUANTITIES["stress"], so3(2).random(1, seed=0)[0]
    np.testing.assert_allclose(stress.rotated(voigt, R), R @ S @ R.T, atol=1e-12)
    np.testing.assert_array_equal(stress.full(voigt), S)
    assert stress.difference(voigt, S, 1) == 0.0


def test_reflections_keep_the_lattice_and_its_handedness() -> None:
    atoms, R = bulk("Cu"), -so3(2).random(1, seed=0)[0]
    moved = rotated(atoms, R, "").atoms
    assert np.linalg.det(np.asarray(moved.cell)) > 0
    steps = np.asarray(atoms.cell) @ R.T @ np.linalg.inv(np.asarray(moved.cell))
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-12)
    assert supercell(molecule("H2O"), 100) is None


def test_momenta_turn_as_vectors_magnetic_moments_as_pseudovectors_and_dipoles_of_ions_move() -> None:
    atoms, R = molecule("H2O"), -so3(2).random(1, seed=0)[0]
    vectors = np.random.default_rng(0).normal(size=(3, 3))
    atoms.set_momenta(vectors)
    atoms.set_initial_magnetic_moments(vectors)
    moved = rotated(atoms, R, "").atoms
    np.testing.assert_allclose(moved.get_momenta(), vectors @ R.T, atol=1e-12)
    np.testing.assert_allclose(moved.get_initial_magnetic_moments(), -vectors @ R.T, atol=1e-12)
    atoms.set_initial_charges([1.0, 0.5, -0.25])
    move = translated(atoms, np.random.default_rng(0))
    shift = move.atoms.positions[0] - atoms.positions[0]
    np.testing.assert_allclose(move.expected(QUANTITIES["dipole"], np.ones(3)), 1 + 1.25 * shift, atol=1e-12)


class Features(Calculator):
    """Charges and a dipole."""

    implemented_properties = ("energy", "charges", "dipole")
    right = True

    def calculate(self, atoms=None, properties=("energy",), system_changes=()) -> None:
        super().calculate(atoms, properties, system_changes)
        d = self.atoms.positions - self.atoms.positions.mean(axis=0)
        charges = (d**2).sum(axis=1) - (d**2).sum(axis=1).mean()
        dipole = charges @ (d if self.right else d[:, ::-1])
        self.results = {"energy": float((d**2).sum()), "charges": charges, "dipole": dipole}


def test_charges_and_dipoles_are_tested_as_they_turn() -> None:
    ask = {"elements": 3, **FEW}
    good = et.audit.atoms(Features(), CLUSTERS[:2], ["rotation", "reflection", "permutation"], **ask)
    assert good.verdict == "holds"
    assert {r.quantity for r in good.rows} == {"energy", "charges", "dipole"}
    wrong = Features()
    wrong.right = False
    assert et.audit.atoms(wrong, CLUSTERS[:2], ["rotation"], **ask).row("rotation", "dipole").outcome == "fails"
    tests = ["rotation", "lattice translation", "supercell"]
    report = et.audit.atoms(Features(), rattled(), tests, elements=2, **FEW)
    assert [r.test for r in report.rows if r.quantity == "dipole"] == ["rotation"], "it depends on the copies chosen"


class Shaped(Features):
    """Results of other shapes, by quantity."""

    implemented_properties = ("energy", "forces", "stress", "charges", "dipole", "energies", "stresses")

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.shapes = shapes

    def calculate(self, atoms=None, properties=("energy",), system_changes=()) -> None:
        super().calculate(atoms, properties, system_changes)
        d = self.atoms.positions - self.atoms.positions.mean(axis=0)
        stresses = np.einsum("ni,nj->nij", d, d)
        self.results |= {"forces": -2 * d, "stress": stresses.sum(0), "energies": (d**2).sum(axis=1)}
        self.results["stresses"] = stresses
        for name, shape in self.shapes.items():
            self.results[name] = np.resize(self.results[name], shape)


BOXED = CLUSTERS[0].copy()
BOXED.set_cell(np.eye(3) * 12)
BOXED.pbc = True


@pytest.mark.parametrize(
    ("name", "shape"),
    [("stress", (9,)), ("energy", (2,)), ("forces", (3, 6)), ("charges", (5,)), ("stresses", (6, 9))],
)  # fmt: skip
def test_results_of_another_shape_are_refused_by_name(name: str, shape: tuple[int, ...]) -> None:
    ask = {"elements": 2, **FEW}
    with pytest.raises(ShapeError, match=rf"{name} has shape {re.escape(str(shape))}; .*; shaped gave it for 6 atoms"):
        et.audit.atoms(Shaped(**{name: shape}), BOXED, ["rotation"], **ask)


def test_axes_of_length_one_change_nothing() -> None:
    ask = {"tests": ["rotation", "permutation"], "elements": 2, **FEW}
    batched = {"energy": (1,), "forces": (1, 6, 3), "stress": (1, 3, 3), "charges": (6, 1), "dipole": (1, 3)}
    assert et.audit.atoms(Shaped(**batched), BOXED, **ask).rows == et.audit.atoms(Shaped(), BOXED, **ask).rows


def test_the_report_is_written_in_every_form(tmp_path: Path) -> None:
    calculator = Cluster(energy=lambda a: a.positions[0, 0])
    report = et.audit.atoms(calculator, CLUSTERS[:2], ["rotation", "translation"], **FEW)
    data = json.loads(report.to_json(tmp_path / "r.json").read_text(encoding="utf-8"))
    assert data["verdict"] == report.verdict == "fails"
    assert data["rows"][0]["unit"] == "meV/atom"
    page = report.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "translation" in page
    assert "| rotation | energy |" in report.to_markdown()


def _no_calculator() -> None:
    raise RuntimeError("no weights\nfound")


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "said"),
    [
        ((object(), CLUSTERS), {}, InvalidTypeError, "expected an ASE calculator"),
        ((Cluster(), []), {}, InvalidArgumentError, "expected at least one ASE Atoms"),
        ((Cluster(), [3]), {}, InvalidTypeError, "structures\\[0\\] is of type int"),
        ((Cluster(), CLUSTERS, ["rotations"]), {}, InvalidArgumentError, "rotation"),
        ((Cluster(), CLUSTERS, ["supercell"]), {}, InvalidArgumentError, "expected a test that applies"),
        ((Cluster(cutoff="x"), CLUSTERS), {}, ModelError, "failed on"),
        ((_no_calculator, CLUSTERS), {}, ModelError, "expected a calculator; RuntimeError: no weights"),
        ((Cluster(), CLUSTERS), {"tolerances": [1]}, InvalidTypeError, r"tolerances is \[1\]"),
        ((Cluster(), CLUSTERS), {"tolerances": {"force": 1}}, InvalidArgumentError, "tolerances is 'force'; expected"),
        ((Cluster(), CLUSTERS), {"tests": 5}, InvalidTypeError, "tests is 5"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_refused(arguments: tuple, settings: dict, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        et.audit.atoms(*arguments, **settings)


def test_the_command_line_audits_a_file_of_structures(tmp_path: Path, command) -> None:
    write(tmp_path / "s.xyz", [rattled(), bulk("Al")])
    base = ["audit-potential", str(tmp_path / "s.xyz"), "--calculator", "ase.calculators.emt:EMT"]
    run = [*base, "--tests", "rotation,permutation", "--elements", "2", "--html", str(tmp_path / "page.html")]
    status, out, _ = command(*run, "--fail-above", "0.01")
    assert (status, out[: out.index(":")]) == (0, "holds (at noise floor)")
    assert (tmp_path / "page.html").stat().st_size > 1000
    assert command(*run, "--fail-above", "0")[0] == 3
    dipoles = [*base[:2], "--calculator", f"{__name__}:Features", "--tests", "rotation", "--elements"]
    status, out, _ = command(*dipoles, "2")
    assert (status, "dipole" in out) == (0, True)
    without = ["audit-potential", "--calculator", "a:b"]
    for wrong in (base[:2], without, ["audit", "numpy:square"], [*dipoles, "none"]):
        assert command(*wrong)[0] == 2
