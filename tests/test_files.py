"""Files appear when they are complete, and not before."""

import os
import threading
from pathlib import Path

import pytest

from equitangents import locks
from equitangents.files import whole_file


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "folder" / "page.html"
    with whole_file(path) as partial:
        partial.write_text("half")
        assert not path.exists()
    assert path.read_text() == "half"
    with pytest.raises(FileNotFoundError), whole_file(path) as partial:
        partial.with_name("no such folder").joinpath("x").write_text("broken")
    assert path.read_text() == "half"
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


def test_several_may_write_one_file_at_once(tmp_path):
    path, together = tmp_path / "a.txt", threading.Barrier(8)

    def write(i):
        with whole_file(path) as partial:
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
            taken.append(locks.lock(descriptor))
        unlink(file, **options)

    monkeypatch.setattr(Path, "unlink", observed)
    with whole_file(tmp_path / "page.html") as partial:
        partial.write_text("whole")
    os.close(descriptor)
    assert taken == [False]
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    with whole_file(tmp_path / "page.html") as other:
        with whole_file(tmp_path / "page.html") as partial:
            partial.write_text("one")
        other.write_text("two")
    assert (tmp_path / "page.html").read_text() == "two"
