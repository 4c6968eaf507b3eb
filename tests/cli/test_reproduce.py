"""`equitangents reproduce`: what it hands to the study, and what it shows of the outcome."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from equitangents.cli.main import main
from equitangents_studies import StudyResult
from equitangents_studies.claim import Claim
from equitangents_studies.framework.places import PLACES


@pytest.fixture
def calls(monkeypatch) -> list[tuple[tuple, dict]]:
    """The calls of `studies.run`, which here returns one claim that holds and one that fails."""
    made: list[tuple[tuple, dict]] = []

    def run(*arguments, **options) -> StudyResult:
        made.append((arguments, options))
        claims = tuple(
            Claim(
                statement=statement,
                kind="source",
                source="here",
                place="there",
                measure="a number",
                number=value,
                interval=(value - 0.05, value + 0.05),
                bound=(3, math.inf),
            )
            for statement, value in (("the mean agrees", 3.75), ("members do not", 2.25))
        )
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


def test_defaults(calls) -> None:
    reproduce("toy")
    (call,) = calls
    assert call == (
        ("toy",),
        {
            "preset": "quick",
            "out": None,
            "resume": False,
            "settings": {},
            "data_dir": None,
            "progress": True,
            "force": False,
        },
    )


def test_options_reach_the_study(calls) -> None:
    changes = ("--set", "seed=1", "--set", "data=x=y")
    reproduce("comparison", "--preset=paper", "--out=here", "--resume", *changes, "--data-dir", "there")
    (call,) = calls
    assert call[1] == {
        "preset": "paper",
        "out": Path("here"),
        "resume": True,
        "settings": {"seed": "1", "data": "x=y"},
        "data_dir": Path("there"),
        "progress": True,
        "force": False,
    }


def test_data_and_group_are_settings_of_the_study(calls, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.npz").touch()
    reproduce("comparison", "--data", "mine.npz", "--group", "D4", "--set", "seed=3")
    assert calls[0][1]["settings"] == {"seed": "3", "data": "mine.npz", "group": "D4"}
    assert reproduce("comparison", "--group", "D4", "--set", "group=C4") == 2
    assert "group=C4" in capsys.readouterr().err


def test_no_text_is_the_empty_list(calls) -> None:
    reproduce("comparison", "--set", "shrink=")
    assert calls[0][1]["settings"] == {"shrink": ""}
    assert reproduce("comparison", "--set", "shrink") == 2


@pytest.mark.parametrize("work", ["2403.03103", "arXiv:2406.06504", "arXiv 2207.04612"])
def test_a_work_is_shown_with_the_command_of_each_figure_and_nothing_runs(work, capsys, calls) -> None:
    assert reproduce(work) == 0
    shown = capsys.readouterr().out
    assert all(place.command.split()[0] in shown for place in PLACES[work[-10:]])
    assert calls == []


def test_another_work_is_refused(capsys, calls) -> None:
    assert reproduce("2403.03104") == 2
    assert "expected 'arXiv 2403.03103'" in capsys.readouterr().err
    assert calls == []
