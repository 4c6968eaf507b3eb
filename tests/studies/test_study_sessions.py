"""A run writes down its sessions: when each began, its time, how it ended, and on what machine."""

import json
import os
import sys
import time

import numpy as np
import pytest

from equitangents import studies
from equitangents_studies.framework import folder
from equitangents_studies.framework.folder import Sessions, machine
from equitangents_studies.framework.progress import Task
from equitangents_studies.framework.settings import as_dict, changed
from studies.miniatures import TINY, assert_same_tables, study
from studies.miniatures import run as run_miniature


def run(out, **how):
    return studies.run("small", out=out, progress=False, **how)


def config(folder):
    return json.loads((folder / "config.json").read_text())


def test_every_session_is_kept_and_their_times_add_up(small, tmp_path):
    small.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run")
    (first,) = config(tmp_path / "run")["sessions"]
    assert first["ended"] == "interrupted"
    small.interrupt = False
    run(tmp_path / "run", resume=True)
    kept = config(tmp_path / "run")
    assert kept["sessions"][0] == first
    assert [session["ended"] for session in kept["sessions"]] == ["interrupted", "finished"]
    for session in kept["sessions"]:
        assert session["seconds"] >= 0
        assert session["processor_seconds"] >= 0
        assert session["machine"] == machine()
    assert abs(kept["seconds"] - sum(session["seconds"] for session in kept["sessions"])) <= 0.01


def test_a_session_that_was_killed_stays_running_and_one_that_crashed_says_so(small, tmp_path, monkeypatch):
    monkeypatch.setattr(small, "present", lambda *_: 1 / 0)
    monkeypatch.setattr(sys.modules["a_small_study"], "present", small.present)
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "run")
    assert config(tmp_path / "run")["sessions"][-1]["ended"] == "failed"
    assert Sessions(None).to_dict("running")["sessions"][-1]["ended"] == "running"


def test_the_time_is_written_down_within_a_stage(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_EVERY", 0.0)
    made = folder.RunFolder(tmp_path / "run", {"study": "small", "settings": {}})
    noted = []

    def compute(task):
        for done in range(1, 3):
            time.sleep(0.02)
            task.step(done, 2)
            noted.append(config(tmp_path / "run")["seconds"])
        return {"x": np.zeros(1)}

    made.stage("long", "A long stage", compute)
    assert 0.02 <= noted[0] < noted[1]


def test_the_machine_is_described_without_its_name():
    described = machine()
    assert described["processor"]
    assert 1 <= described["cores"] <= (os.cpu_count() or 1)
    assert described["memory"] > 1e8
    assert set(described) == {"processor", "cores", "memory"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "total"),
    [
        pytest.param("toy", 12, marks=pytest.mark.slow),
        pytest.param("rotated-images", 5, marks=pytest.mark.slow),
        ("cross-product", 3),
    ],
)
def test_killed_in_the_middle_of_training_and_resumed(name, total, finished_miniature, tmp_path, monkeypatch):
    whole = finished_miniature(name)
    checkpoints = tmp_path / "cut" / "checkpoints"
    step = Task.step

    def interrupting(self, done, steps):
        step(self, done, steps)
        if (done, steps) == (2, total) and any(checkpoints.rglob("*")):
            raise KeyboardInterrupt

    monkeypatch.setattr(Task, "step", interrupting)
    with pytest.raises(KeyboardInterrupt):
        run_miniature(name, tmp_path / "cut")
    assert any(checkpoints.rglob("*"))
    assert not (tmp_path / "cut" / "report.html").exists()
    monkeypatch.setattr(Task, "step", step)
    resumed = run_miniature(name, tmp_path / "cut", resume=True)
    # as written: where there is no interval, its ends are NaN, which equal nothing
    assert [claim.to_dict() for claim in resumed.claims] == [claim.to_dict() for claim in whole.claims]
    assert_same_tables(tmp_path / "cut", whole.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*(pytest.param(n, marks=pytest.mark.slow) for n in ("toy", "sampling", "imagenet-scale")), "medical-kernels"],
)
def test_a_paper_preset_starts_and_resumes(name, finished_miniature, tmp_path, monkeypatch):
    """With the sizes of the miniature; all that these leave as it is comes from the preset."""
    finished_miniature(name)  # compiles what both need

    def interrupting(self, done, steps):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Task, "step", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run_miniature(name, tmp_path / "paper", preset="paper")
    assert not (tmp_path / "paper" / "report.html").exists()
    finished = run_miniature(name, tmp_path / "paper", preset="paper", resume=True)
    config = json.loads((tmp_path / "paper" / "config.json").read_text())
    assert config["preset"] == "paper"
    assert config["settings"] == json.loads(json.dumps(as_dict(changed(study(name).presets["paper"], TINY[name]))))
    assert len(finished.claims) > 0
