"""What a newcomer meets: wrong words told at once, in the command's own; percentages; a line from the first second."""

from __future__ import annotations

import io
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.cli.audit import LIMITS
from equitangents.cli.main import line_of, main
from equitangents.cli.options import numbers
from equitangents.errors import InvalidArgumentError, ShapeError

MODULE = """
import numpy as np
def pooled(x):
    return np.asarray(x).sum((1, 2)) ** 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("newcomers_models.py").write_text(MODULE)
    np.savez("images.npz", x=np.random.default_rng(0).normal(size=(20, 4, 4, 1)))
    return tmp_path


OPTION = SimpleNamespace(opts=["--fail-above"])
limits = partial(LIMITS, OPTION)


@given(st.integers(0, 10**6))
def test_percentages_are_shares(millionths: int) -> None:
    percent, plain = f"{millionths / 10**4}%", str(millionths / 10**6)
    assert limits(percent) == pytest.approx(limits(plain), rel=1e-12)
    assert limits(f"a={percent},b={plain}") == pytest.approx({"a": millionths / 10**6, "b": millionths / 10**6})


@pytest.mark.parametrize(
    "text", ["", "%", "5%%", "five", "nan", "nan%", "inf", "-1", "-5%", "0.1,0.2", "a=", "=5%", "5 % of"]
)
def test_a_limit_that_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        limits(text)
    with pytest.raises(InvalidArgumentError):
        numbers("a share", lambda share: 0 <= share <= 1)(OPTION, text)


def test_an_error_of_an_argument_names_the_option_of_that_name() -> None:
    options = {"learning_rate": "--learning-rate", "X": "x"}
    error = InvalidArgumentError("learning_rate", 0.0, "a positive number", "or leave seed= out")
    assert line_of(error, options) == "--learning-rate is 0.0; expected a positive number; or leave seed= out"
    assert line_of(error, {}) == str(error)
    assert line_of(ShapeError("X", (3,), "(N, channels)"), options) == "x has shape (3,); expected (N, channels)"
    assert line_of(InvalidArgumentError("seed is 3"), {"seed": "--seed"}) == "seed is 3"
    assert line_of(ZeroDivisionError(), {}) is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_is_being_done_from_the_first_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(SystemExit):
        main(["audit", "newcomers_models:pooled", "--data", "images.npz", "--group", "C4", "--effort", "quick"])
    drawn = screen.getvalue().split("\r\033[K")
    wanted = ["reading images.npz …", "importing JAX …", "loading newcomers_models:pooled …", "evaluating pooled …"]
    assert drawn[:5] == ["", *wanted]
    assert drawn[-1] == "", "the line is taken off"
