"""How much memory there is: the machine's, the container's, the process's own."""

from __future__ import annotations

import pytest

from equitangents import memory
from equitangents.errors import MemoryLimitError


def limits(tmp_path, lines, files):
    for name, text in files.items():
        place = tmp_path / "mount" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (tmp_path / "groups").write_text(lines)
    return sorted(memory._group_limits(tmp_path / "groups", tmp_path / "mount"))


def test_the_limit_of_a_group_and_of_those_around_it(tmp_path):
    files = {"a/b/memory.max": "3000\n", "a/memory.max": "2000\n", "memory.max": "max\n"}
    assert limits(tmp_path, "0::/a/b\n", files) == [2000, 3000]


def test_inside_a_container_the_root_has_the_limit(tmp_path):
    assert limits(tmp_path, "0::/docker/0a1b\n", {"memory.max": "4096\n"}) == [4096]


def test_the_first_version_has_a_tree_for_memory(tmp_path):
    files = {"memory/job/memory.limit_in_bytes": "512\n", "cpu/job/memory.limit_in_bytes": "1\n", "memory.max": "2\n"}
    assert limits(tmp_path, "5:cpu:/job\n4:memory:/job\n", files) == [512]


def test_without_groups_there_is_no_limit(tmp_path):
    assert list(memory._group_limits(tmp_path / "nothing", tmp_path)) == []


def test_the_least_counts(monkeypatch):
    monkeypatch.setattr(memory, "_physical", lambda: 1000)
    monkeypatch.setattr(memory, "_group_limits", lambda *_: iter([700, 2000]))
    monkeypatch.setattr(memory, "_address_limit", lambda: iter([900]))
    memory.process_memory.cache_clear()
    try:
        assert memory.process_memory() == 700
        assert memory.default_memory_limit() == 350
        memory.check_fits("a task", 700, "take less")
        with pytest.raises(MemoryLimitError, match="needs about 701 B of memory, and there are 700 B; take less"):
            memory.check_fits("a task", 701, "take less")
    finally:
        memory.process_memory.cache_clear()
