"""The workflow that the guide gives to copy, step by step from its YAML; only pip has a stand-in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch_networks import export_onnx
from workflow import Runner, StepError, main, read

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "audit.md"
PYTHON = """#!/bin/sh
[ "$1 $2 $3" = "-m pip install" ] && [ "$4" = "./equitangents[onnx]" ] && [ -f equitangents/pyproject.toml ]
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What the steps find first: a `python` that installs what is here already, and this environment's command."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in (
        ("python", PYTHON),
        ("equitangents", f'#!/bin/sh\nexec {sys.executable} -m equitangents "$@"\n'),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The model's repository, with inputs alone."""
    folder = tmp_path / "repository"
    folder.mkdir()
    np.savez(folder / "sample.npz", x=np.random.default_rng(0).normal(size=(12, 1, 6, 6)).astype(np.float32))
    return folder


def network(repository: Path, invariant: bool) -> None:
    """network.onnx: a mean over pixels, or scores of single pixels."""
    torch.manual_seed(0)
    first = nn.AdaptiveAvgPool2d(1) if invariant else nn.Identity()
    module = nn.Sequential(first, nn.Flatten(), nn.Linear(1 if invariant else 36, 3))
    export_onnx(module, (torch.zeros(4, 1, 6, 6),), repository / "network.onnx", True, ["image"])


@pytest.mark.parametrize("invariant", [True, False])
def test_every_step_of_the_guides_workflow(repository: Path, programs: Path, invariant: bool) -> None:
    network(repository, invariant)
    assert main([str(GUIDE), str(repository), "--path", str(programs)]) == (0 if invariant else 1)
    kept = {file.name for file in (repository / "artifacts" / "audit").iterdir()}
    assert {"audit.html", "audit.json", "audit.xml"} <= kept
    told = (repository / "summary.md").read_text(encoding="utf-8")
    assert ("**broken (" in told) != invariant


def test_after_a_step_that_fails_those_alone_run_that_always_do(repository: Path, programs: Path) -> None:
    (programs / "python").write_text("#!/bin/sh\nexit 1\n")
    runner = Runner(repository, [programs])
    assert not runner.job(read(GUIDE)["jobs"]["audit"])
    assert runner.ran[-2:] == ['python -m pip install "./equitangents[onnx]"', "actions/upload-artifact@v5"]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"uses": "actions/cache@v4"}, "actions/cache cannot be run"),
        ({"uses": "actions/checkout@v5", "with": {"repository": "other/one"}}, "other/one"),
        ({"uses": "actions/setup-python@v6", "with": {"python-version": "2.7"}}, r"Python 2\.7"),
        ({"uses": "actions/upload-artifact@v5", "with": {"name": "a", "path": "no.*"}}, "no file"),
        ({"run": "exit 4"}, "exit status 4"),
    ],
)
def test_what_cannot_be_run_here_fails(repository: Path, step: dict, said: str) -> None:
    with pytest.raises(StepError, match=said):
        Runner(repository).step(step)


def test_the_script_runs_alone(repository: Path) -> None:
    script = Path(__file__).with_name("workflow.py")
    workflow = repository / "one.yml"
    workflow.write_text(
        "jobs: {a: {steps: [{run: 'echo $WORD > said', env: {WORD: 3}}, {if: failure(), run: exit 1}]}}"
    )
    done = subprocess.run([sys.executable, script, workflow, repository], capture_output=True, text=True, check=False)
    assert (done.returncode, (repository / "said").read_text()) == (0, "3\n")
    workflow.write_text("jobs: {a: {steps: [{run: exit 2}]}}")
    done = subprocess.run([sys.executable, script, workflow, repository], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "exit status 2" in done.stderr
