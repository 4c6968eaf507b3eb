"""`equitangents audit` as a user meets it: output, files, exit statuses, and what it refuses to load."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import equitangents as et
from audit.potentials import clusters

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


def scores(x):
    return x.reshape(len(x), -1) @ np.random.default_rng(1).normal(size=(16, 3))


def named(x):
    return {"sum": 5 + x.sum((1, 2)), "scores": scores(x)}


def corners(x):
    return np.stack([x[:, 0, 0, 0], x[:, 0, -1, 0], x[:, -1, -1, 0], x[:, -1, 0, 0]], 1)
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
    assert (written["settings"]["inputs"], written["reason"]) == (12, "above noise floor")
    assert written["relative"]["task"] == "root mean square error"
    assert Path("a.md").read_text(encoding="utf-8").startswith("## ")
    assert "</html>" in Path("new/deep/a.html").read_text(encoding="utf-8"), "folders are made"


def test_the_exit_status_follows_the_larger_error_unless_told(folder: Path, run: Callable) -> None:
    options = ["audited_models:lifted", "--data=images.npy", "--group=C4", "--on-data-only", "--fail-above=0.05"]
    status, out, err = run(*options)
    assert status == 3
    assert err.rstrip().endswith("of the spread")
    assert "of ‖f(x)‖" in out
    assert (run(*options, "--relative-to", "norm")[0], run(*options, "--output-scale", "1000")[0]) == (0, 0)
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
    options = ["audited_models:rounding", "--data=images.npy", "--group=C4", "--on-data-only", "--fail-above=0.05"]
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


class Surprise:
    """What a malicious pickle does when it is loaded."""

    def __reduce__(self):
        return (Path.touch, (Path("was_run"),))


def test_pickles_are_loaded_only_if_they_are_trusted(folder: Path, run: Callable) -> None:
    Path("model.pkl").write_bytes(pickle.dumps(Surprise()))
    np.save("surprise.npy", np.array([Surprise()], dtype=object), allow_pickle=True)
    pooled = "audited_models:pooled"
    for model, data in (("model.pkl", "images.npy"), (pooled, "surprise.npy"), (pooled, "objects.npz")):
        status, _, err = run(model, "--data", data, "--group", "C4")
        assert (status, "pickle" in err) == (2, True)
        assert ("--trust" in err) == (model == "model.pkl")
        assert "runs whatever code" in err
    assert not Path("was_run").exists()
    run("model.pkl", "--data", "images.npy", "--group", "C4", "--trust")
    assert Path("was_run").exists(), "the probe itself must do what it is refused for"


X = np.random.default_rng(0).normal(size=(40, 4, 4, 1))


@pytest.fixture
def audited(folder: Path, run: Callable) -> Callable:
    np.save("x.npy", X)
    options = ("--data", "x.npy", "--group", "C4", "--on-data-only")
    return lambda model, *more: run(f"audited_models:{model}", *options, *more)


@pytest.mark.parametrize(
    ("model", "options", "status", "message"),
    [
        ("named", "--fail-above sum=1e-6,scores=5", 0, ""),
        ("named", "--fail-above sum=1e-6,scores=0.1", 3, "not met: output scores ≤ 10 %: "),
        ("named", "--fail-above invariant=0.1", 3, ""), ("named", "--fail-above energy=1", 2, "is 'energy'; expected"),
        ("corners", "--outputs labels:3,0,1,2 --fail-above f(x)=1e-6", 0, ""),
        ("scores", "--min-agreement 0.9", 3, "not met: agreement ≥ 90 %: "), ("scores", "--min-agreement 0.01", 0, ""),
        ("pooled", "--min-agreement 0.9", 2, ""), ("scores", "--min-agreement 90", 2, ""),
    ],
)  # fmt: skip
def test_outputs_and_predictions_have_limits(audited, model, options, status, message) -> None:
    found, out, err = audited(model, *options.split())
    assert (found, message in err) == (status, True)
    assert status != 0 or "met: " in out


def test_junit_has_a_case_an_output_and_one_a_demand(audited: Callable) -> None:
    assert audited("named", "--fail-above", "0.1", "--junit", "found.xml")[0] == 3
    suite = ElementTree.parse("found.xml").getroot()
    assert [case.get("name") for case in suite][:2] == ["scores (invariant)", "sum (invariant)"]
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(suite)), str(len(failed)))
    assert failed[0] == "scores (invariant)"
    assert "sum (invariant)" not in failed
    assert "90°" in suite[0][0].get("message")


ATOMS = """
import numpy as np
from audit.potentials import Cluster
def good():
    return Cluster()
def tilted(share=0.02):
    return Cluster(forces=lambda F: F * [1 + share, 1, 1])
"""


def test_potentials_have_the_same_demands(folder: Path, command: Callable) -> None:
    from ase.io import write

    (folder / "audited_potentials.py").write_text(ATOMS)
    write("s.xyz", clusters(2))
    same = ("--elements", "6", "--tests", "rotation,permutation")

    def atoms(name: str, *options: str) -> tuple[int, str]:
        return command("audit-potential", "s.xyz", "--calculator", f"audited_potentials:{name}", *same, *options)[::2]

    status, err = atoms("tilted", "--fail-above", "1e-6", "--junit", "tilted.xml")
    assert (status, "not met: rotation, forces ≤ 1e-06: " in err) == (3, True)
    suite = ElementTree.parse("tilted.xml").getroot()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["rotation, forces", "rotation, forces ≤ 1e-06"]
    status, err = atoms("good", "--fail-above", "force=0.1")
    assert (status, "is 'force'; expected" in err) == (2, True)
    assert atoms("good", "--fail-above", "forces=0.1,permutation=0.2")[0] == 0


ACTION = Path(__file__).parents[2] / ".github" / "actions" / "audit"


def test_the_composite_action_runs_the_command_and_keeps_its_status(folder: Path) -> None:
    said = (ACTION / "action.yml").read_text(encoding="utf-8")
    script = (ACTION / "audit.sh").read_text(encoding="utf-8")
    names = re.findall(r"^        ([A-Z_]+): \$\{\{ inputs\.", said, re.MULTILINE)
    assert {name for name in names if name != "PACKAGE"} == {*re.findall(r"\$\{?([A-Z_]+)", script)} - {
        "GITHUB_STEP_SUMMARY"
    }
    command = folder / "bin" / "equitangents"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > told\necho summary > report/summary.md\nexit 3\n')
    command.chmod(0o755)
    given = {"MODEL": "m.onnx", "DATA": "a file.npz", "GROUP": "C4", "FAIL_ABOVE": "0.05", "EFFORT": "quick",
             "ARGUMENTS": "--seed 3", "REPORT": "report", "GITHUB_STEP_SUMMARY": "summary"}  # fmt: skip
    environment = {**dict.fromkeys(names, ""), **given, "PATH": f"{command.parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", ACTION / "audit.sh"], env=environment, check=False)
    assert done.returncode == 3
    told = Path("told").read_text().splitlines()
    assert told[:2] == ["audit", "m.onnx"]
    pairs = ["--data\na file.npz", "--fail-above\n0.05", "--effort\nquick", "--seed\n3", "--json\nreport/audit.json"]
    assert [pair for pair in pairs if pair not in "\n".join(told)] == []
    assert "--min-agreement" not in told
    assert Path("summary").read_text() == "summary\n"
