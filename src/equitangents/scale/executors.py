"""Distributing tiles: to processes on this machine, or to any executor of concurrent.futures.

A tile without a result is handed out again, whichever processes die. Processes are loky's, which comes with joblib:
they do not run `__main__`, and their threads are set by environment variables.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import joblib

from equitangents.errors import InvalidTypeError, StoreError
from equitangents.scale.chunks import Tile
from equitangents.validation import check_whole, is_whole

logger = logging.getLogger("equitangents")

_BREAKS = 3  # times that workers may die one after another without a single tile in between
_WATCHING = 0.5  # seconds between a worker's looks at whether its client still lives
_WAITING = 2  # tiles handed out for each worker: one that is computed, and one that waits
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Item = TypeVar("Item")


@runtime_checkable
class TaskExecutor(Protocol):
    """An object that hands tasks to workers, such as an executor of `concurrent.futures`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """A future of fn(*args, **kwargs), which has `result`, `cancel` and `add_done_callback`."""


ExecutorLike = int | TaskExecutor
"""A number of processes of this machine, or an executor."""


def check_executor(executor: object) -> None:
    """Raise unless `executor` is None, a number of processes, or an executor of concurrent.futures."""
    if is_whole(executor):
        check_whole("executor", executor, 1)
    elif executor is not None and not callable(getattr(executor, "submit", None)):
        raise InvalidTypeError(
            "executor", executor, "None, a number of processes, or an executor of concurrent.futures"
        )


def distribute(
    executor: ExecutorLike, run: Callable[[Tile], bool], tiles: Iterable[Tile], report: Callable[[bool], None]
) -> None:
    """`run(tile)` for all tiles by processes on this machine, or by an executor; calls `report(result)` here.

    Processes that die are replaced. StoreError if they die three times without finishing a tile, or if an executor's
    workers die.
    """
    waiting, breaks = dict.fromkeys(tiles), 0
    while waiting:
        before = len(waiting)
        try:
            if is_whole(executor):
                with _processes(executor) as pool:
                    _compute(pool, executor, run, waiting, report)
            else:
                custom = cast(TaskExecutor, executor)
                _compute(custom, getattr(custom, "_max_workers", 0) or joblib.cpu_count(), run, waiting, report)
        except BrokenExecutor:
            breaks = 0 if len(waiting) < before else breaks + 1
            if breaks == _BREAKS or not is_whole(executor):
                raise StoreError(
                    "workers died, perhaps for lack of memory: run fewer, or make the tiles smaller"
                ) from None
            logger.warning("gram: a worker died; others take the %d tiles that are missing", len(waiting))


def _compute(
    pool: TaskExecutor,
    workers: int,
    run: Callable[[Tile], bool],
    waiting: dict[Tile, Any],
    report: Callable[[bool], None],
) -> None:
    """Keep every worker of an executor busy, with one tile queued; BrokenExecutor if its workers died."""
    rest, running = iter(list(waiting)), dict[Future[bool], Tile]()
    try:
        while waiting:
            running |= {pool.submit(run, tile): tile for tile in islice(rest, _WAITING * workers - len(running))}
            done = wait(running, return_when=FIRST_COMPLETED).done
            for future in sorted(done, key=lambda future: future.exception() is not None):  # results first
                result = future.result()
                del waiting[running.pop(future)]
                report(result)
    finally:
        for future in running:
            future.cancel()


@contextmanager
def _processes(workers: int) -> Iterator[TaskExecutor]:
    """An executor with `workers` processes on this machine, which share its cores."""
    from joblib.externals.loky import ProcessPoolExecutor

    threads = str(max(1, joblib.cpu_count() // workers))
    variables = {name: os.environ.get(name, threads) for name in _THREADS}
    pool = ProcessPoolExecutor(workers, env=variables, initializer=_follow, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _follow(client: int) -> None:
    """Make this worker ignore Ctrl-C, and end with its client, even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == client:
            time.sleep(_WATCHING)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def part_of(work: list[Item], shard: tuple[int, int] | None) -> list[Item]:
    """Every n-th item from the i-th on, for shard (i, n), 0 ≤ i < n; all of them for None.

    >>> part_of([1, 2, 3, 4, 5], (1, 2))
    [2, 4]
    """
    if shard is None:
        return work
    if not (isinstance(shard, tuple | list) and len(shard) == 2):
        raise InvalidTypeError("shard", shard, "(i, n), the i-th of n parts")
    count = check_whole("n of shard", shard[1], 1)
    return work[check_whole("i of shard", shard[0], 0, count - 1) :: count]
