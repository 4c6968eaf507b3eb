"""How `make test` runs: processes that fit in memory, a hanging test that fails, new examples on request."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIB = 2**30


def jobs(root, processors):
    environment = os.environ | {"ROOT": str(root), "PROCESSORS": str(processors)}
    done = subprocess.run(["bash", ROOT / "scripts" / "jobs.sh"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def machine(root, free=None, **limits):
    """A root folder that says what a machine has: bytes free, and files of its control group."""
    if free is not None:
        (root / "proc").mkdir()
        (root / "proc" / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:  {free // 1024} kB\n")
    (root / "sys" / "fs" / "cgroup" / "memory").mkdir(parents=True)
    for name, text in limits.items():
        (root / "sys" / "fs" / "cgroup" / name.replace("__", "/").replace("_", ".", 1)).write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(("free", "processors", "expected"), [(64, 2, 2), (64, 32, 8), (4, 8, 2), (1, 8, 1)])
def test_as_many_processes_as_there_are_processors_and_memory_for(free, processors, expected, tmp_path):
    assert jobs(machine(tmp_path, free * GIB), processors) == expected


def test_limits_of_a_container_count(tmp_path):
    machine(tmp_path, 64 * GIB, memory_max=6 * GIB, memory_current=1 * GIB)
    assert jobs(tmp_path, 8) == 3
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert jobs(tmp_path, 8) == 8
    (tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text(f"{3 * GIB}\n")
    assert jobs(tmp_path, 8) == 2
    (tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert jobs(tmp_path, 8) == 8


TESTS = """
import time
from hypothesis import given, strategies as st
def test_quick(): pass
def test_hangs(): time.sleep(60)
def test_fills_memory(): assert len(bytearray(300_000_000)) and sum(bytes(10))  == 0
@given(st.integers())
def test_draws(number): print("drew", number)
"""


@pytest.fixture
def pytest_run(tmp_path):
    """Runs chosen tests of `TESTS` in a process of their own, with the settings of this folder's conftest."""
    for name in ("conftest.py", "costs.py", "array_types.py"):
        (tmp_path / name).write_text((ROOT / "tests" / name).read_text())
    (tmp_path / "test_them.py").write_text(TESTS)

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "test_them.py"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250)

    return run


@pytest.mark.slow
def test_a_hanging_test_fails(pytest_run):
    done = pytest_run("-k", "hangs", "--timeout", "1", "--timeout-method", "thread")
    assert done.returncode != 0
    assert "Timeout" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_process_that_takes_too_much_memory_fails_the_run(pytest_run):
    done = pytest_run("-k", "quick or memory", "--memory-limit", "0.2", "-n", "1")
    assert done.returncode == 1
    assert "2 passed" in done.stdout
    assert "gw0:" in done.stdout
    assert "more than 0.2 GB" in done.stdout
    assert "slowest of 2 tests" in done.stdout
    done = pytest_run("-k", "quick or memory", "--memory-limit", "4")
    assert (done.returncode, "FAILED" in done.stdout) == (0, False), done.stdout + done.stderr


@pytest.mark.slow
def test_new_examples_are_drawn_for_every_seed_and_only_then(pytest_run):
    def drawn(*arguments):
        done = pytest_run("-k", "draws", "-s", *arguments)
        assert done.returncode == 0, done.stdout
        return [line for line in done.stdout.splitlines() if line.startswith("drew")]

    random = ("--hypothesis-profile", "random", "--hypothesis-seed")
    one, again, other = (drawn(*random, seed) for seed in "556")
    assert one == again
    assert one != other


def test_every_property_test_leaves_the_choice_of_examples_to_the_profile():
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            text = path.read_text(encoding="utf-8")
            assert "derandomize" not in text, path
            assert "phases=" not in text, path
