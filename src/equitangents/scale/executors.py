"""Distributing work: by processes of this machine, or by any executor of concurrent.futures.

However many workers there are and whichever die: an item, such as a tile, without a result is handed out again.
Processes are loky's, which comes with joblib: they run no `__main__`, and their threads are set by variables.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, TypeVar, cast

from equitangents._aliases import ExecutorLike, TaskExecutor
from equitangents.errors import InvalidTypeError, StoreError
from equitangents.validation import check_whole, is_whole

logger = logging.getLogger("equitangents")

_BREAKS = 3  # times that workers may die one after another without a single item in between
_WATCHING = 0.5  # seconds between a worker's looks at whether its client still lives
_WAITING = 2  # tasks handed out for each worker: one that runs, and one that waits
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_executor(executor: object) -> None:
    """Raise unless `executor` is None, a number of processes, or an executor of concurrent.futures."""
    if is_whole(executor):
        check_whole("executor", executor, 1)
    elif executor is not None and not callable(getattr(executor, "submit", None)):
        raise InvalidTypeError(
            "executor", executor, "None, a number of processes, or an executor of concurrent.futures"
        )


def distribute(
    executor: ExecutorLike,
    run: Callable[[Item], Result],
    items: Iterable[Item],
    report: Callable[[Item, Result], None],
    task: str,
) -> None:
    """`run(item)` for all items by so many processes of this machine, or by an executor; `report(item, result)` here.

    Where a worker dies, new processes of this machine take the items without a result. StoreError where workers die
    three times before there is one more. `task` is what messages call the work.
    """
    workers, breaks, waiting = workers_of(executor), 0, dict.fromkeys(items)
    total = len(waiting)
    pool: AbstractContextManager[TaskExecutor]
    pool = _processes(workers) if is_whole(executor) else nullcontext(cast(TaskExecutor, executor))
    while waiting:
        before = len(waiting)
        try:
            with pool as running:
                _compute(running, workers, run, waiting, report, task)
        except BrokenExecutor:
            breaks = 0 if len(waiting) < before else breaks + 1
            if breaks == _BREAKS:
                raise StoreError(
                    f"{task}: the workers died {_BREAKS} times before a single piece was complete, perhaps for lack "
                    "of memory; run fewer workers, or make the pieces smaller"
                ) from None
            logger.warning(
                "%s: a worker died; %d processes of this machine take the %d of %d pieces that are missing",
                task,
                workers,
                len(waiting),
                total,
            )
            pool = _processes(workers)


def _compute(
    pool: TaskExecutor,
    workers: int,
    run: Callable[[Item], Result],
    waiting: dict[Item, Any],
    report: Callable[[Item, Result], None],
    task: str,
) -> None:
    """Keep every worker of an executor busy, with a task waiting; BrokenExecutor if its workers died."""
    rest, most = iter(list(waiting)), _WAITING * workers
    running: dict[Future[Result], Item] = {}
    try:
        while waiting:
            running |= {pool.submit(run, item): item for item in islice(rest, most - len(running))}
            for future in sorted(wait(running, return_when=FIRST_COMPLETED).done, key=_failed):  # results first
                try:
                    result = future.result()
                except CancelledError:
                    raise StoreError(f"{task}: the executor dropped a task; make a new executor") from None
                item = running.pop(future)
                del waiting[item]
                report(item, result)
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
