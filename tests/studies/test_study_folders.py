"""What every study writes, in miniature; resuming a finished run changes nothing; the study of the guide runs."""

import csv
import json
import re
from pathlib import Path

import pytest
from tools.results.markers import filled, finder, plain
from tools.results.publish import publish

from equitangents import studies
from equitangents_studies.framework.study import as_dict, changed
from pages import outside_resources
from studies.miniatures import EXACT, TINY, run, study

# The dearest, which compile for 7 seconds to a minute and a half; the claims of all are tested on made-up numbers, the
# laws of `forces` in tests/molecules, too, and `comparison` runs with one's own model in test_comparison.py
SLOW = (
    "augmented-cnn-to-gcnn", "comparison", "continuous", "cross-product",
    "finite-width", "finite-width-vec", "forces", "gaussian-vs-uniform", "histology",
    "imagenet-scale", "ising", "kernel-convergence", "learning-curves", "mlp-to-gcnn",
    "moving-outputs", "other-ensembles", "predicted-agreement", "rotated-images", "sampling",
    "spurious-symmetries", "symmetry-breaking-path", "symmetry-groups", "toy",
)  # fmt: skip
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in TINY]


@pytest.fixture(scope="module", params=NAMES)
def finished(request, finished_miniature):
    return finished_miniature(request.param)


def figures(finished):
    shown = json.loads((finished.folder / "report.json").read_text())["shown"]
    return {item["name"] for item in shown if item["kind"] == "figure"}


POINT = ["panel", "series", "x", "y", "low", "high"]


@pytest.mark.slow
def test_files(finished):
    folder = finished.folder
    files = {"config.json", "claims.json", "report.json", "report.html", "results", "figures"}
    assert {p.name for p in folder.iterdir()} >= files
    stems = figures(finished)
    assert stems
    assert {p.name for p in (folder / "figures").iterdir()} == {f"{s}.{e}" for s in stems for e in ("svg", "png")}
    assert any((folder / "results").glob("*.csv"))
    assert not (folder / "checkpoints").exists() or not any((folder / "checkpoints").iterdir())


def test_files_repeat_the_run_its_claims_and_its_numbers(finished):
    config = json.loads((finished.folder / "config.json").read_text())
    assert (config["study"], config["preset"]) == (finished.name, "quick")
    asked = changed(study(finished.name).presets["quick"], TINY[finished.name])
    assert config["settings"] == json.loads(json.dumps(as_dict(asked)))
    stored = json.loads((finished.folder / "claims.json").read_text())
    assert [c["outcome"] for c in stored] == [c.outcome for c in finished.claims]
    assert {c["outcome"] for c in stored} <= {"holds", "fails", "undecided"}
    for path in (finished.folder / "results").iterdir():
        with path.open(newline="") as file:
            head, *rows = csv.reader(file)
        assert head == (["claim", "of", "number", "low", "high", "unit"] if path.stem == "claims" else POINT)
        assert {len(row) for row in rows} == {6}, "there are some"


def test_report_stands_alone_and_says_what_was_found(finished):
    html = finished.report.read_text()
    assert outside_resources(html) == []
    text = html.replace("&#39;", "'")
    for claim in finished.claims:
        assert claim.statement in text
        assert claim.number_cell in text
    for stem in figures(finished):
        assert f'id="{stem}-' in html
    assert f"equitangents reproduce {finished.name}" in html
    assert re.search(r"@\w+\{", html)


def test_the_run_can_be_published_with_every_claim_and_its_figure(finished, tmp_path):
    record = publish(finished.folder, tmp_path)
    text = filled("".join(f"<!-- {kind} --><!-- -->" for kind in ("source", "ours", "check")), {"": finder(record)})
    for claim in finished.claims:
        assert plain(claim.statement) in text
        assert plain(claim.interval_cell) in text
    assert {figure["name"] for figure in record.figures} == figures(finished)
    assert all(figure["alt"] and figure["caption"] for figure in record.figures)
    drawn = {f"{record.figures[0]['name']}.svg", "run.json"}
    assert {path.name for path in (tmp_path / finished.name).iterdir()} == drawn


def test_what_holds_exactly_holds_at_any_size(finished):
    for i in EXACT.get(finished.name, ()):
        claim = finished.claims[i]
        assert claim.outcome == "holds", claim
        assert claim.interval[0] == claim.interval[1]
    # numbering of atoms changes nothing, and forces have no curl
    certain = {"molecules": finished.claims[-1:], "forces": finished.claims[3:5]}.get(finished.name, ())
    assert all(claim.outcome == "holds" for claim in certain)


@pytest.mark.slow
def test_resuming_a_finished_run_changes_nothing(finished):
    before = {p: p.read_bytes() for p in finished.folder.rglob("*") if p.suffix in (".csv", ".svg", ".npz")}
    again = run(finished.name, finished.folder, resume=True)
    assert repr(again.claims) == repr(finished.claims)  # a number that is not a number does not equal itself
    assert before == {p: p.read_bytes() for p in before}


PAGE = Path(__file__).parents[2] / "docs" / "guide" / "add-a-study.md"


@pytest.mark.slow
def test_the_study_of_the_page_is_whole_and_small(tmp_path, monkeypatch, capsys):
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(source.splitlines()) <= 120
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(source, str(PAGE), "exec"), {"__name__": "a_study_of_the_documentation"})
        said = capsys.readouterr().out
        assert [line.split()[0] for line in said.splitlines()] == ["holds", "holds"]
        folder = tmp_path / "runs" / "variance-quick"
        again = studies.run("variance", settings={"networks": "60"}, progress=False, resume=True)
    finally:
        studies.registry.pop("variance", None)
    assert [claim.outcome for claim in again.claims] == ["holds", "holds"]
    assert (folder / "results" / "variance.csv").read_text().startswith("panel,series,x,y,low,high\n1,measured,4.0,")
    html = (folder / "report.html").read_text()
    assert "at every width" in html
    assert outside_resources(html) == []
