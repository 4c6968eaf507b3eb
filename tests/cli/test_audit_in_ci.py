"""What continuous integration asks of an audit: limits by output, agreement, no change for the worse, JUnit's XML."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import equitangents as et
from equitangents.audit.report.checks import no_worse
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError

QUIET = {"off_data": False, "data_test": None, "layers": False, "resamples": 100}
X = np.random.default_rng(0).normal(size=(40, 4, 4, 1))
WEIGHTS = np.random.default_rng(1).normal(size=(16, 3))
MODELS = """
import numpy as np
W = np.random.default_rng(1).normal(size=(16, 3))
def scores(x):
    return x.reshape(len(x), -1) @ W
def pooled(x):
    return x.sum((1, 2))
def both(x):
    return {"sum": 5 + pooled(x), "scores": scores(x)}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "models_in_ci.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def run(model: str, *options: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["audit", f"models_in_ci:{model}", "--data", "x.npy", "--group", "C4", "--on-data-only", *options])
    return end.value.code


def test_outputs_have_limits_of_their_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("both", "--fail-above", "sum=1e-6,scores=5") == 0
    assert run("both", "--fail-above", "sum=1e-6,scores=0.1") == 3
    assert "above: scores: mean relative error" in capsys.readouterr().err
    assert run("both", "--fail-above", "invariant=0.1") == 3
    assert run("both", "--fail-above", "energy=1") == 2
    assert "the outputs are" in capsys.readouterr().err


def test_predictions_must_agree_often_enough(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("scores", "--min-agreement", "0.9") == 3
    assert "below: same prediction in" in capsys.readouterr().err
    assert run("scores", "--min-agreement", "0.01") == 0
    assert run("pooled", "--min-agreement", "0.9") == 2
    assert run("scores", "--min-agreement", "90") == 2


def test_a_model_that_got_worse_fails_by_a_paired_test(tmp_path: Path) -> None:
    model = lambda share: lambda x: 5 + x.sum((1, 2)) + share * (x.reshape(len(x), -1) @ WEIGHTS)[:, :1]
    audit = lambda share, x=X: et.audit(model(share), "C4", x, **QUIET)
    old = audit(0.1).to_json(tmp_path / "old.json")
    assert no_worse(audit(0.1), old).passed
    assert no_worse(audit(0.05), old).passed
    worse = no_worse(audit(0.102), old)  # 2 % worse of every input: seen, since inputs are paired
    assert not worse.passed
    assert "worse by a paired test of 40 inputs" in worse.said
    with pytest.raises(InvalidArgumentError, match="other inputs"):
        no_worse(audit(0.1, X[:30]), old)
    exact = et.audit(lambda x: x.sum((1, 2)), "C4", X, **QUIET).to_json(tmp_path / "exact.json")
    assert no_worse(et.audit(lambda x: 3 * x.sum((1, 2)), "C4", X, **QUIET), exact).passed  # rounding is not worse


def test_baseline_and_junit_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pooled", "--json", "good.json") == 0
    assert run("pooled", "--baseline", "good.json", "--fail-above", "0.1", "--junit", "good.xml") == 0
    assert run("both", "--baseline", "good.json", "--junit", "bad.xml") == 3
    assert "worse by a paired test" in capsys.readouterr().err
    assert run("pooled", "--baseline", "none.json") == 2
    good, bad = (ElementTree.parse(name).getroot() for name in ("good.xml", "bad.xml"))
    assert (good.get("tests"), good.get("failures")) == ("3", "0")
    assert [case.get("name") for case in bad] == ["scores (invariant)", "sum (invariant)", "no worse than good.json"]
    assert (bad.get("tests"), bad.get("failures")) == ("3", "2")
    assert "fails under 90°" in bad[0][0].get("message")
