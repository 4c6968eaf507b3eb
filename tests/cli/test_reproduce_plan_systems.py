"""`equitangents reproduce`, `plan` and `systems`: what reaches Python, and what is shown of the answer."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from equitangents import InfiniteEnsemble, actions, nn, plan_ensemble
from equitangents.actions import as_action
from equitangents.cli.main import main
from equitangents_studies import StudyResult
from equitangents_studies.claim import Claim
from equitangents_studies.framework.catalogue import PLACES
from equitangents_studies.systems import compare_architectures, textures


@pytest.fixture
def calls(monkeypatch) -> list[tuple[tuple, dict]]:
    """The calls of `studies.run`, which here returns one claim that holds and one that fails."""
    made: list[tuple[tuple, dict]] = []
    of = {"kind": "source", "source": "here", "place": "there", "measure": "a number", "bound": (3, math.inf)}

    def run(*arguments, **options) -> StudyResult:
        made.append((arguments, options))
        stated = (("the mean agrees", 3.75), ("members do not", 2.25))
        claims = tuple(Claim(statement=s, number=v, interval=(v - 0.05, v + 0.05), **of) for s, v in stated)
        return StudyResult("toy", "quick", Path("runs"), Path("runs/report.html"), claims, 1.0)

    monkeypatch.setattr("equitangents_studies.run", run)
    return made


def reproduce(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *arguments])
    return int(stop.value.code or 0)


def test_claims_verdicts_and_report_are_shown(capsys, calls) -> None:
    assert reproduce("toy") == 0, "a claim that fails is a result, not an error"
    output = capsys.readouterr()
    assert output.err == ""
    for said in ("the mean agrees", "members do not", "holds", "fails", "3.75", "2.25", "runs/report.html"):
        assert said in output.out


DEFAULTS = {
    "preset": "quick", "out": None, "resume": False, "settings": {}, "data_dir": None, "progress": True, "force": False,
}  # fmt: skip


def test_options_reach_the_study(calls, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.npz").touch()
    reproduce("toy")
    more = ["--preset=paper", "--out=here", "--resume", "--set", "seed=1", "--set", "data=x=y", "--data-dir", "there"]
    reproduce("comparison", *more)
    reproduce("comparison", *["--data", "mine.npz", "--group", "D4", "--set", "seed=3", "--set", "shrink="])
    given = {"preset": "paper", "out": Path("here"), "resume": True, "data_dir": Path("there")}
    settings = {"seed": "3", "shrink": "", "data": "mine.npz", "group": "D4"}
    assert calls == [
        (("toy",), DEFAULTS),
        (("comparison",), {**DEFAULTS, **given, "settings": {"seed": "1", "data": "x=y"}}),
        (("comparison",), {**DEFAULTS, "settings": settings}),
    ]


@pytest.mark.parametrize("work", ["2403.03103", "arXiv:2406.06504", "arXiv 2207.04612"])
def test_a_work_is_shown_with_the_command_of_each_figure_and_nothing_runs(work, capsys, calls) -> None:
    assert reproduce(work) == 0
    shown = capsys.readouterr().out
    assert all(place.command.split()[0] in shown for place in PLACES[work[-10:]])
    assert calls == []


@pytest.fixture
def images(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3, 3, 1)), rng.normal(size=8) + 3
    np.savez(tmp_path / "images.npz", x=x, y=y, x_test=x[:4] + 0.1, y_test=y[:4])
    return tmp_path / "images.npz"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "vectors.npz", x=rng.normal(size=(12, 3)), y=np.array(list("abc" * 4)))
    return tmp_path / "vectors.npz"


def test_the_answer_is_that_of_plan_ensemble(command, images, tmp_path):
    written = tmp_path / "out" / "plan.json"
    options = ["--depth=1", "--b-std=0.5", "--time=30", "--learning-rate=1", "--target=0.05", "--draws=200"]
    status, out, err = command("plan", "--data", images, "--group", "C4", "--pilot=0", *options, "--json", written)
    assert (status, err) == (0, "")
    rot = actions.image_rotations(4)
    net = nn.Sequential(nn.Flatten(), nn.Dense(1, W_std=2**0.5, b_std=0.5), nn.Relu(), nn.Dense(1, W_std=2**0.5))
    with np.load(images) as held:
        data = dict(held)
    model = InfiniteEnsemble(net, augmentation=rot, time=30.0).fit(data["x"], data["y"])
    plan = plan_ensemble(model, rot, data["x_test"], 0.05, draws=200)
    assert str(plan) in out
    assert json.loads(written.read_text())["members"] == plan.members


@pytest.mark.slow
def test_labels_make_a_classifier_and_augmentation_can_be_left_out(command, vectors):
    options = ["--group=S3", "--epochs=50", "--measure=osp", "--target=0.2", "--draws=100", "--width=8", "--pilot=5"]
    status, out, _ = command("plan", "--data", vectors, *options)
    assert (status, "share of transformed inputs that get another class" in out) == (0, True)
    status, out, _ = command("plan", "--data", vectors, *options, "--no-augment", "--target", 0.001)
    assert (status, "1 copies" in out) == (0, True)


@pytest.mark.slow
def test_a_network_and_data_are_planned_for_by_a_pilot(command, images, tmp_path):
    written = tmp_path / "plan.json"
    options = ["--depth", 1, "--width", 8, "--pilot", 5, "--epochs", 20, "--target", 0.2, "--draws", 100]
    status, out, err = command("plan", "--data", images, "--group", "C4", *options, "--json", written)
    assert (status, err) == (0, "training a pilot of 5 networks for 20 epochs\n"), out
    plan = json.loads(written.read_text())
    assert plan["pilot"]["members"] == 5
    assert plan["pilot"]["seconds"] > 0
    assert (plan["pilot"]["epochs"], plan["group"]) == (20, "C4")


@pytest.mark.slow
def test_errors_are_measured_at_the_test_targets(command, images):
    arguments = ["--data", images, "--group", "D4", "--net", "cnn", "--measure", "error", "--target", 0.1]
    status, out, _ = command("plan", *arguments, "--epochs", 5, "--depth", 1, "--draws", 50, "--width", 4, "--pilot", 4)
    assert (status, "excess of the error" in out) == (0, True)


def test_actions_by_name():
    x = np.arange(3.0)[None] + 1
    shift, mix = as_action("group", "C3", x.shape), as_action("group", "S3", x.shape)
    shift.verify(x)
    mix.verify(x)
    assert shift(1, x).tolist() == [[3.0, 1.0, 2.0]]
    permuted = {tuple(mix(g, x)[0].tolist()) for g in range(6)}
    assert permuted == set(itertools.permutations((1.0, 2.0, 3.0)))
    image = np.arange(16.0).reshape(1, 4, 4, 1)
    assert as_action("group", "D4", image.shape) == actions.image_dihedral(4)
    assert not as_action("group", "C8", image.shape).exact


OPTIONS = ("--architectures", "FCN,GAP", "--groups", "O(3d)", "--depth", 1, "--repetitions", 5)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    drawn = textures(50, (3, 3, 2), classes=2, seed=2)
    np.savez(tmp_path / "mine.npz", x=drawn.x, y=drawn.labels)
    return tmp_path / "mine.npz"


@pytest.mark.slow
def test_the_answer_is_that_of_compare_architectures_and_the_file_has_its_numbers(command, data, tmp_path):
    numbers = tmp_path / "numbers.json"
    given = ("--data", data, "--inputs", 40)
    status, out, err = command("systems", *given, *OPTIONS, "--json", numbers)
    assert (status, err) == (0, "")
    x, y = np.load(data)["x"], np.load(data)["y"]
    options = {"architectures": ["FCN", "GAP"], "groups": ["O(3d)"], "depth": 1, "repetitions": 5}
    found = compare_architectures(x, y, inputs=40, **options)
    assert out == f"{found}\n"
    written = json.loads(numbers.read_text())
    assert written["best"] == list(found.best)
    assert (written["inputs"], written["available_inputs"]) == (40, 50)
