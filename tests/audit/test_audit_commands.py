"""Models in another process: arrays go through its pipes as .npy, and whatever goes wrong there is told."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import equitangents as et
from audit.piped_model import scores
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ModelError, ShapeError

PROGRAM = str(Path(__file__).with_name("piped_model.py"))
X = np.random.default_rng(0).normal(size=(8, 4, 4, 1))


def command(manner: str, **settings: object) -> et.audit.Command:
    return et.audit.Command([sys.executable, "-I", PROGRAM, manner], **settings)


@pytest.mark.parametrize("manner", ["once", "loop"])
def test_a_program_is_audited_as_the_function_that_it_computes(manner: str) -> None:
    settings = {"batch_size": 8, "effort": "quick", "elements": 1}
    piped = et.audit(command(manner), "C4", X, **settings)
    np.testing.assert_array_equal(piped.errors, et.audit(scores, "C4", X, **settings).errors)
    assert piped.model.kind == "command"


def test_a_program_that_goes_on_is_started_twice_at_most() -> None:
    model = command("loop")
    with model.ready():
        first, second = model(X), model(X[:5])
        pipe = model._pipe
        assert pipe is not None
        third = model(X[2:])
        assert model._pipe is pipe
    assert model._pipe is None
    np.testing.assert_array_equal(first, scores(X))
    np.testing.assert_array_equal(second, scores(X[:5]))
    np.testing.assert_array_equal(third, scores(X[2:]))


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("crash", r"crashed \(exit status 1\), given \(8, 4, 4, 1\) float64; stderr: looking for weights .*no weights"),
        ("prints", r"wrote ['\"]loading\\n.* in place of an \.npy array \(print to stderr instead\)"),
        ("seeks", r"not seekable.*; a pipe cannot be read by np\.load itself: np\.load\(io\.BytesIO\("),
        ("silent", r"ended without an answer \(exit status 0\)"),
    ],
)
def test_what_goes_wrong_in_the_program_is_told(manner: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        et.audit(command(manner), "C4", X, effort="quick")


def test_answers_of_another_shape_and_late_ones_are_refused() -> None:
    with pytest.raises(ShapeError, match="for 8 inputs"):
        et.audit(command("rows"), "C4", X, effort="quick")
    with pytest.raises(ModelError, match=r"did not answer within 0\.2 s \(timeout\)"):
        et.audit(command("slow", timeout=0.2), "C4", X, effort="quick")
    with pytest.raises(ModelError, match="no-such-program cannot be run"):
        et.audit(et.audit.Command("no-such-program --model a"), "C4", X, effort="quick")


def test_several_answers_have_names() -> None:
    with command("two", answers=["scores", "sum"]) as model:
        found = model(X)
    np.testing.assert_array_equal(found["scores"], scores(X))
    np.testing.assert_array_equal(found["sum"], X.sum((1, 2)))


def test_an_array_that_is_left_over_is_no_silent_loss() -> None:
    with pytest.raises(ModelError, match=r"wrote one more array after its answer; .* \(--answers a,b\)"):
        et.audit(command("two"), "C4", X, effort="quick")


def test_several_inputs_come_in_the_order_of_the_data() -> None:
    x = {"pictures": X, "gain": np.arange(1.0, 9)[:, None]}
    report = et.audit(command("weighted"), "C4", x, inputs={"pictures": "images", "gain": None}, effort="quick")
    alone = et.audit(scores, "C4", X, effort="quick")
    assert report.error.estimate.mean == pytest.approx(alone.error.estimate.mean)


def test_commands_that_cannot_be_meant() -> None:
    for wrong in ("", "a 'b"):
        with pytest.raises(InvalidArgumentError, match="command is"):
            et.audit.Command(wrong)
    with pytest.raises(InvalidTypeError, match="list of words"):
        et.audit.Command(["python", 3])
    with pytest.raises(InvalidArgumentError, match="timeout"):
        et.audit.Command("python", timeout=0)
    with pytest.raises(InvalidArgumentError, match="answers"):
        et.audit.Command("python", answers="energy")


def test_the_command_line_takes_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    base = ["audit", "--data", str(tmp_path / "x.npy"), "--group", "C4", "--effort", "quick"]
    fine, line = (f"{sys.executable} -I {PROGRAM} {manner}" for manner in ("once", "crash"))
    for options, status, said in (
        ([f"--command={fine}", "--elements", "1", "--fail-above", "0.01"], 3, "above: mean relative error"),
        ([f"--command={line}", "--timeout", "20"], 2, "there are no weights"),
        ([f"--command={line}", "m:f"], 2, "goes without MODEL"),
        (["m:f", "--answers", "a,b"], 2, "goes with --command"),
    ):
        with pytest.raises(SystemExit) as end:
            main([*base, *options])
        assert end.value.code == status
        told = capsys.readouterr()
        assert said in told.out + told.err
