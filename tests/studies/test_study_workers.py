"""Stages that workers share: the files of one process, to the last bit, whichever workers or clients die."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor

import numpy as np
import psutil
import pytest

from equitangents.errors import StoreError
from equitangents.scale import executors
from equitangents_studies.framework import spreading as stage_spreading
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.progress import Progress
from equitangents_studies.framework.stages import Stage
from studies.miniatures import assert_same_tables, run
from studies.small import five_stages

# SIGINT may be ignored where tests run in the background.
PROGRAM = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from studies.small import command_line; command_line()",
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def kept(folder):
    """Every stage, the tables and the verdicts."""
    files = [*folder.glob("stages/*"), *folder.glob("results/*"), folder / "claims.json"]
    assert len(files) == 5 + 1 + 1
    arrays = {f.name: np.load(f)["y"].tobytes() for f in files if f.suffix == ".npz"}
    return arrays | {f.name: f.read_bytes() for f in files if f.suffix != ".npz"}


@pytest.fixture
def alone(tmp_path):
    """What one process keeps."""
    return kept(five_stages(tmp_path / "alone").folder)


class Dying:
    """An executor of two workers, one of which dies after some tasks."""

    _max_workers = 2

    def __init__(self, tasks):
        self.tasks = tasks

    def submit(self, function, *arguments):
        self.tasks -= 1
        future = Future()
        if self.tasks < 0:
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(function(*arguments))
        return future


def test_workers_share_stages_to_the_numbers_of_one_process(tmp_path, alone, capsys):
    with ThreadPoolExecutor(2) as pool:
        shared = five_stages(tmp_path / "run", together=True, executor=pool, progress=True)
    assert kept(shared.folder) == alone
    said = capsys.readouterr().err
    assert "5 stages, shared among workers" in said
    assert "5 of 5" in said


def test_stages_of_a_dead_worker_are_computed_again_and_others_are_not(tmp_path, alone, monkeypatch, capsys):
    again = []

    def by_processes(workers, tasks, stages):
        again.extend(stage.name for stage in stages)
        tasks.report(tasks.run(stages))

    monkeypatch.setattr(executors, "compute_by_processes", by_processes)
    capsys.readouterr()
    assert kept(five_stages(tmp_path / "run", together=True, executor=Dying(2)).folder) == alone
    assert again == ["stage-2", "stage-3", "stage-4"]
    assert capsys.readouterr().out == "01234"


def test_a_resumed_run_hands_out_only_what_is_missing(tmp_path, alone, capsys):
    five_stages(tmp_path / "run")
    for name in ("stage-1", "stage-3"):
        (tmp_path / "run" / "stages" / f"{name}.npz").unlink()
    capsys.readouterr()
    with ThreadPoolExecutor(2) as pool:
        five_stages(tmp_path / "run", together=True, executor=pool, resume=True)
    assert sorted(capsys.readouterr().out) == ["1", "3"]
    assert kept(tmp_path / "run") == alone


def test_ensembles_share_their_members_where_there_are_more_workers_than_stages(tmp_path):
    seen = {}

    def compute(name, task):
        seen[name] = task.executor
        return {"y": np.zeros(1)}

    with ThreadPoolExecutor(3) as pool:
        folder = RunFolder(
            tmp_path / "run", {"study": "s", "settings": {}}, progress=Progress(shown=False, executor=pool)
        )
        work = {
            name: Stage(name, name, lambda task, name=name: compute(name, task), ensemble=name == "ensemble")
            for name in ("ensemble", "kernel")
        }
        folder.stages(work)
        assert seen == {"ensemble": pool, "kernel": None}
        folder.stages({i: Stage(f"{i}", "one", lambda task, i=i: compute(i, task), ensemble=True) for i in range(3)})
        assert [seen[i] for i in range(3)] == [None] * 3
    assert (tmp_path / "run" / "stages" / "kernel.npz").exists()


def test_a_failure_in_a_stage_is_that_of_one_process_and_complete_stages_are_kept(tmp_path):
    def fail(task):
        raise ZeroDivisionError("in a stage")

    with ThreadPoolExecutor(1) as pool:
        folder = RunFolder(
            tmp_path / "run", {"study": "s", "settings": {}}, progress=Progress(shown=False, executor=pool)
        )
        work = {"good": Stage("good", "Good", lambda task: {"y": np.ones(2)}), "bad": Stage("bad", "Bad", fail)}
        with pytest.raises(ZeroDivisionError, match="in a stage"):
            folder.stages(work)
    assert [path.name for path in (tmp_path / "run" / "stages").iterdir()] == ["good.npz"]


def test_a_worker_of_another_version_is_refused_in_one_line():
    stage = Stage("a", "A", lambda task: {"y": np.zeros(1)})
    with pytest.raises(StoreError, match=r"worker has equitangents .*; expected 0\.0\.1; install one version"):
        stage_spreading._compute("0.0.1", 1, [stage])


def start(out, *arguments):
    return subprocess.Popen(
        [*PROGRAM, str(out), "--slow", "--workers", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def first_stage(child, out):
    """Wait until one is complete."""
    while not any(out.glob("stages/stage-*.npz")):
        assert child.poll() is None, child.stderr.read()
        time.sleep(0.02)
    return psutil.Process(child.pid).children(recursive=True)


@pytest.mark.slow
class TestProcesses:
    def test_one_that_is_killed_changes_nothing(self, tmp_path, alone):
        out = tmp_path / "run"
        child = start(out)
        for worker in first_stage(child, out):
            if "popen_loky" in " ".join(worker.cmdline()):
                worker.kill()
        _, said = child.communicate()
        assert child.returncode == 0, said
        assert kept(out) == alone

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
    def test_a_client_that_is_stopped_leaves_no_worker_and_the_run_goes_on(self, tmp_path, alone, how):
        out = tmp_path / "run"
        child = start(out)
        workers = first_stage(child, out)
        assert workers
        os.killpg(child.pid, how) if os.getpgid(child.pid) == child.pid else child.send_signal(how)
        _, said = child.communicate()
        assert child.returncode != 0
        assert not psutil.wait_procs(workers, timeout=10)[1], "a worker lives on"
        assert (how == signal.SIGKILL) or "to go on: equitangents reproduce five" in said
        assert not (out / "report.html").exists()
        assert kept(five_stages(out, resume=True, together=True).folder) == alone

    @pytest.mark.parametrize("name", ["medical-kernels", "cross-product", "toy", "spectra", "frozen-kernel"])
    def test_a_study_is_the_same(self, name, finished_miniature, tmp_path):
        whole = finished_miniature(name)
        shared = run(name, tmp_path / "run", executor=2)
        assert [claim.to_dict() for claim in shared.claims] == [claim.to_dict() for claim in whole.claims]
        assert_same_tables(name, shared.folder, whole.folder)
