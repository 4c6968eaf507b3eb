"""What the tests cost: processor time of each, memory of each process, and a bound on the latter.

A compiled program stays in memory as long as JAX keeps it, some 2 MB each, and the tests compile thousands. So
a process that has grown past `CLEAR_ABOVE`, and by `GROWTH` since it last did so, forgets its programs after a test.
They are compiled once a run all the same, since its processes, and those that tests start, share a folder of compiled
programs, which is empty at first.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import importlib
import os
import resource
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator
from typing import Any

import pytest

MB, GB = 10**6, 10**9
CLEAR_ABOVE = 900 * MB
GROWTH = 150 * MB  # else a process that keeps more than CLEAR_ABOVE for other reasons would forget after every test
SLOWEST = 10
PROGRAMS_IN_A_CONTEXT = 20

_programs: str | None = None  # the folder, in the process that made it


def share_compiled_programs() -> None:
    """Have this process and those that it starts keep compiled programs in one new folder; before JAX is imported."""
    global _programs
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        _programs = tempfile.mkdtemp(prefix="equitangents-test-programs-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = _programs
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def share_contexts() -> None:
    """Have a thread of JAX lower so many programs in a row in one MLIR context.

    One takes 4 ms to make and to free, and more than 1 MB as long as JAX keeps a program of it. It keeps the constants
    of its programs, too, so that none is used for long.
    """
    mlir = importlib.import_module("jax._src.interpreters.mlir")
    make = getattr(mlir, "make_ir_context", None)
    if make is None:  # another JAX
        return
    kept = threading.local()

    def context() -> Any:
        if getattr(kept, "left", 0) == 0:
            kept.context, kept.left = make(), PROGRAMS_IN_A_CONTEXT
        kept.left -= 1
        return kept.context

    mlir.make_ir_context = context


def processor_seconds() -> float:
    """Of this process and the children that it waited for, so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def memory() -> int:
    """Bytes of this process in memory now; 0 where the system has no /proc."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def peak_memory() -> int:
    """The most bytes that this process, or one that it started, has had in memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def release_memory() -> None:
    """Forget compiled programs, and give what they held back to the system."""
    import jax

    jax.clear_caches()
    gc.collect()
    if sys.platform == "linux" and (libc := ctypes.util.find_library("c")):
        trim = getattr(ctypes.CDLL(libc), "malloc_trim", None)
        if trim is not None:
            trim(0)


class Costs:
    """Measures the tests of this process; in the process that reports, gathers what the others measured."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._limit: float | None = config.getoption("memory_limit")
        self._clear_above: float = CLEAR_ABOVE
        self._seconds: dict[str, float] = {}
        self._processes: dict[str, tuple[float, int]] = {}

    def pytest_collection_finish(self) -> None:
        """Lower programs at less cost, once JAX is imported."""
        share_contexts()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Forget compiled programs where they have grown too many."""
        outcome = yield
        if memory() > self._clear_above:
            release_memory()
            self._clear_above = max(CLEAR_ABOVE, memory() + GROWTH)
        return outcome

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Processor time of fixtures."""
        with _Clock(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Processor time of the test."""
        with _Clock(item):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up; with xdist, what the other processes sent."""
        if report.when == "teardown":
            self._seconds[report.nodeid] = sum(float(v) for k, v in report.user_properties if k == "processor_seconds")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """What a test process of xdist says at its end."""
        if "costs" in getattr(node, "workeroutput", {}):
            self._processes[node.gateway.id] = tuple(node.workeroutput["costs"])

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Fail a run of which a process took more memory than allowed."""
        own = (processor_seconds(), peak_memory())
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["costs"] = own
            return (yield)
        outcome = yield  # here xdist ends its processes
        if not self._processes:
            self._processes["main"] = own
        if self._too_large() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return outcome

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The slowest tests, and memory by process."""
        if self._limit is None:
            return
        terminalreporter.section(f"{SLOWEST} slowest of {len(self._seconds)} tests, in processor seconds")
        for name in sorted(self._seconds, key=self._seconds.__getitem__, reverse=True)[:SLOWEST]:
            terminalreporter.write_line(f"{self._seconds[name]:8.1f}  {name}")
        terminalreporter.section("processes")
        for name, (seconds, peak) in sorted(self._processes.items()):
            terminalreporter.write_line(f"{name}: {seconds:.0f} processor seconds, at most {peak // MB} MB of memory")
        for name in self._too_large():
            terminalreporter.write_line(
                f"FAILED: process {name} took more than {self._limit} GB of memory, the most a test process may take",
                red=True,
            )

    def pytest_unconfigure(self) -> None:
        """Remove the folder of compiled programs."""
        if _programs is not None:
            shutil.rmtree(_programs, ignore_errors=True)

    def _too_large(self) -> list[str]:
        limit = self._limit
        return [] if limit is None else [name for name, (_, peak) in self._processes.items() if peak > limit * GB]


class _Clock:
    """Adds the processor time of a block to the properties of a test."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __enter__(self) -> None:
        self._start = processor_seconds()

    def __exit__(self, *_: object) -> None:
        self._item.user_properties.append(("processor_seconds", round(processor_seconds() - self._start, 3)))
