"""How much memory there is: the machine's, the container's, the process's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
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


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "3000\n", "a/memory.max": "2000\n", "memory.max": "max\n"}, [2000, 3000]),
        ("0::/docker/0a1b\n", {"memory.max": "4096\n"}, [4096]),  # inside a container the root has the limit
        (  # the first version has a tree for memory
            "5:cpu:/job\n4:memory:/job\n",
            {"memory/job/memory.limit_in_bytes": "512\n", "cpu/job/memory.limit_in_bytes": "1\n", "memory.max": "2\n"},
            [512],
        ),
        ("", {}, []),
    ],
)
def test_the_limits_of_a_group_and_of_those_around_it(tmp_path, lines, files, expected):
    assert limits(tmp_path, lines, files) == expected
    assert list(memory._group_limits(tmp_path / "nothing", tmp_path)) == []


def test_the_least_counts(monkeypatch):
    monkeypatch.setattr(memory, "_physical", lambda: 1000)
    monkeypatch.setattr(memory, "_group_limits", lambda *_: iter([700, 2000]))
    monkeypatch.setattr(memory, "_own_limits", lambda: iter([(memory._ADDRESSES, 900)]))
    monkeypatch.setattr(memory, "_held", lambda: (0, 0, 0))
    memory._inherited.cache_clear()
    try:
        assert memory.process_memory() == 700
        assert memory.default_memory_limit() == 350
        memory.check_fits("a task", 700, "take less")
        with pytest.raises(MemoryLimitError, match="needs about 701 B; expected at most 700 B; take less"):
            memory.check_fits("a task", 701, "take less")
    finally:
        memory._inherited.cache_clear()


def test_what_the_process_holds_is_taken_off_each_limit(monkeypatch):
    monkeypatch.setattr(memory, "_inherited", lambda: ((memory._RESIDENT, 1000), (memory._RESIDENT, 800)))
    monkeypatch.setattr(memory, "_own_limits", lambda: iter([(memory._ADDRESSES, 3000), (memory._DATA, 500)]))
    for held, left in (((0, 0, 0), 500), ((0, 400, 0), 400), ((2900, 0, 0), 100), ((0, 0, 450), 50), ((0, 900, 0), 0)):
        monkeypatch.setattr(memory, "_held", lambda held=held: held)
        assert memory.process_memory() == left
        assert memory.default_memory_limit() == left // 2
        assert memory.machine_memory() == 500


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_held_is_what_the_system_says():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held = memory._held()
    for ours, theirs in ((held[memory._RESIDENT], "VmRSS"), (held[memory._ADDRESSES], "VmSize")):
        assert abs(ours - 1024 * int(lines[theirs].split()[0])) < 2**24


class OfTorchError(RuntimeError):
    """As torch.cuda.OutOfMemoryError is."""


class OldJaxError(jax.errors.JaxRuntimeError):
    """Without a status of its own."""

    error_code_string = None


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), True),
        (OfTorchError(), True),
        (OldJaxError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes"), True),
        (OldJaxError("INTERNAL: after RESOURCE_EXHAUSTED"), False),
        (jax.errors.JaxRuntimeError("INTERNAL: out of memory"), False),
        (RuntimeError("RESOURCE_EXHAUSTED: out of memory, can't allocate memory"), False),
    ],
)
def test_errors_for_lack_of_memory_are_known_by_their_class(error, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(OutOfMemoryError=OfTorchError)))
    assert memory.ran_out(error) == message


def test_an_array_that_jax_cannot_allocate_is_one_of_them():
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.numpy.zeros(10**15).block_until_ready()
    assert memory.ran_out(caught.value)
