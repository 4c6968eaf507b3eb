"""`equitangents fit --net auto`: tables of the choice, what leaves together, and options that it does not take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import equitangents as et
from cli.small_images import write_tiles
from equitangents.errors import InvalidArgumentError

RNG = np.random.default_rng(0)


@pytest.fixture
def tiles(tmp_path, monkeypatch):
    """Bright and dark grey tiles of 4×4, four slides each of three, in folders, and by a table without."""
    monkeypatch.chdir(tmp_path)
    write_tiles(24, lambda i: f"{i % 8}/", slide=lambda i: i % 8)
    return tmp_path


@pytest.mark.slow
def test_a_folder_is_chosen_for_and_predicted(run, tiles, monkeypatch):
    for name, value in {"_TREES": 10, "_NEIGHBOURS": (1, 3), "_C": (10.0,), "_GAMMA": (1.0,)}.items():
        monkeypatch.setattr(f"equitangents.fit.baselines.{name}", value)
    status, out, err = run("fit", "--data", "tiles", "--group", "C4", "--minutes", 600, "--out", "model")
    assert status == 0, err
    assert len(err.splitlines()) == len(set(err.splitlines()))  # each message once
    lines = out.splitlines()
    labels = "Accuracy on left-out samples (95 %)", "Best baseline (95 %)", "Baselines shown to be better"
    assert [line.startswith(label) for line, label in zip(lines, labels, strict=False)] == [True] * 3
    at = lines.index("5 folds, left out: 8 sets of samples; differences in percentage points")
    assert [line.split()[0] for line in lines[at + 3 : at + 8]] == [
        "chosen", "majority", "neighbours", "forest", "SVM",
    ]  # fmt: skip
    assert sum(line.startswith("*") for line in lines) == 1
    assert max(map(len, lines)) <= 80
    assert Path("model/report.html").is_file()
    assert "Near-duplicates" not in out
    Path("tiles/dark/0/twin.png").write_bytes(Path("tiles/dark/2/02.png").read_bytes())
    fit = "fit", "--data", "tiles", "--minutes", 0.001, "--no-baselines", "--no-report", "--out", "other"
    lines = run(*fit)[1].splitlines()
    assert lines[-3:-1] == ["Near-duplicates (see --keep-together)", "dark/0/twin.png  dark/2/02.png"]
    model = et.InfiniteEnsembleClassifier.load("model")
    assert model.temperature_ is not None
    assert run("predict", "model", "--data", "flat", "--out", "p.csv")[0] == 0


@pytest.mark.slow
def test_a_column_or_an_array_says_what_leaves_together(run, tiles):
    by_table = et.data.load_labelled_images("flat", "labels.csv", together="Slide")
    by_folder = et.data.load_labelled_images("tiles")
    groups = lambda images: {frozenset(np.flatnonzero(images.together == value)) for value in images.together}
    assert {len(each) for each in groups(by_table)} == {len(each) for each in groups(by_folder)} == {3}
    assert et.data.load_labelled_images("flat", "labels.csv").together is None
    with pytest.raises(InvalidArgumentError, match=r"expected \(file, label, patient\)"):
        et.data.load_labelled_images("flat", "labels.csv", together="patient")
    with pytest.raises(InvalidArgumentError, match="together is 'slide'; expected one folder a source"):
        et.data.load_labelled_images("tiles", together="slide")
    status, _, err = run("fit", "--data", "flat", "--targets", "labels.csv", "--keep-together", "label", "--out", "m")
    assert (status, "--keep-together has sets, 2; expected three or more" in err) == (2, True)
    y = np.arange(24) % 2
    np.savez("arrays.npz", x=RNG.normal(size=(24, 2)) + y[:, None], y=y, patient=np.arange(24) // 2 % 6 * 2 + y)
    arrays = "fit", "--data", "arrays.npz", "--net", "auto", "--no-baselines", "--minutes", 600, "--out", "model"
    status, out, _ = run(*arrays, "--keep-together", "patient")
    assert (status, "left out: 12 sets of samples" in out) == (0, True)
    status, _, err = run(*arrays, "--keep-together", "clinic")
    assert (status, "expected clinic; it holds" in err) == (2, True)


@pytest.mark.slow
def test_what_auto_does_not_take(run, tiles):
    np.savez("numbers.npz", x=RNG.normal(size=(12, 2)), y=RNG.normal(size=12))
    folder, numbers = ("fit", "--data", "tiles", "--out", "model"), ("fit", "--data", "numbers.npz", "--out", "numbers")
    alone = "--ridge was given as 0.1; expected none with --net auto; leave it out, or name a network by --net\n"
    for words, said in (
        ((*folder, "--net", "auto", "--ridge", "0.1"), alone),
        ((*folder, "--net", "auto", "--group", "S5"), "is 'S5'"),
        ((*numbers, "--keep-together", "x"), "--keep-together was given as 'x'; expected none without --net auto"),
        ((*numbers, "--net", "mlp", "--minutes", 1), "--minutes was given as 1.0"),
    ):
        status, _, err = run(*words)
        assert (status, said in err) == (2, True), err
    status, out, err = run(*numbers)
    assert status == 0
    assert out.startswith("Leave-one-out mean squared error")
    assert "network: mlp" not in err
    status, out, err = run(*folder, "--ridge", "0.1")
    assert (status, "network: mlp (auto takes no ridge)" in err) == (0, True)
