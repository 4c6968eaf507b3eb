"""`equitangents audit` as a user meets it: output, files, exit statuses, and what it refuses to load."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import equitangents as et

MODULE = """
import numpy as np

weights = np.arange(16.0)


def pooled(x):
    return np.asarray(x).sum((1, 2)) ** 2


def weighted(x):
    return np.asarray(x).reshape(len(x), -1) @ weights


def lifted(x):
    return 1000 + np.asarray(x).reshape(len(x), -1) @ weights


def both(x):
    return {"moving": weighted(x), "still": 0.0 * x[:, 0, 0]}


def rounding(x):
    flat = x.reshape(len(x), -1)  # two sums in different orders
    return np.cumsum(flat, axis=1)[:, -1] - flat.sum(axis=1)


def centre(inputs):
    return (inputs["p"] * inputs["m"][..., None]).sum(1)


class Holder:
    inner = pooled
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("audited_models.py").write_text(MODULE)
    rng = np.random.default_rng(0)
    np.savez("images.npz", x=rng.normal(size=(20, 4, 4, 1)), y=rng.normal(size=20))
    np.save("images.npy", rng.normal(size=(20, 4, 4, 1)))
    np.savez("clouds.npz", p=rng.normal(size=(20, 5, 3)), m=np.ones((20, 5)))
    np.savez("objects.npz", x=np.array([{}, {}], dtype=object))
    return tmp_path


@pytest.fixture
def run(command):
    return partial(command, "audit")


def test_files_are_written(folder: Path, run: Callable) -> None:
    files = ["--html", "new/deep/a.html", "--json", "a.json", "--markdown", "a.md"]
    options = ["--data", "images.npz", "--group", "C4", *files]
    status, out, err = run("audited_models:weighted", *options, "--limit", "12")
    assert (status, err) == (0, "")
    assert out.startswith("broken (above noise floor): ")
    written = json.loads(Path("a.json").read_text(encoding="utf-8"))
    assert written["settings"]["inputs"] == 12
    assert written["reason"] == "above noise floor"
    assert written["relative"]["task"] == "root mean square error"
    assert Path("a.md").read_text(encoding="utf-8").startswith("## ")
    assert "</html>" in Path("new/deep/a.html").read_text(encoding="utf-8"), "folders are made"


def test_the_exit_status_follows_the_larger_error_unless_told(folder: Path, run: Callable) -> None:
    options = [
        "audited_models:lifted",
        "--data",
        "images.npy",
        "--group",
        "C4",
        "--on-data-only",
        "--fail-above",
        "0.05",
    ]
    status, out, err = run(*options)
    assert status == 3
    assert err.rstrip().endswith("of the spread")
    assert "of ‖f(x)‖" in out
    assert run(*options, "--relative-to", "norm")[0] == 0
    assert run(*options, "--relative-to", "mean")[0] == 2
    assert run(*options, "--output-scale", "1000")[0] == 0
    status, out, _ = run(*options, "--relative-to", "norm", "--tolerance", "0.04")
    assert status == 0
    assert out.startswith("undecided (interval): ")


def test_scales_by_name(folder: Path, run: Callable) -> None:
    options = ["audited_models:both", "--data", "images.npy", "--group", "C4", "--on-data-only"]
    status, out, _ = run(*options, "--output-scale", "still=0.1")
    assert status == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert any(line.startswith("vanishes still ") for line in lines)
    assert "fails under moving 90°, 180°, 270° 3 of 3 elements" in lines
    for scale, said in (("moving", "a number"), ("none=1", "names ['none']"), ("still=0", "above 0")):
        status, _, err = run(*options, "--output-scale", scale)
        assert status == 2
        assert said in err


def test_python_and_the_command_line_fill_the_same_audit(folder: Path, run: Callable) -> None:
    options = ["--data", "images.npz", "--group", "C4", "--elements", "2", "--tolerance", "5%", "--seed", "3"]
    status, out, _ = run("audited_models:weighted", *options, "--json", "told.json")
    assert status == 0
    from audited_models import weighted

    x, y = (np.load("images.npz")[name] for name in "xy")
    report = et.audit(weighted, "C4", x, y=y, elements=2, tolerance=0.05, seed=3)
    told, known = json.loads(Path("told.json").read_text()), json.loads(json.dumps(report.to_dict()))
    assert (told.pop("timing")["evaluations"], told) == (known.pop("timing")["evaluations"], known)
    assert out.startswith(report.first_line)


def test_a_threshold_of_outputs_that_vanish_asks_for_a_scale(folder: Path, run: Callable) -> None:
    options = [
        "audited_models:rounding",
        "--data",
        "images.npy",
        "--group",
        "C4",
        "--on-data-only",
        "--fail-above",
        "0.05",
    ]
    status, out, err = run(*options)
    assert status == 3  # nothing was shown
    assert out.startswith("undecided (vanishing): ")
    assert err.startswith("undecided: error ≤ 5 %: all outputs vanish")
    assert "output_scale" in err
    status, out, err = run(*options, "--output-scale", "1")
    assert (status, err) == (0, "")
    assert out.startswith("equivariant: ")


def test_several_inputs_by_name(folder: Path, run: Callable) -> None:
    options = ["--data", "clouds.npz", "--group", "SO3", "--inputs", "vectors,none", "--outputs", "vectors"]
    status, out, _ = run("audited_models:centre", *options, "--elements", "5")
    assert status == 0
    assert out.startswith("equivariant: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audited_models:none", "--data", "images.npy", "--group", "C4"], "has no 'none'"),
        (["audited_models", "--data", "images.npy", "--group", "C4"], "package.module:object"),
        (["audited_models:weights", "--data", "images.npy", "--group", "C4"], "f is of type ndarray"),
        (["audited_models:pooled", "--data", "images.npy", "--group", "C4", "--fail-above", "-1"], "at least 0"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder: Path, run: Callable, arguments: list[str], said: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("equitangents: ")
    assert err.count("\n") == 1
    assert said in err


class Surprise:
    """What a malicious pickle does when it is loaded."""

    def __reduce__(self):
        return (Path.touch, (Path("was_run"),))


def test_pickles_are_loaded_only_if_they_are_trusted(folder: Path, run: Callable) -> None:
    Path("model.pkl").write_bytes(pickle.dumps(Surprise()))
    np.save("surprise.npy", np.array([Surprise()], dtype=object), allow_pickle=True)
    for arguments in (
        ["model.pkl", "--data", "images.npy"],
        ["audited_models:pooled", "--data", "surprise.npy"],
        ["audited_models:pooled", "--data", "objects.npz"],
    ):
        status, _, err = run(*arguments, "--group", "C4")
        assert status == 2
        assert "pickle" in err
        assert "--trust" in err
        assert "runs whatever code" in err
    assert not Path("was_run").exists()
    run("model.pkl", "--data", "images.npy", "--group", "C4", "--trust")
    assert Path("was_run").exists(), "the probe itself must do what it is refused for"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1.0,2.0\n3.0,4.0\n", "is text, which is neither .npy nor .npz"),
        (b"", "is empty"),
        (b"\x00\x01\x02\x03", "neither .npy nor .npz"),
        (b"PK\x03\x04 no archive", "which NumPy cannot read"),
    ],
)
def test_data_that_are_no_arrays_are_called_what_they_are(
    folder: Path, run: Callable, content: bytes, said: str
) -> None:
    Path("data.npz").write_bytes(content)
    status, out, err = run("audited_models:pooled", "--data", "data.npz", "--group", "C4")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("equitangents: --data is 'data.npz'")
    assert said in err
    assert "allow_pickle" not in err
