"""Distributing work: by processes of this machine, or by any executor of concurrent.futures.

However many workers there are and whichever die: an item, such as a tile, that is not there afterwards is handed out
again. Processes are loky's, which comes with joblib: they run no `__main__`, and their threads are set by variables.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar, cast

from equitangents._protocols import ExecutorLike, TaskExecutor
from equitangents.errors import InvalidTypeError, StoreError
from equitangents.validation import check_whole, is_whole

logger = logging.getLogger("equitangents")

_BREAKS = 3  # times that workers may die one after another without a single item in between
_WATCHING = 0.5  # seconds between a worker's looks at whether its client still lives
_WAITING = 2  # tasks handed out for each worker: one that runs, and one that waits
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Tasks(Generic[Item, Result]):
    """What is handed out: `run([item])` is sent to workers, `is_there(item)` and `report(result)` are called here.

    `task` is its name in messages.
    """

    run: Callable[[Sequence[Item]], Result]
    is_there: Callable[[Item], bool]
    report: Callable[[Result], None]
    task: str


def check_executor(executor: object) -> None:
    """Raise unless `executor` is None, a number of processes, or an executor of concurrent.futures."""
    if is_whole(executor):
        check_whole("executor", executor, 1)
    elif executor is not None and not callable(getattr(executor, "submit", None)):
        raise InvalidTypeError(
            "executor", executor, "None, a number of processes, or an executor of concurrent.futures"
        )


def distribute(executor: ExecutorLike, tasks: Tasks[Item, Result], items: Sequence[Item]) -> None:
    """By so many processes of this machine, or by an executor, until every item is there.

    Where a worker dies, new processes of this machine compute the rest. StoreError where workers die three times before
    a single item is there.
    """
    workers, breaks, waiting = workers_of(executor), 0, list(items)
    pool = _processes(workers) if is_whole(executor) else nullcontext(cast(TaskExecutor, executor))
    while waiting:
        try:
            with pool as running:
                _compute(running, workers, tasks, waiting)
            return
        except BrokenExecutor:
            before, waiting = len(waiting), [item for item in waiting if not tasks.is_there(item)]
            breaks = 0 if len(waiting) < before else breaks + 1
            if breaks == _BREAKS:
                raise StoreError(
                    f"{tasks.task}: the workers died {_BREAKS} times before a single piece was complete, perhaps for "
                    "lack of memory; run fewer workers, or make the pieces smaller"
                ) from None
            logger.warning(
                "%s: a worker died; %d processes of this machine take the %d of %d pieces that are missing",
                tasks.task,
                workers,
                len(waiting),
                len(items),
            )
            pool = _processes(workers)


def _compute(pool: TaskExecutor, workers: int, tasks: Tasks[Item, Result], items: Sequence[Item]) -> None:
    """Keep every worker of an executor busy, with a task waiting; BrokenExecutor if its workers died."""
    rest, most = iter(items), _WAITING * workers
    running: set[Future[Result]] = set()
    try:
        while True:
            running |= {pool.submit(tasks.run, [item]) for item in islice(rest, most - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=_failed):  # results first: what is complete is not computed again
                try:
                    result = future.result()
                except CancelledError:
                    raise StoreError(f"{tasks.task}: the executor dropped a task; make a new executor") from None
                tasks.report(result)
    finally:
        for future in running:
            future.cancel()


def _failed(future: Future[Result]) -> bool:
    return future.cancelled() or future.exception() is not None


@contextmanager
def _processes(workers: int) -> Iterator[TaskExecutor]:
    """An executor of so many processes of this machine, which share its cores."""
    from joblib.externals.loky import ProcessPoolExecutor

    threads = str(max(1, _cores() // workers))
    variables = {name: os.environ.get(name, threads) for name in _THREADS}
    pool = ProcessPoolExecutor(workers, env=variables, initializer=_follow, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _follow(client: int) -> None:
    """This process, a worker, leaves Ctrl-C to its client, and ends with it, also when that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == client:
            time.sleep(_WATCHING)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def workers_of(executor: ExecutorLike) -> int:
    """How many tasks an executor runs at once; a number of processes is itself."""
    if is_whole(executor):
        return int(executor)
    return max(1, int(getattr(executor, "_max_workers", 0) or _cores()))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
