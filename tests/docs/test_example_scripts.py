"""Every script of examples/ runs without warnings, and is short enough to be read at once."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_it_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    plt.close("all")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_it_is_short_and_says_what_it_shows(script: Path) -> None:
    lines = script.read_text("utf-8").splitlines()
    assert len(lines) <= 60
    assert lines[0].startswith('"""')
