"""Settings that make no study are refused by name before anything runs; presets of a paper are larger."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from equitangents import studies
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents_studies.data import DataNotFoundError
from equitangents_studies.framework.settings import as_text, changed
from studies.miniatures import EXACT, TINY, study

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("toy", {"rotations": "1"}, "rotations was 1"),
        ("ising", {"groups": "1,500"}, "groups"),
        ("ising", {"widths": "64"}, "two different widths"),
        ("rotated-images", {"recorded_epochs": "0,99"}, "recorded_epochs"),
        ("rotated-images", {"foreign": "noise,noise"}, "foreign"),
        ("predicted-agreement", {"widths": "8"}, "widths was"),
        ("predicted-agreement", {"members": "4"}, "members was 4"),
        ("toy", {"size": "3"}, "setting is 'size'; expected 'rotations', 'members'"),
        ("mlp-to-gcnn", {"group": "C3"}, "group was 'C3'"),
        ("mlp-to-gcnn", {"draws": "1"}, "draws was 1"),
        ("mlp-to-gcnn", {"depths": "0,1"}, "depths was"),
        ("cross-product", {"groups": "T,X"}, "groups was"),
        ("cross-product", {"groups": "T", "trained_groups": "O"}, "trained_groups was"),
        ("continuous", {"angles": "100"}, "angles was 100"),
        ("continuous", {"samples": "14"}, "samples was 14"),
        ("sampling", {"budgets": "1,3"}, "budgets was"),
        ("finite-width", {"sizes": "1,3,64"}, "sizes was"),
        ("finite-width", {"members": "10"}, "members was 10"),
        ("finite-width", {"cnn_members": "10"}, "cnn_members was 10"),
        ("finite-width", {"channels": "4,8"}, "channels was"),
        ("finite-width", {"tasks": "ising,ising"}, "tasks was"),
        ("finite-width", {"tasks": "ising,mine.npz"}, "tasks was"),
        ("molecules", {"sizes": "5,20"}, "sizes was"),
        ("molecules", {"sizes": "20,12"}, "sizes was"),
        ("molecules", {"splits": "2"}, "splits was 2"),
        ("molecules", {"data": "qm8"}, "data was 'qm8'"),
        ("molecules", {"tuning": "1000"}, "tuning was 1000"),
        ("forces", {"molecule": "water"}, "molecule was 'water'"),
        ("forces", {"sizes": "4"}, "sizes was"),
        ("kernel-convergence", {"widths": "4,8"}, "widths was"),
        ("kernel-convergence", {"sampled": "1"}, "sampled was 1"),
    ],
)
def test_bad_settings_are_named(name, settings, message, tmp_path):
    with pytest.raises(InvalidArgumentError, match=message):
        studies.run(name, out=tmp_path / "run", settings=settings, progress=False)


@pytest.mark.parametrize("name", [*EXACT])
def test_paper_preset_starts_and_is_larger(name):
    quick, paper = (study(name).presets[preset] for preset in ("quick", "paper"))
    assert type(quick) is type(paper)
    counts = ("members", "draws", "images", "train_images", "per_class", "repetitions", "pool")
    pairs = [(getattr(quick, name), getattr(paper, name)) for name in counts if hasattr(quick, name)]
    assert any(large is None or (small is not None and large >= 2 * small) for small, large in pairs)  # None: all


def test_set_without_its_file_says_how_to_give_it(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"qm9\.npz is needed"):
        studies.run("molecules", out=tmp_path / "run", settings={**TINY["molecules"], "data": "qm9"}, progress=False)


RUNS = [path for path in (ROOT / "docs" / "results").glob("*/run.json") if path.parent.name in studies.registry]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
def test_a_preset_keeps_the_settings_of_its_published_run_so_that_the_run_can_be_resumed(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert as_text(study(record["study"]).presets[record["preset"]]) == record["settings"]


def test_settings_that_are_no_text_are_answered_with_the_text_that_they_should_be():
    preset = study("comparison").presets["quick"]
    for value, text in ((3, "3"), ((8, 16), "8,16"), (None, "none")):
        with pytest.raises(InvalidTypeError, match=f"expected text, as after --set; {text}"):
            changed(preset, {"channels": value})


def test_the_text_of_no_list_is_read_as_no_list():
    preset = study("comparison").presets["desk-c8"]
    assert preset.shrink == ()
    assert changed(preset, {"shrink": as_text(preset)["shrink"]}) == preset


def test_a_wrong_name_is_told_before_anything_heavy_is_imported() -> None:
    program = (
        "import sys\nfrom equitangents.cli.main import main\n"
        "try:\n    main(['reproduce', 'toi'])\nexcept SystemExit as stop:\n    assert stop.code == 2\n"
        "assert not {'jax', 'numpy', 'scipy'} & set(sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert "did you mean 'toy'?" in told
