"""Drawn faults, all planted in one copy at once: a switch says which of them is there.

An expression becomes `((as changed) if eqt_fault(3) else (as it was))`, a statement that is left out
`if not eqt_fault(3): …`. So the package and all tests are imported once, and each fault is run in a fork of that
process, before JAX has started a thread. Without any fault a test file notes which faults its tests reach, their
seconds, and which fail: a fault is run against the tests that reach it and pass without it, the nearest files first,
and then against the rest of their files.
"""

from __future__ import annotations

import builtins
import compileall
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.mutate import copies
from tools.mutate.drawn import test_files
from tools.mutate.faults import Fault
from tools.mutate.runner import Result
from tools.mutate.switches import CHOSEN, REACHED, SWITCH, with_switches
from tools.mutate.tests_in_a_fork import Run, fork, held_back, processor_seconds, threads

_LIMIT = 900.0  # seconds for a file without a fault
_LEAST, _FACTOR = 60.0, 20.0  # seconds for tests with one: so many, or so many times what they take without
_AT_ONCE = 20.0  # seconds of tests that are run in one fork
_FILES, _TESTS = 4, 12  # so many files of those known to reach a fault, and so many tests of each, are run at first
_NAMED = 3  # so many files that name a fault's function are run without it before all else, until one reaches it


@dataclass
class Control:
    """A test file without any fault: seconds of its tests that pass, and the faults that each of them reaches."""

    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    reached: dict[str, list[str]] = field(default_factory=dict)  # by the fault's name

    def tests(self, fault: Fault) -> list[str]:
        """Those that reach a fault and pass without it; the fastest first."""
        return sorted((t for t in self.reached.get(fault.name, ()) if t in self.seconds), key=self.seconds.__getitem__)


@dataclass
class _Ran:
    """What a fault was run against without being seen: tests, their seconds without it, and with it."""

    tests: set[str] = field(default_factory=set)
    seconds: float = 0.0
    took: float = 0.0


class Switched:
    """Faults in, results out; `report` is called with each result as it comes."""

    def __init__(
        self,
        root: Path,
        scratch: Path,
        faults: Sequence[Fault],
        key: Callable[[Fault, str, str], str],
        report: Callable[[Result], None],
        *,
        most: float,
        kept: Path,
    ) -> None:
        self.root, self.copy, self.faults, self.most = root, scratch / "switched", list(faults), most
        self.key, self.report = key, report
        named = "\0".join(f.name for f in faults)
        helpers = [str(p.relative_to(root)) for p in sorted((root / "tests").rglob("*.py")) if p.name[:5] != "test_"]
        known = copies.digest(root, "src", *helpers)[:12] + hashlib.sha256(named.encode()).hexdigest()[:8]
        self._file = kept / f"controls-{known}.jsonl"
        self._controls: dict[str, Control] = {}
        self._read = 0
        self._ran: dict[str, _Ran] = {}
        self._number = {fault.name: number for number, fault in enumerate(self.faults)}
        self._there: set[int] = set()
        self._at_import: set[int] = set()

    def prepare(self) -> None:
        """Plant all, and import all, which starts no thread: what asks JAX for a device is imported by each fork."""
        copies.copy_project(self.root, self.copy)
        for path in sorted({fault.path for fault in self.faults}):
            file = self.copy / path
            of_file = [(number, fault) for number, fault in enumerate(self.faults) if fault.path == path]
            text, there = with_switches(file.read_text(), of_file)
            file.write_text(text)
            self._there |= set(there)
        site = self.copy / "sitecustomize.py"
        site.write_text(site.read_text() + SWITCH)
        compileall.compile_dir(str(self.copy / "src"), quiet=2)
        at_import = self.copy.with_suffix(".imports")
        at_import.touch()
        os.environ[REACHED] = str(at_import)
        os.environ["PYTHONPATH"] = os.pathsep.join((str(self.copy / "src"), str(self.copy)))
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tools", "tests", "benchmarks")]:
            del sys.modules[name]
        sys.path[:0] = [str(self.copy / "src"), str(self.copy)]
        os.chdir(self.copy)
        exec(compile(site.read_text(), str(site), "exec"), {"__name__": "sitecustomize"})
        self._import()
        self._at_import = {int(line.split()[0]) for line in at_import.read_text().splitlines()}
        del os.environ[REACHED]
        if threads() > 1:
            raise RuntimeError("importing the tests started a thread; forks of this process are not safe")

    def _import(self) -> None:
        import jax._src.xla_bridge as bridge
        import pytest

        def refused(*_: Any, **__: Any) -> Any:
            raise RuntimeError("no device while the tests are imported: its threads are lost in a fork")

        log = self.copy.with_suffix(".imports.log").open("wb")
        kept = os.dup(1), os.dup(2)
        sys.stdout.flush()
        devices, bridge.backends = bridge.backends, refused
        try:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            pytest.main(["-q", "--collect-only", *_OPTIONS])
        finally:
            sys.stdout.flush()
            bridge.backends = devices
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)

    def apart(self, fault: Fault) -> bool:
        """Whether a fault is not planted by a switch, or already counts while the package is imported."""
        number = self._number[fault.name]
        return number not in self._there or number in self._at_import

    def run(self, faults: Sequence[Fault]) -> None:
        """All against the nearest tests, then those not seen against files known to reach them, then against all."""
        self._refresh()
        for place in range(_NAMED):
            for fault in faults:
                if fault.tests[place:] and not any(fault.name in c.reached for c in self._controls.values()):
                    self._control(fault.tests[place])
        left = list(faults)
        for far in ("near", "known", "all"):
            waiting, left = left, []
            for fault in waiting:
                result = self._result(fault, far)
                if result is None:
                    left.append(fault)
                else:
                    self.report(result)
            print(f"{len(left)} are not seen by tests: {far}", flush=True)

    def _result(self, fault: Fault, far: str) -> Result | None:
        """What became of a fault; None where there are more tests to run."""
        ran = self._ran.setdefault(fault.name, _Ran())

        def end(verdict: str, by: str) -> Result:
            return Result(fault.name, fault.package, verdict, by, round(ran.took, 1), self.key(fault, verdict, by))

        for tests in self._near(fault) if far == "near" else self._all(fault, known=far == "known"):
            cost = sum(self._controls[_file(t)].seconds[t] for t in tests)
            if cost > self.most - ran.seconds and ran.tests and far != "near":
                return end("survived", f"the nearest {len(ran.tests)} tests, {ran.seconds:.0f} s; more reach it")
            code, seen, took = self._fork(tests, self._number[fault.name], max(_LEAST, _FACTOR * cost))
            ran.took, ran.seconds = ran.took + took, ran.seconds + cost
            ran.tests |= set(tests)
            if code != "passed":
                return end("seen", seen or code)
            if len(self._ended().splitlines()) < len(tests):
                return end("unclear", f"of {len(tests)} tests not all were found again")
        if far != "all":
            return None
        return end("survived", f"{len(ran.tests)} tests: all that reach it, and others of their files")

    def _near(self, fault: Fault) -> Iterator[list[str]]:
        """The tests of the files that reach it the fastest, as far as is known, then the files that name it."""
        self._refresh()
        costs = {}
        for name, control in self._controls.items():
            tests = control.tests(fault)
            if tests:
                costs[name] = sum(map(control.seconds.__getitem__, tests))
        first = sorted(costs, key=lambda name: (name not in fault.tests, costs[name]))[:_FILES]
        found = [
            test for name in first for test in self._controls[name].tests(fault)[:_TESTS] if costs[name] < _AT_ONCE
        ]
        if found:
            yield found

    def _all(self, fault: Fault, *, known: bool) -> Iterator[list[str]]:
        """Tests that reach it, then the others of their files, which may only find what is cached."""
        self._refresh()
        files = [*fault.wide, *(f for f in test_files(self.copy) if f not in fault.wide)]
        files.sort(key=lambda name: name not in self._controls)
        if known:
            files = [name for name in files if name in self._controls]
        reaching: list[str] = []
        ran = self._ran[fault.name].tests
        for others in (False,) if known else (False, True):
            batch: list[str] = []
            for name in reaching if others else files:
                if batch and name not in self._controls:
                    yield batch
                    batch = []
                control = self._control(name)
                found = control.tests(fault)
                if others:
                    found = list(control.seconds)
                elif found:
                    reaching.append(name)
                batch += [test for test in found if test not in ran]
                if sum(self._controls[_file(t)].seconds[t] for t in batch) > _AT_ONCE:
                    yield batch
                    batch = []
            if batch:
                yield batch

    def _refresh(self) -> None:
        """Read what other processes, or earlier runs, have found out about test files."""
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._read += len(text)
        for line in text.decode().splitlines():
            found = json.loads(line)
            name = found.pop("name")
            if found.pop("digest") == copies.digest(self.root, name):
                self._controls.setdefault(name, Control(**found))

    def _control(self, name: str) -> Control:
        self._refresh()
        if name not in self._controls:
            reached = self._recording()
            code, _, _ = self._fork([name], None, _LIMIT)
            del os.environ[REACHED]
            control = self._told(name, reached)
            if code in ("crash", "time limit"):
                control.failed.append(code)
            self._keep(name, control)
        return self._controls[name]

    def _recording(self) -> Path:
        reached = self.copy.with_suffix(".reached")
        reached.write_text("")
        os.environ[REACHED] = str(reached)
        return reached

    def _told(self, name: str, reached: Path) -> Control:
        control = Control()
        for line in self._ended().splitlines():
            said = json.loads(line)
            if said["passed"]:
                control.seconds[said["test"]] = said["seconds"]
            else:
                control.failed.append(said["test"])
        for line in reached.read_text().splitlines():
            number, _, test = line.partition(" ")
            if test.startswith(name):
                control.reached.setdefault(self.faults[int(number)].name, []).append(test)
        return control

    def _keep(self, name: str, control: Control) -> None:
        self._controls[name] = control
        with self._file.open("a") as out:
            digest = copies.digest(self.root, name)
            out.write(json.dumps({"name": name, "digest": digest, **asdict(control)}) + "\n")

    def _ended(self) -> str:
        return self.copy.with_suffix(".ended").read_text()

    def _fork(self, tests: Sequence[str], number: int | None, limit: float) -> tuple[str, str | None, float]:
        """passed, failed, crash, or time limit; the test that failed; seconds."""
        self.copy.with_suffix(".ended").write_text("")
        running: Run | None = None
        try:
            with held_back():
                running = fork(lambda: self._child(tests, number), self.copy.with_suffix(".log"), limit)
            while (outcome := running.poll()) is None:
                time.sleep(0.01)
        finally:
            if running is not None:
                running.stop()  # also what it started
        failed = [said["test"] for line in self._ended().splitlines() if not (said := json.loads(line))["passed"]]
        kind = "failed" if outcome.kind == "broken" else outcome.kind
        seen = failed[0] if failed else None if kind != "failed" else f"pytest ended: {outcome.tail[-200:]}"
        return kind, seen, outcome.seconds

    def _child(self, tests: Sequence[str], number: int | None) -> int:
        import pytest

        if number is not None:
            os.environ[CHOSEN] = str(number)
            stop = ["-x"]
            if REACHED not in os.environ:
                ours = number
                builtins.eqt_fault = lambda other: other == ours  # type: ignore[attr-defined]
        else:
            stop = []
        files = list(dict.fromkeys(map(_file, tests)))
        noted = _Noted(self.copy.with_suffix(".ended"), [t for t in tests if "::" in t])
        code = int(pytest.main([*_OPTIONS, *stop, "-q", *files], plugins=[noted]))
        return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


_OPTIONS = ["-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "--tb=line", "-rfE",
            "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip


class _Noted:
    """Runs the tests asked for in their order, and notes how each ended."""

    def __init__(self, file: Path, tests: Sequence[str]) -> None:
        self._file = file
        self._place = {test: place for place, test in enumerate(tests)}
        self._began = 0.0
        self._failed: set[str] = set()

    def pytest_collection_modifyitems(self, session: Any, config: Any, items: list[Any]) -> None:
        """Only the tests asked for, files in their order and a file's tests in its own, as fixtures are shared."""
        if self._place:
            first: dict[str, int] = {}
            for test, place in self._place.items():
                first.setdefault(_file(test), place)
            items[:] = sorted((i for i in items if i.nodeid in self._place), key=lambda i: first[_file(i.nodeid)])

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """A test begins."""
        self._began = processor_seconds()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A line a test."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when == "teardown" or report.failed:
            self._say(report.nodeid, report.nodeid not in self._failed, processor_seconds() - self._began)

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported is a test that fails."""
        if report.failed:
            self._say(report.nodeid, False, 0.0)

    def _say(self, test: str, passed: bool, seconds: float) -> None:
        with self._file.open("a") as out:
            out.write(json.dumps({"test": test, "passed": passed, "seconds": round(seconds, 3)}) + "\n")


def _file(test: str) -> str:
    return test.partition("::")[0]
