"""The studies of molecules and of converging kernels in miniature."""

import csv
import json

import numpy as np
import pytest

from equitangents import studies
from equitangents.errors import InvalidArgumentError
from equitangents.report import outside_resources
from equitangents.studies import kernel_ridge, molecule_kernels
from equitangents.studies.progress import Task

TINY = {
    "molecules": {
        "sizes": "12,24", "test": "6", "splits": "3", "tuning": "10", "bandlimit": "2", "scales": "0.3", "block": "11",
        "moved": "2", "turns": "2", "tolerance": "1e-2", "soap_n_max": "2", "soap_l_max": "1",
    },
    "forces": {
        "sizes": "2,3", "test": "2", "bandlimit": "2", "tolerance": "1e-6", "turns": "1", "scale": "0.5",
        "ridge": "1e-5",
    },
    "kernel-convergence": {
        "widths": "2,4,8", "batches": "3", "samples": "2", "inputs": "2", "lattice": "2", "sampled": "2",
    },
}  # fmt: skip
FIGURES = {"kernel-convergence": {"convergence"}, "molecules": {"learning-curves"}, "forces": {"learning-curves"}}
TABLES = {"kernel-convergence": {"entries"}, "molecules": {"errors", "symmetry"}, "forces": {"errors"}}


@pytest.fixture(scope="module", params=list(TINY))
def finished(request, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param) / "run"
    return studies.run(request.param, out=out, settings=TINY[request.param], progress=False)


def test_files_and_report(finished):
    figures = {p.name for p in (finished.folder / "figures").iterdir()}
    assert figures == {f"{stem}.{end}" for stem in FIGURES[finished.name] for end in ("svg", "png")}
    tables = sorted((finished.folder / "results").iterdir())
    assert {p.stem for p in tables} == TABLES[finished.name]
    for path in tables:
        with path.open(newline="") as file:
            assert len(list(csv.reader(file))) > 3
    html = finished.report.read_text()
    assert outside_resources(html) == []
    for verdict in finished.claims:
        assert verdict.claim in html.replace("&#39;", "'")
    stored = json.loads((finished.folder / "verdicts.json").read_text())
    assert [v["verdict"] for v in stored] == [v.verdict for v in finished.claims]


def test_resuming_a_finished_run_changes_nothing(finished):
    before = {p: p.read_bytes() for p in finished.folder.rglob("*") if p.suffix in (".csv", ".npz")}
    studies.run(finished.name, out=finished.folder, resume=True, settings=TINY[finished.name], progress=False)
    assert before == {p: p.read_bytes() for p in before}


def test_numbering_of_atoms_changes_nothing(tmp_path_factory, finished):
    if finished.name == "molecules":
        assert finished.claims[-1].verdict == "holds"


def test_forces_are_gradients_without_curl(finished):
    if finished.name == "forces":
        assert [claim.verdict for claim in finished.claims[2:4]] == ["holds", "holds"]


def test_interrupted_kernel_is_completed_to_the_same_bits(tmp_path):
    from equitangents.data import load_molecules

    molecules = load_molecules("g2", count=9).molecules
    kernel = molecule_kernels.VectorKernel(
        lambda m: molecule_kernels.coulomb_vectors(m, molecules.atomic_numbers.shape[1]), "cityblock", 100.0
    ).kernel
    calls = []

    def failing(*molecules):
        calls.append(molecules)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return kernel(*molecules)

    whole = molecule_kernels.blockwise(kernel, molecules, 4, tmp_path / "whole", Task())
    np.testing.assert_allclose(whole, kernel(molecules), rtol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        molecule_kernels.blockwise(failing, molecules, 4, tmp_path / "parts", Task())
    assert len(list((tmp_path / "parts").iterdir())) == 1
    resumed = molecule_kernels.blockwise(failing, molecules, 4, tmp_path / "parts", Task())
    np.testing.assert_array_equal(resumed, whole)
    assert len(calls) == 4 + 3


def test_coulomb_matrix_of_water_by_hand():
    from equitangents.molecules import Molecules

    x = np.array([[0.0, 0, 1], [0, 0, 0], [2, 0, 0]])
    found = molecule_kernels.coulomb_vectors(Molecules(np.array([[1, 8, 1]]), x[None]), 3)
    expected = [0.5 * 8**2.4, 8.0, 4.0, 0.5, 1 / 5**0.5, 0.5]
    np.testing.assert_allclose(found[0], expected)


def test_ridge_regression_is_the_textbook_formula():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(12, 5))
    K, counts, y = a @ a.T + np.eye(12), rng.integers(0, 4, (12, 2)).astype(float), rng.normal(size=12)
    (fit,) = kernel_ridge.fits(K, counts, y, (0.1,))
    base = np.linalg.pinv(counts) @ y
    weights = np.linalg.inv(K + 0.1 * np.trace(K) / 12 * np.eye(12)) @ (y - counts @ base)
    np.testing.assert_allclose(fit.elements, base)
    np.testing.assert_allclose(fit.weights, weights, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("molecules", {"sizes": "5,20"}, "sizes was"),
        ("molecules", {"sizes": "20,12"}, "sizes was"),
        ("molecules", {"splits": "2"}, "splits was 2"),
        ("molecules", {"data": "qm8"}, "data was 'qm8'"),
        ("molecules", {"tuning": "1000"}, "tuning was 1000"),
        ("forces", {"molecule": "water"}, "molecule was water"),
        ("forces", {"sizes": "4"}, "sizes was"),
        ("kernel-convergence", {"widths": "4,8"}, "widths was"),
        ("kernel-convergence", {"sampled": "1"}, "sampled was 1"),
    ],
)
def test_bad_settings_are_named(name, settings, message, tmp_path):
    with pytest.raises(InvalidArgumentError, match=message):
        studies.run(name, out=tmp_path / "run", settings=settings, progress=False)


def test_set_without_its_file_says_how_to_give_it(tmp_path, monkeypatch):
    from equitangents.data import DataNotFoundError

    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"qm9\.npz is needed"):
        studies.run("molecules", out=tmp_path / "run", settings={**TINY["molecules"], "data": "qm9"}, progress=False)
