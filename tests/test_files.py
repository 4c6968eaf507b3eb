"""Files appear when they are complete, and not before."""

import threading

import pytest

from equitangents.files import is_abandoned, leftovers, whole_file


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


def test_a_file_that_is_gone_is_nobodys_and_one_that_nobody_holds_is_abandoned(tmp_path):
    left = tmp_path / f".page-{'0' * 32}.html"
    assert not is_abandoned(left, age=0)
    left.touch()
    assert leftovers(tmp_path / "page.html") == [left]
