"""The studies of augmentation in miniature: what they write, and that interruption and resumption change nothing."""

import csv
import json

import pytest

from equitangents import studies
from equitangents.errors import InvalidArgumentError
from equitangents.report import outside_resources
from equitangents.studies.progress import Task

TINY = {
    "mlp-to-gcnn": {
        "group": "C4", "train_images": "4", "test_images": "4", "foreign_images": "4", "times": "1,inf",
        "widths": "8,16", "draws": "3", "trained_widths": "4", "members": "4", "steps": "0,2",
    },
    "cross-product": {
        "groups": "T,O", "trained_groups": "T", "train_pairs": "3", "test_pairs": "3", "rotations": "4",
        "members": "6", "width": "4", "steps": "0,1,3",
    },
    "continuous": {
        "train_images": "5", "test_images": "4", "orders": "2,4", "angles": "8", "rings": "2", "samples": "5",
        "points": "2", "steps": "1,3", "trained": "2", "members": "4", "width": "4", "hidden_layers": "1",
    },
    "sampling": {
        "order": "4", "budgets": "1,2", "draws": "4", "times": "1,inf", "train_images": "5", "test_images": "3",
        "rings": "2", "samples": "5",
    },
    "finite-width": {
        "lattice": "3", "train_spins": "4", "test_spins": "3", "widths": "2,4,8", "members": "12", "sizes": "1,2,4",
        "steps": "1,3", "hidden_layers": "1",
    },
    "other-ensembles": {
        "lattice": "3", "train_spins": "4", "test_spins": "3", "width": "4", "members": "12", "runs": "4",
        "sizes": "1,2,4", "steps": "3", "every": "1", "stage_steps": "2", "resamples": "3",
        "hidden_layers": "1",
    },
}  # fmt: skip
FIGURES = {
    "mlp-to-gcnn": {"difference-over-time", "convergence"},
    "cross-product": {"members-and-mean", "random-rotations"},
    "continuous": {"change-against-kappa", "change-over-angles"},
    "sampling": {"violation-against-budget", "violation-over-time"},
    "finite-width": {"violation-against-members", "width", "parts"},
    "other-ensembles": {"change-against-size"},
}
TABLES = {
    "mlp-to-gcnn": {"distance", "independent", "trained"},
    "cross-product": {"closed_form", "members", "shares"},
    "continuous": {"violation", "angles"},
    "sampling": {"choices"},
    "finite-width": {"parts", "members"},
    "other-ensembles": {"size", "closed_form"},
}
EXACT = {
    "mlp-to-gcnn": (0, 2),
    "cross-product": (0, 1),
    "continuous": (1,),
    "sampling": (0,),
    "finite-width": (),
    "other-ensembles": (0,),
}


@pytest.fixture(scope="module", params=list(TINY))
def finished(request, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param) / "run"
    return studies.run(request.param, out=out, settings=TINY[request.param], progress=False)


def test_files(finished):
    figures = {p.name for p in (finished.folder / "figures").iterdir()}
    assert figures == {f"{stem}.{end}" for stem in FIGURES[finished.name] for end in ("svg", "png")}
    tables = sorted((finished.folder / "results").iterdir())
    assert {p.stem for p in tables} == TABLES[finished.name]
    for path in tables:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 3
        assert {len(row) for row in rows} == {len(rows[0])}


def test_report_says_what_was_found(finished):
    html = finished.report.read_text()
    assert outside_resources(html) == []
    for verdict in finished.claims:
        assert verdict.claim in html.replace("&#39;", "'")
        assert verdict.number in html
    assert finished.summary.split(";")[0] in html
    assert f"equitangents reproduce {finished.name}" in html
    stored = json.loads((finished.folder / "verdicts.json").read_text())
    assert [v["verdict"] for v in stored] == [v.verdict for v in finished.claims]


def test_what_holds_exactly_holds_at_any_size(finished):
    for i in EXACT[finished.name]:
        claim = finished.claims[i]
        assert claim.verdict == "holds", claim
        assert claim.interval[0] == claim.interval[1]


def test_resuming_a_finished_run_changes_nothing(finished):
    before = {p: p.read_bytes() for p in finished.folder.rglob("*") if p.suffix in (".csv", ".npz")}
    again = studies.run(finished.name, out=finished.folder, resume=True, settings=TINY[finished.name], progress=False)
    assert [v.to_dict() for v in again.claims] == [v.to_dict() for v in finished.claims] or any(
        v.value != v.value
        for v in finished.claims  # a number that is not a number does not equal itself
    )
    assert before == {p: p.read_bytes() for p in before}


def test_killed_in_the_middle_of_training_and_resumed(tmp_path, monkeypatch):
    name = "cross-product"
    whole = studies.run(name, out=tmp_path / "whole", settings=TINY[name], progress=False)
    step = Task.step

    def interrupting(self, done, total):
        step(self, done, total)
        if total == 3 and done == 2 and any((tmp_path / "cut" / "checkpoints").rglob("*")):
            raise KeyboardInterrupt

    monkeypatch.setattr(Task, "step", interrupting)
    with pytest.raises(KeyboardInterrupt):
        studies.run(name, out=tmp_path / "cut", settings=TINY[name], progress=False)
    assert not (tmp_path / "cut" / "report.html").exists()
    monkeypatch.setattr(Task, "step", step)
    resumed = studies.run(name, out=tmp_path / "cut", settings=TINY[name], resume=True, progress=False)
    assert resumed.claims == whole.claims
    for table in TABLES[name]:
        path = f"results/{table}.csv"
        assert (tmp_path / "cut" / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()


@pytest.mark.parametrize("name", list(TINY))
def test_paper_preset_starts_and_is_larger(name):
    study = _study(name)
    quick, paper = study.presets["quick"], study.presets["paper"]
    assert type(quick) is type(paper)
    sizes = [getattr(preset, "members", None) or preset.draws for preset in (quick, paper)]
    assert sizes[1] > sizes[0]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("mlp-to-gcnn", {"group": "C3"}, "group was C3"),
        ("mlp-to-gcnn", {"draws": "1"}, "draws was 1"),
        ("cross-product", {"groups": "T,X"}, "groups was"),
        ("cross-product", {"groups": "T", "trained_groups": "O"}, "trained_groups was"),
        ("continuous", {"angles": "100"}, "angles was 100"),
        ("continuous", {"samples": "14"}, "samples was 14"),
        ("sampling", {"budgets": "1,3"}, "budgets was"),
        ("finite-width", {"sizes": "1,3,64"}, "sizes was"),
        ("finite-width", {"members": "10"}, "members was 10"),
    ],
)
def test_bad_settings_are_named(name, settings, message, tmp_path):
    with pytest.raises(InvalidArgumentError, match=message):
        studies.run(name, out=tmp_path / "run", settings=settings, progress=False)


def _study(name):
    import importlib

    return importlib.import_module(studies.registry[name].module).STUDY
