"""Runs in one folder: one at a time, nothing finished is lost, and what was interrupted goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from equitangents import studies
from equitangents.errors import InvalidArgumentError
from equitangents_studies.framework import folder, progress
from equitangents_studies.framework.folder import Sessions, machine, only_run
from equitangents_studies.framework.progress import Task
from equitangents_studies.framework.study import as_dict, changed
from studies.miniatures import TINY, assert_same_tables, study
from studies.miniatures import run as run_miniature
from studies.small import contents, five_stages

PROGRAM = [sys.executable, "-c", "from studies.small import command_line; command_line()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def run(out, name="small", **how):
    return studies.run(name, out=out, progress=False, **how)


class TestWhatIsFinishedStays:
    @pytest.mark.parametrize("how", [{}, {"name": "other"}, {"settings": {"members": "11"}}])
    def test_a_finished_run_stays_unless_it_is_replaced_by_force(self, small, tmp_path, how):
        run(tmp_path / "run")
        before = contents(tmp_path / "run")
        with pytest.raises(InvalidArgumentError, match="--force"):
            run(tmp_path / "run", **how)
        assert contents(tmp_path / "run") == before
        result = run(tmp_path / "run", force=True, **how)
        config = json.loads((tmp_path / "run" / "config.json").read_text())
        assert config["study"] == how.get("name", "small")
        assert str(config["settings"]["members"]) == how.get("settings", {}).get("members", "10")
        assert result.report == tmp_path / "run" / "report.html"
        assert set(contents(tmp_path / "run")) == set(contents(run(tmp_path / "fresh", **how).folder))


class TestResume:
    def test_of_a_missing_an_empty_or_a_foreign_folder_says_so_in_one_line(self, small, tmp_path, command):
        for name in ("empty", "foreign"):
            (tmp_path / name).mkdir()
        (tmp_path / "foreign" / "notes.txt").write_text("mine")
        for name in ("missing", "empty", "foreign"):
            status, _, said = command("reproduce", "small", "--out", tmp_path / name, "--resume")
            assert (status, said.count("\n"), "resume" in said) == (2, 1, True), said
        assert not (tmp_path / "missing").exists()
        assert contents(tmp_path / "foreign") == {"notes.txt": b"mine"}

    def test_run_time_is_the_total_of_all_parts(self, small, tmp_path):
        small.interrupt, small.pause = True, 0.4
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run")
        small.interrupt = small.pause = False
        assert run(tmp_path / "run", resume=True).seconds > 0.4

    def test_the_interrupted_run_prints_the_command_that_goes_on(self, small, tmp_path, command):
        small.interrupt = True
        arguments = ["--out", tmp_path / "a folder", "--set", "members=7", "--data-dir", tmp_path]
        status, _, err = command("reproduce", "small", *arguments)
        again = f"equitangents reproduce small --preset quick --set members=7 --data-dir {tmp_path}"
        said = f"equitangents: interrupted; to go on: {again} --out '{tmp_path}/a folder' --resume"
        assert (status, err.splitlines()[-1]) == (130, said)
        small.interrupt = False
        small.calls.clear()
        assert command("reproduce", "small", *arguments, "--resume")[0] == 0
        assert small.calls == ["second"]


class TestOneAtATime:
    def test_a_second_run_bad_settings_and_contradictions_are_refused_and_touch_nothing(self, small, tmp_path):
        run(tmp_path / "run")
        before = contents(tmp_path / "run")
        for how, said in (
            ({"force": True, "settings": {"members": "0"}}, "members was"),
            ({"force": True, "settings": {"members": "many"}}, "members was"),
            ({"resume": True, "settings": {"members": "11"}}, "members was 10 and is now 11"),
            ({"resume": True, "force": True}, "force is True"),
        ):
            with pytest.raises(InvalidArgumentError, match=said):
                run(tmp_path / "run", **how)
        with only_run(tmp_path / "run"):
            for how in ({"resume": True}, {"force": True}):
                with pytest.raises(InvalidArgumentError, match="no run is writing to"):
                    run(tmp_path / "run", **how)
        with pytest.raises(InvalidArgumentError, match="members was"):
            run(tmp_path / "new", settings={"members": "0"})
        assert contents(tmp_path / "run") == before
        assert not (tmp_path / "new").exists()

    @pytest.mark.slow
    def test_the_lock_of_a_dead_process_does_not_count(self, small, tmp_path):
        code = (
            "import os, signal\nfrom pathlib import Path\nfrom equitangents_studies.framework.folder import only_run\n"
            f"with only_run(Path({str(tmp_path / 'run')!r})):\n    os.kill(os.getpid(), signal.SIGKILL)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
        assert (tmp_path / "run" / ".lock").exists()
        run(tmp_path / "run")
        assert not (tmp_path / "run" / ".lock").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("stages", [1, 3])
    def test_killed_at_any_time_only_the_stage_under_way_is_lost(self, tmp_path, capsys, stages):
        whole = five_stages(tmp_path / "whole")
        assert capsys.readouterr().out == "01234"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen([*PROGRAM, str(tmp_path / "cut"), "--slow"], env=ENVIRONMENT, **pipes)
        wanted = tmp_path / "cut" / "stages" / f"stage-{stages}.npz"
        while not wanted.exists():
            assert child.poll() is None
            time.sleep(0.05)
        child.kill()
        child.communicate()
        assert child.returncode == -signal.SIGKILL
        resumed = five_stages(tmp_path / "cut", resume=True)
        again = capsys.readouterr().out
        assert again == "01234"[5 - len(again) :]
        assert len(again) < 5 - stages, "what was complete is not computed again"
        assert set(contents(whole.folder)) == set(contents(resumed.folder))
        assert (resumed.folder / "claims.json").read_bytes() == (whole.folder / "claims.json").read_bytes()


def test_without_a_terminal_a_long_stage_says_once_a_minute_how_far_it_is(monkeypatch, capsys):
    now = iter(range(0, 10_000, 7))  # seconds, at every look at the clock
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(now)))
    with progress.StudyProgress().task("training") as stage:
        for step in range(1, 41):
            stage.step(step, 40)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "training …"
    assert said[1:-1] == [f"training: {100 * step / 40:.0f} %" for step in (9, 18, 27, 36)]
    assert said[-1] == "training: done in 287.0 s"


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
