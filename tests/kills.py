"""Processes that are killed with kill -9 at one of their writes, before or after it, and workers that die."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

WRITES, NAMES = ("fsync",), ("replace", "rename")  # functions of os


@dataclass(frozen=True)
class Death:
    """By which call a process is killed: the `count`-th of functions of `os`, of those with `target` if one is given.

    It is killed `after` the call or before it; with a count of 0 never.
    """

    names: tuple[str, ...] = ()
    count: int = 0
    after: bool = False
    target: Path | None = None

    @staticmethod
    def drawn(rng: random.Random, most: int) -> Death:
        """Before a file is on disk, before it gets its name, or after, in one of the first `most` calls."""
        names, after = rng.choice([(WRITES, False), (NAMES, False), (NAMES, True)])
        return Death(names, rng.randint(1, most), after)

    def prepare(self) -> None:
        """Have this process killed so."""
        left = self.count

        def counted(call: Callable[..., object], *arguments: object) -> object:
            nonlocal left
            left -= self.target is None or Path(str(arguments[1])) == self.target
            dies = self.count > 0 and left == 0
            if dies and self.after:
                call(*arguments)
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments)

        for name in self.names:
            setattr(os, name, partial(counted, getattr(os, name)))


def killed(work: Callable[[], object], deaths: Iterable[Death]) -> int:
    """How many of the processes that do `work`, one after the other, were killed; one for each of `deaths`."""
    number = 0
    for death in deaths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forking beside threads: none of them computes
            child = os.fork()
        if child == 0:
            death.prepare()
            work()
            os._exit(0)
        number += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    return number


def run(module: str, *arguments: object) -> int:
    """The number that a module of the tests prints, run in a process of its own, which may fork."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    here = Path(__file__).parent
    return int(subprocess.run(command, cwd=here, stdout=subprocess.PIPE, text=True, timeout=500, check=True).stdout)


class Dying:
    """An executor whose worker dies after some tasks."""

    _max_workers = 2

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    def submit(self, function: Callable[..., object], *arguments: object) -> Future[object]:
        """The task done at once, or an error."""
        self.tasks -= 1
        future: Future[object] = Future()
        if self.tasks < 0:
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(function(*arguments))
        return future
