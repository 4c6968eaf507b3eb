"""Files appear when they are complete; locks die with their owner, whatever its number and its host."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from equitangents import files
from equitangents.errors import StoreError
from equitangents.files import atomic_file, locked


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "folder" / "page.html"
    with atomic_file(path) as partial:
        partial.write_text("half")
        assert not path.exists()
    assert path.read_text() == "half"
    with pytest.raises(FileNotFoundError), atomic_file(path) as partial:
        partial.with_name("no such folder").joinpath("x").write_text("broken")
    assert path.read_text() == "half"
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


def test_several_may_write_one_file_at_once(tmp_path):
    path, together = tmp_path / "a.txt", threading.Barrier(8)

    def write(i):
        with atomic_file(path) as partial:
            partial.write_text(str(i) * 1000)
            together.wait()

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(set(path.read_text())) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_dead_process_was_writing_is_removed_and_what_is_not_locked_yet_never_from_under_its_writer(
    tmp_path, monkeypatch
):
    left, unlink, taken = tmp_path / f".page-{'0' * 32}.html", Path.unlink, []
    descriptor = os.open(left, os.O_RDWR | os.O_CREAT)  # as of a writer that has made it, and is about to lock it

    def observed(file, **options):
        if file == left:
            taken.append(files.lock(descriptor))
        unlink(file, **options)

    monkeypatch.setattr(Path, "unlink", observed)
    with atomic_file(tmp_path / "page.html") as partial:
        partial.write_text("whole")
    os.close(descriptor)
    assert taken == [False]
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    with atomic_file(tmp_path / "page.html") as other:
        with atomic_file(tmp_path / "page.html") as partial:
            partial.write_text("one")
        other.write_text("two")
    assert (tmp_path / "page.html").read_text() == "two"


def held(path):
    return locked(path, "wait for it")


def is_locked(path):
    """Whether another open file of that name is held."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return not files.lock(descriptor)
    finally:
        os.close(descriptor)


def test_one_at_a_time_and_nothing_is_left(tmp_path):
    path = tmp_path / "lock"
    for _ in range(2):
        with held(path):
            assert is_locked(path)
            os.close(free := os.dup(0))
            with pytest.raises(StoreError, match="wait for it"), held(path):
                pass
            os.close(still := os.dup(0))
            assert still <= free, "those who were refused leave no file open"
            assert is_locked(path)  # and took nothing away
        assert list(tmp_path.iterdir()) == []


def test_of_many_threads_one_holds_it(tmp_path):
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
            except StoreError:
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
        from equitangents.files import locked
        with locked(Path({str(tmp_path / "lock")!r}), ""):
            print(flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], **pipes) as process:
        process.stdout.readline()
        assert process.wait() == -signal.SIGKILL
        assert not is_locked(tmp_path / "lock")
        with held(tmp_path / "lock"):
            assert is_locked(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_where_there_are_no_locks_nobody_is_kept_out_and_the_log_says_so(tmp_path, monkeypatch, caplog):
    def without(descriptor):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(files, "_system_lock", without)
    with held(tmp_path / "lock"), held(tmp_path / "lock"):
        pass
    assert "has no locks" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_that_another_takes_for_left_over_is_there_in_the_end(tmp_path, monkeypatch):
    path, lock, sweepers = tmp_path / "new", files.lock, []

    def swept(descriptor):
        if not sweepers:  # before the new file is held
            other = os.open(path, os.O_RDWR)
            assert lock(other)

            def remove():
                time.sleep(0.05)
                path.unlink()
                os.close(other)

            sweepers.append(threading.Thread(target=remove))
            sweepers[0].start()
        return lock(descriptor)

    monkeypatch.setattr(files, "lock", swept)
    descriptor = files._held(path)
    sweepers[0].join()
    assert files.is_named(descriptor, path)
    os.close(descriptor)
