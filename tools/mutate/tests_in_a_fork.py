"""Tests of a copy in a child of one warm process: libraries are imported once, the package itself by each child.

A child is forked before JAX has started any thread, so that it is as good as a new interpreter.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SEEN_BY = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s:]+(?:::\S+)?)", re.MULTILINE)
PASSED, FAILED, NOTHING = 0, 1, 5


def warm(modules: Sequence[str]) -> None:
    """Import what every child needs; raises RuntimeError if that started a thread, which a fork would lose."""
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
    if threading.active_count() > 1 or threads() > 1:
        raise RuntimeError("importing the libraries started a thread; forks of this process are not safe")


def threads() -> int:
    """Of this process, those of compiled libraries too; 1 where the system has no /proc."""
    folder = Path("/proc/self/task")
    return len(list(folder.iterdir())) if folder.exists() else 1


@dataclass
class Run:
    """Tests that run in a child."""

    pid: int
    log: Path
    limit: float
    began: float

    def poll(self) -> Outcome | None:
        """How it ended, or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        seconds = time.monotonic() - self.began
        if pid == 0:
            if seconds < self.limit:
                return None
            self.stop()
            return Outcome("time limit", None, seconds, self._tail())
        if os.WIFSIGNALED(status):
            return Outcome("crash", None, seconds, self._tail())
        code, text = os.WEXITSTATUS(status), self.log.read_text(errors="replace")
        if code == PASSED:
            return Outcome("passed", None, seconds, "")
        if code == NOTHING:
            return Outcome("no tests", None, seconds, self._tail())
        seen = _SEEN_BY.search(text)
        return Outcome("failed" if seen else "broken", seen[1] if seen else None, seconds, self._tail())

    def stop(self) -> None:
        """End the child and what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:]


@dataclass(frozen=True)
class Outcome:
    """passed, failed (with the test that failed), crash, time limit, no tests, or broken: pytest itself failed."""

    kind: str
    test: str | None
    seconds: float
    tail: str


def start(copy: Path, tests: Sequence[str], log: Path, limit: float, environment: dict[str, str]) -> Run:
    """Run tests of a copy until the first fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    pid = os.fork()
    if pid:
        return Run(pid, log, limit, began)
    code = 3
    try:
        os.setsid()
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, signal.SIG_DFL)
        os.environ.update(environment, PYTHONPATH=os.pathsep.join((str(copy / "src"), str(copy))))
        code = _child(copy, tests, log)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _child(copy: Path, tests: Sequence[str], log: Path) -> int:
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
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
    code = int(pytest.main([*options, *tests], plugins=[_NoShrinking()]))
    sys.stdout.flush()
    return code


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
