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
