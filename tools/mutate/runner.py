"""Runs faults a few at a time: first the tests that should see each, then those of its package.

A fault counts as seen by a test file only if that file passes without any fault: so each is run without one, too.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tools.mutate import copies, native
from tools.mutate.faults import Fault
from tools.mutate.tests_in_a_fork import Outcome, Run, held_back, start

_LIMIT = 900.0  # seconds of a processor for tests without a fault
_LEAST, _FACTOR = 240.0, 20.0  # seconds for tests with one: so many, or so many times what they take without
_NOT_RUN = Outcome("passed", None, 0.0, "")


@dataclass(frozen=True)
class Result:
    """What became of a fault: "seen", "survived", or "unclear" where its tests fail without it."""

    name: str
    package: str
    verdict: str
    by: str
    seconds: float
    key: str


@dataclass(frozen=True)
class Request:
    """Tests to run, with a fault or without."""

    fault: Fault | None
    tests: tuple[str, ...]
    limit: float


Steps = Generator[Request, Outcome, Result]


@dataclass
class _Slot:
    """A copy of the project, and what runs on it."""

    copy: Path
    steps: Steps | None = None
    run: Run | None = None
    planting: ExitStack | None = None


class Runner:
    """Faults in, results out; `report` is called with each result as it comes."""

    def __init__(
        self,
        root: Path,
        scratch: Path,
        jobs: int,
        variables: dict[str, str],
        report: Callable[[Result], None],
        *,
        wide: bool = True,
    ) -> None:
        self.root, self.scratch, self.report, self.variables, self.wide = root, scratch, report, variables, wide
        self._slots = [_Slot(scratch / f"copy{i}") for i in range(jobs)]
        self._numbers: dict[Fault, int] = {}
        self._controls: dict[tuple[str, bool], Outcome] = {}
        self._sources = copies.digest(root, *(p for p in ("src", "native") if (root / p).exists()))

    def prepare(self, engine_faults: Sequence[Fault]) -> None:
        """Make the copies, and an engine that holds `engine_faults` if there are any."""
        for slot in self._slots:
            copies.copy_project(self.root, slot.copy)
        if engine_faults:
            library = native.build(self.root, engine_faults, self.scratch / "engine")
            for slot in self._slots:
                folder = slot.copy / "src/equitangents/_native"
                folder.mkdir(exist_ok=True)
                (folder / library.name).write_bytes(library.read_bytes())
            self._numbers = {fault: number for number, fault in enumerate(engine_faults, start=1)}

    def key(self, fault: Fault, verdict: str, by: str) -> str:
        """What a result depends on: the sources, the fault, and the test that saw it; of survivors all that did not."""
        seen_by = by.partition("::")[0]
        tests = {seen_by} if verdict == "seen" and (self.root / seen_by).is_file() else {*fault.tests, *fault.wide}
        change = hashlib.sha256("\0".join((fault.path, fault.find, fault.put)).encode()).hexdigest()[:16]
        return f"{self._sources}-{copies.digest(self.root, *sorted(t.partition('::')[0] for t in tests))}-{change}"

    def holds(self, before: Result, fault: Fault) -> bool:
        """Whether a result from before is still that of the fault."""
        return before.verdict != "unclear" and before.key == self.key(fault, before.verdict, before.by)

    def run(self, faults: Sequence[Fault]) -> None:
        """Run all of them."""
        waiting = list(reversed(faults))
        try:
            while waiting or any(slot.steps for slot in self._slots):
                for slot in self._slots:
                    if slot.steps is None and waiting:
                        slot.steps = self._steps(waiting.pop())
                        self._send(slot, None)
                    elif slot.run is not None and (outcome := slot.run.poll()) is not None:
                        self._clear(slot)
                        self._send(slot, outcome)
                time.sleep(0.02)
        finally:
            for slot in self._slots:
                if slot.run is not None:
                    slot.run.stop()
                self._clear(slot)

    def _send(self, slot: _Slot, outcome: Outcome | None) -> None:
        assert slot.steps is not None
        try:
            request = next(slot.steps) if outcome is None else slot.steps.send(outcome)
        except StopIteration as end:
            slot.steps = None
            self.report(end.value)
            return
        slot.planting = ExitStack()
        slot.planting.enter_context(copies.planted(request.fault, slot.copy))
        number = 0 if request.fault is None else self._numbers.get(request.fault, 0)
        variables = self.variables | {native.VARIABLE: str(number)}
        with held_back():
            slot.run = start(slot.copy, request.tests, slot.copy.with_suffix(".log"), request.limit, variables)

    def _clear(self, slot: _Slot) -> None:
        if slot.planting is not None:
            slot.planting.close()
        slot.run = slot.planting = None

    def _steps(self, fault: Fault) -> Steps:
        """The tests that are named for the fault, then the wider ones, until one fails."""
        seconds = 0.0

        def end(verdict: str, by: str) -> Result:
            return Result(fault.name, fault.package, verdict, by, round(seconds, 1), self.key(fault, verdict, by))

        if fault.native and fault not in self._numbers:
            return end("unclear", "the engine was not built with it")
        wider = tuple(t for t in fault.wide if t not in fault.tests) if self.wide else ()
        for tests in filter(None, (fault.tests, wider)):
            known = sum(self._controls.get((t, fault.native), _NOT_RUN).seconds for t in tests)
            outcome = yield Request(fault, tests, max(_LEAST, _FACTOR * known))
            seconds += outcome.seconds
            if outcome.kind == "passed":
                continue
            if outcome.kind in ("no tests", "broken"):
                return end("unclear", f"{outcome.kind}: {outcome.tail[-300:]}")
            # a crash or a time limit does not say which test it was
            blamed = tests if outcome.test is None else tuple(t for t in tests if outcome.test.startswith(t))
            for test in blamed:
                if (test, fault.native) not in self._controls:
                    self._controls[test, fault.native] = yield Request(None, (test,), _LIMIT)
                control = self._controls[test, fault.native]
                if control.kind != "passed":
                    return end("unclear", f"{test} does not pass without the fault: {control.tail}")
            return end("seen", outcome.test or outcome.kind)
        return end("survived", "")
