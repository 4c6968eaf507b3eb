"""`equitangents plan`: data in a file, an answer on the screen, and what bad input gets."""

from __future__ import annotations

import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from equitangents import InfiniteEnsemble, actions, nn, plan_ensemble
from equitangents.actions import as_action
from equitangents.planning.question import read_data


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


@pytest.fixture
def run(command):
    return partial(command, "plan")


def test_the_answer_is_that_of_plan_ensemble(run, images, tmp_path):
    written = tmp_path / "out" / "plan.json"
    files = ["--json", written]
    options = [
        "--depth",
        1,
        "--b-std",
        0.5,
        "--time",
        30,
        "--learning-rate",
        1,
        "--target",
        0.05,
        "--draws",
        200,
        "--pilot",
        0,
    ]
    status, out, err = run("--data", images, "--group", "C4", *options, *files)
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
def test_labels_make_a_classifier_and_augmentation_can_be_left_out(run, vectors):
    arguments = [
        "--data",
        vectors,
        "--group",
        "S3",
        "--epochs",
        50,
        "--measure",
        "osp",
        "--target",
        0.2,
        "--draws",
        100,
        "--width",
        8,
        "--pilot",
        5,
    ]
    status, out, _ = run(*arguments)
    assert (status, "share of transformed inputs that get another class" in out) == (0, True)
    status, out, _ = run(*arguments, "--no-augment", "--target", 0.001)
    assert (status, "1 copies" in out) == (0, True)


@pytest.mark.slow
def test_a_network_and_data_are_planned_for_by_a_pilot(run, images, tmp_path):
    written = tmp_path / "plan.json"
    options = ["--depth", 1, "--width", 8, "--pilot", 5, "--epochs", 20, "--target", 0.2, "--draws", 100]
    status, out, err = run("--data", images, "--group", "C4", *options, "--json", written)
    assert (status, err) == (0, "")
    assert out.startswith("training a pilot of 5 networks")
    plan = json.loads(written.read_text())
    assert plan["pilot"]["members"] == 5
    assert plan["pilot"]["training"]["seconds"] > 0
    assert plan["pilot"]["training"]["epochs"] == 20
    assert plan["group"] == "C4"


@pytest.mark.slow
def test_errors_are_measured_at_the_test_targets(run, images):
    arguments = ["--data", images, "--group", "D4", "--net", "cnn", "--measure", "error", "--target", 0.1]
    status, out, _ = run(*arguments, "--epochs", 5, "--depth", 1, "--draws", 50, "--width", 4, "--pilot", 4)
    assert (status, "excess of the error" in out) == (0, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data", "nowhere.npz"], "nowhere.npz"),
        (["--data", "text.npz"], "cannot be read"),
        (["--data", "half.npz"], "expected arrays x and y"),
        (["--group", "Q8"], "'Q8'"),
        (["--group", "S9"], "S9"),
        (["--target", "0"], "target"),
        (["--json", "/dev/null/plan.json"], "a file that can be written"),
        (["--time", "-1"], "time"),
        (["--time", "inf"], "--pilot 0"),
        (["--ridge", "0.1"], "--pilot 0"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run, images, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    Path("text.npz").write_text("no archive")
    np.savez("half.npz", x=np.zeros((3, 2)))
    status, out, err = run("--data", images, "--group", "C4", *options)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


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


def test_planned_inputs_are_the_first_of_the_test_or_training_inputs(images, vectors):
    assert read_data(images, 3).inputs.shape == (3, 3, 3, 1)
    assert read_data(images, 100).targets.shape == (4,)
    assert read_data(vectors, 5).targets.tolist() == list("abcab")
