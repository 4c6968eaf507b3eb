"""Tests of a copy in a child of one warm process: libraries are imported once, the package itself by each child.

A child is forked before JAX has started any thread, so that it is as good as a new interpreter. Seconds are those of
processors, of a child and of all that it has waited for: they are the same on a machine that others keep busy.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import re
import resource
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SEEN_BY = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s:]+(?:::\S+)?)", re.MULTILINE)
PASSED, FAILED, NOTHING = 0, 1, 5
_HANGS = 6.0  # times the limit by the clock: what takes so long waits for something that never comes


def warm(modules: Sequence[str]) -> None:
    """Import what every child needs; raises RuntimeError if that started a thread, which a fork would lose."""
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
    if threading.active_count() > 1 or threads() > 1:
        raise RuntimeError("importing the libraries started a thread; forks of this process are not safe")


def threads() -> int:
    """How many threads this process has, with those of compiled libraries; 1 where the system has no /proc."""
    folder = Path("/proc/self/task")
    return len(list(folder.iterdir())) if folder.exists() else 1


def processor_seconds() -> float:
    """Seconds of processors that this process has used, and its children that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


@dataclass
class Run:
    """Tests that run in a child; `limit` in seconds of processors, `began` by the clock."""

    pid: int
    log: Path
    limit: float
    began: float

    def poll(self) -> Outcome | None:
        """How it ended, or None while it runs."""
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            if time.monotonic() - self.began < _HANGS * self.limit:
                return None
            return Outcome("time limit", None, self.stop(), self._tail())
        seconds = used.ru_utime + used.ru_stime
        if os.WIFSIGNALED(status):
            kind = "time limit" if os.WTERMSIG(status) == signal.SIGXCPU else "crash"
            return Outcome(kind, None, seconds, self._tail())
        code, text = os.WEXITSTATUS(status), self.log.read_text(errors="replace")
        if code == PASSED:
            return Outcome("passed", None, seconds, "")
        if code == NOTHING:
            return Outcome("no tests", None, seconds, self._tail())
        seen = _SEEN_BY.search(text)
        return Outcome("failed" if seen else "broken", seen[1] if seen else None, seconds, self._tail())

    def stop(self) -> float:
        """End the child and what it started; the seconds that it took, 0 if it had ended before."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitid(
                os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
            )  # not waited for: no other has its number
            os.kill(self.pid, signal.SIGKILL)  # a moment ago it had no group of its own yet
            used = os.wait4(self.pid, 0)[2]
            return used.ru_utime + used.ru_stime
        return 0.0

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:]


@dataclass(frozen=True)
class Outcome:
    """passed, failed (with the test that failed), crash, time limit, no tests, or broken: pytest itself failed."""

    kind: str
    test: str | None
    seconds: float
    tail: str


ENDINGS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_back() -> Iterator[None]:
    """Signals that end this process wait until what is forked here is known to whoever ends it; one thread alone."""
    came: list[int] = []
    before = {ending: signal.signal(ending, lambda number, frame: came.append(number)) for ending in ENDINGS}
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
    if came:
        signal.raise_signal(came[0])


def fork(call: Callable[[], int], log: Path, limit: float) -> Run:
    """Call in a child, which writes to `log`, takes at most `limit` seconds, and exits with what the call gives."""
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    pid = os.fork()
    if pid:
        return Run(pid, log, limit, began)
    code = 3
    try:
        os.setsid()
        for ending in ENDINGS:
            signal.signal(ending, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = math.ceil(limit)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))  # each process that it starts has as much
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = call()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start(copy: Path, tests: Sequence[str], log: Path, limit: float, environment: dict[str, str]) -> Run:
    """Run tests of a copy until the first fails."""
    return fork(lambda: _child(copy, tests, environment), log, limit)


def _child(copy: Path, tests: Sequence[str], environment: dict[str, str]) -> int:
    os.environ.update(environment, PYTHONPATH=os.pathsep.join((str(copy / "src"), str(copy))))
    os.chdir(copy)
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tools", "tests", "benchmarks")]:
        del sys.modules[name]
    sys.path[:0] = [str(copy / "src"), str(copy)]
    runpy.run_path(str(copy / "sitecustomize.py"))
    for package in (copy / "src").iterdir():
        found = importlib.util.find_spec(package.stem) if (package / "__init__.py").exists() else None
        if found is not None and not str(found.origin).startswith(str(copy)):
            raise RuntimeError(f"{package.stem} is imported from {found.origin}, not from the copy with the fault")
    import pytest

    options = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-m",
        "not slow",
        "--tb=line",
        "-rfE",
    ]
    return int(pytest.main([*options, *tests], plugins=[_NoShrinking()]))


class _NoShrinking:
    """A failing example of Hypothesis is enough: the smallest one takes minutes."""

    def pytest_sessionstart(self, session: Any) -> None:
        """After conftest.py has chosen its profile."""
        try:
            from hypothesis import Phase, settings
        except ImportError:
            return
        settings.register_profile("mutate", settings.get_profile("default"), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutate")
