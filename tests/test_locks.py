"""Locks die with their owner, whatever its number and its host; without locks of the system there are short leases."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from equitangents import locks
from equitangents.errors import StoreError
from equitangents.locks import HeldError, alone, held, is_held


@pytest.fixture(params=["flock", "leases"])
def kind(request, monkeypatch):
    """With the locks of this system, and with leases, as on a file system that has no locks."""
    if request.param == "leases":

        def without(descriptor):
            raise OSError(errno.ENOSYS, "Function not implemented")

        monkeypatch.setattr(locks, "_system_lock", without)
        monkeypatch.setattr(locks, "_PAUSE", 0.0)
    return request.param


def test_one_at_a_time_and_nothing_is_left(tmp_path, kind):
    path = tmp_path / "lock"
    for _ in range(2):
        assert not is_held(path)
        with held(path):
            assert is_held(path)
            with pytest.raises(HeldError) as error, held(path):
                pass
            assert error.value.owner == str(os.getpid())
            with pytest.raises(StoreError, match="wait for it"), alone(path, "wait for it"):
                pass
            assert is_held(path)  # those who were refused took nothing away
        assert list(tmp_path.iterdir()) == []


def test_of_many_threads_one_holds_it(tmp_path, kind):
    inside, most, entered = 0, 0, 0

    def work():
        nonlocal inside, most, entered
        for _ in range(20):
            try:
                with held(tmp_path / "lock"):
                    inside += 1
                    most, entered = max(most, inside), entered + 1
                    time.sleep(0.0005)
                    inside -= 1
            except HeldError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert most == 1
    assert entered >= 4
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_a_killed_process_is_free_also_for_the_same_number_on_the_same_host(tmp_path):
    """What a container that starts again finds: a file that names process 1 of its own host, which lives."""
    code = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from equitangents.locks import held
        with held(Path({str(tmp_path / "lock")!r})):
            if os.fork() == 0:  # a child that lives on holds nothing
                print(flush=True)
                os.read(0, 1)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], **pipes) as process:
        process.stdout.readline()
        assert process.wait() == -signal.SIGKILL
        assert (tmp_path / "lock").read_text() == str(process.pid)
        (tmp_path / "lock").write_text(str(os.getpid()))
        assert not is_held(tmp_path / "lock")
        with held(tmp_path / "lock"):
            assert is_held(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_a_lease_counts_while_it_is_renewed_and_a_minute_longer(tmp_path, kind, monkeypatch, caplog):
    if kind == "flock":
        return
    path = tmp_path / "lock"
    monkeypatch.setattr(locks, "LEASE", 0.3)
    with held(path):
        time.sleep(0.5)
        assert is_held(path)
    assert "has no locks" in caplog.text
    path.write_text("1")
    (tmp_path / "lock.lease").touch()  # of a process that died
    assert is_held(path)
    with pytest.raises(HeldError), held(path):
        pass
    long_ago = time.time() - 10
    os.utime(tmp_path / "lock.lease", (long_ago, long_ago))
    assert not is_held(path)
    with held(path):
        assert is_held(path)
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_may_be_written_it_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError), held(tmp_path / "no" / "lock"):
        pass
