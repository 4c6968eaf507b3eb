"""Settings that make no study are refused by name before anything runs; presets of a paper are larger."""

import pytest

from equitangents import studies
from equitangents.data import DataNotFoundError
from equitangents.errors import InvalidArgumentError
from studies.miniatures import EXACT, TINY, study


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("toy", {"rotations": "1"}, "rotations was 1"),
        ("ising", {"groups": "1,500"}, "groups"),
        ("ising", {"widths": "64"}, "two different widths"),
        ("rotated-images", {"recorded_epochs": "0,99"}, "recorded_epochs"),
        ("rotated-images", {"foreign": "noise,noise"}, "foreign"),
        ("toy", {"size": "3"}, "the settings are rotations, members"),
        ("mlp-to-gcnn", {"group": "C3"}, "group was C3"),
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
        ("forces", {"molecule": "water"}, "molecule was water"),
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
    sizes = [getattr(preset, "members", None) or preset.draws for preset in (quick, paper)]
    assert sizes[1] > sizes[0]


def test_set_without_its_file_says_how_to_give_it(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"qm9\.npz is needed"):
        studies.run("molecules", out=tmp_path / "run", settings={**TINY["molecules"], "data": "qm9"}, progress=False)
