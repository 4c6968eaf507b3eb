"""Faults of the machines around a store: full disk, no permission, clocks that differ, memory, killed clients."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import distributed
import numpy as np
import psutil
import pytest
from stores import NET, content, store

from equitangents.errors import MemoryLimitError, StoreError
from equitangents.scale import whole

A_DAY = 86400.0


@pytest.fixture
def undisturbed(tmp_path):
    store(tmp_path / "whole").compute()
    return content(tmp_path / "whole")


def test_a_disk_without_room_is_one_line_and_the_rest_is_kept(tmp_path, monkeypatch, undisturbed):
    part = store(tmp_path / "k").compute(shard=(0, 2))
    full = tmp_path / "k" / "nngp" / ".partial" / "full"  # a file to which the kernel of the system writes nothing
    full.parent.mkdir()
    full.symlink_to("/dev/full")
    with monkeypatch.context() as patch:
        patch.setattr(whole, "temporary_name", lambda: "full")
        with pytest.raises(StoreError, match="cannot be read or written: No space left on device") as error:
            part.compute()
    assert "\n" not in str(error.value)
    assert part.missing == 10
    part.compute()
    assert content(tmp_path / "k") == undisturbed


@contextlib.contextmanager
def without_permission(folder):
    """Meanwhile this process may read the folder, and not write to it."""
    if os.geteuid():
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield
    else:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_store_that_may_not_be_written_is_one_line_and_can_be_read(undisturbed):
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        part = store(folder / "k").compute(shard=(0, 2))
        with without_permission(folder / "k"):
            with pytest.raises(StoreError, match="cannot be read or written: Permission denied") as error:
                part.compute()
            assert np.isfinite(part.ntk[:4, :4]).all()
        assert "\n" not in str(error.value)
        part.compute()
        assert content(folder / "k") == undisturbed
    finally:
        shutil.rmtree(folder)


class TestClocks:
    """Another machine's clock decides nothing but whether what it finds half written is swept away."""

    def test_ahead_by_a_day_sweep_files_that_are_being_written_which_are_written_again(
        self, tmp_path, monkeypatch, undisturbed
    ):
        swept, replace, now = [], os.replace, time.time

        def sweeping(source, target):
            if len(swept) % 3 != 2:  # a write is tried three times
                with monkeypatch.context() as patch:
                    patch.setattr(whole.socket, "gethostname", lambda: "elsewhere")
                    patch.setattr(whole.time, "time", lambda: now() + A_DAY)
                    swept.append(whole.sweep(Path(source).parent))
            else:
                swept.append([])
            replace(source, target)

        part = store(tmp_path / "k")
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", sweeping)
            part.compute()
        assert sum(map(len, swept)) > 20
        assert content(tmp_path / "k") == undisturbed

    @pytest.mark.parametrize("shift", [-400 * A_DAY, 400 * A_DAY])
    def test_of_files_are_of_no_matter(self, tmp_path, undisturbed, shift):
        part = store(tmp_path / "k").compute(shard=(0, 2))
        when = time.time() + shift
        for path in (tmp_path / "k").rglob("*"):
            os.utime(path, (when, when))
        part.compute()
        assert part.verify(sample=1).ok
        assert content(tmp_path / "k") == undisturbed


def test_a_tile_for_which_there_is_no_memory_is_named_with_what_helps(tmp_path, monkeypatch, undisturbed):
    part = store(tmp_path / "k").compute(shard=(0, 2))
    with monkeypatch.context() as patch:
        patch.setattr(type(NET), "kernel", lambda *arguments, **keywords: np.empty(2**50))
        with pytest.raises(MemoryLimitError, match=r"does not fit in this worker's memory; give a smaller tile"):
            part.compute()
    part.compute()
    assert content(tmp_path / "k") == undisturbed


@pytest.fixture
def started():
    """Starts a Python process, which is gone after the test."""
    processes = []

    def start(*arguments):
        command = [sys.executable, *map(str, arguments)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
class TestKill9:
    def test_of_a_client_with_workers_loses_nothing_that_was_complete(self, tmp_path, started):
        script = tmp_path / "client.py"
        script.write_text(
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "from stores import store\n"
            "say = lambda *now: print(now[0], flush=True)\n"
            f"store({str(tmp_path / 'k')!r}, 60, 2).compute(workers=2, progress=say)\n"
        )
        client = started(script)
        assert client.stdout.readline()
        workers = psutil.Process(client.pid).children(recursive=True)
        client.kill()
        client.wait()
        psutil.wait_procs(workers, timeout=60)
        part = store(tmp_path / "k", 60, 2)
        assert 0 < part.missing < len(part.tiles)
        assert part.verify(sample=4).ok
        part.compute()
        store(tmp_path / "whole", 60, 2).compute()
        assert content(tmp_path / "k") == content(tmp_path / "whole")

    def test_of_a_scheduler_is_one_line_and_the_same_call_goes_on(self, tmp_path, started):
        description = tmp_path / "scheduler.json"
        scheduler = started(
            "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--port", 0, "--scheduler-file", description
        )
        started(
            "-m", "distributed.cli.dask_worker", "--scheduler-file", description, "--no-dashboard", "--no-nanny",
            "--death-timeout", 30,
        )  # fmt: skip
        killed = []

        def kill(*now):
            if not killed:
                killed.append(now)
                os.kill(scheduler.pid, signal.SIGKILL)

        part = store(tmp_path / "k", 60, 2)
        with (
            pytest.raises(StoreError) as error,
            distributed.Client(scheduler_file=str(description), timeout=20) as client,
        ):
            part.compute(client, progress=kill)
        assert "\n" not in str(error.value)
        assert killed
        assert 0 < part.missing < len(part.tiles)
        part.compute()
        store(tmp_path / "whole", 60, 2).compute()
        assert content(tmp_path / "k") == content(tmp_path / "whole")
