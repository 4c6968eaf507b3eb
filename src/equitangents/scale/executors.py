"""Handing work to workers: this process, processes of this machine, any executor of concurrent.futures, Dask.

However many there are and whichever die: an item, such as a tile, that is not there afterwards is handed out again.
"""

from __future__ import annotations

import concurrent.futures
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Queue
from typing import Any, Generic, Protocol, TypeVar, cast

from equitangents._protocols import ExecutorLike, TaskExecutor
from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    InvalidTypeError,
    StoreError,
)
from equitangents.extras import require
from equitangents.validation import check_whole, is_whole

logger = logging.getLogger("equitangents")

_TASK = 0.5  # seconds that the items of one task take at least, about, and
_TURN = 0.01  # for each worker: so many seconds pass between two tasks that are handed out, however many workers
_DASK_TALK = ("asyncio", "tornado.application", "distributed.client", "distributed.comm.core", "distributed.comm.tcp")
_CONNECTING = 30.0  # seconds until a scheduler is said not to answer
_COUNTED = 5.0  # seconds between counts of the workers, which come and go
_BREAKS = 3  # times that workers may die one after another without a single item in between
_WATCHING = 0.5  # seconds between a worker's looks at whether its client still lives
_WAITING = 2  # tasks handed out for each worker: one that runs, and one that waits

Item = TypeVar("Item")


class Finished(Protocol):
    """What a worker returns: how many items it computed, others were there, and how long that took."""

    @property
    def computed(self) -> int:
        """Items that were computed."""

    @property
    def seconds(self) -> float:
        """The time they took."""


Result = TypeVar("Result", bound=Finished)


@dataclass(frozen=True)
class Tasks(Generic[Item, Result]):
    """What is handed out: `run(items)` is sent to workers, `is_there(item)` and `report(result)` are called here.

    `task` and `items` are their names in messages, `kept` what becomes of those that are complete when it fails;
    `at_once`: items that a worker is given at most.
    """

    run: Callable[[Sequence[Item]], Result]
    is_there: Callable[[Item], bool]
    report: Callable[[Result], None]
    task: str = "gram"
    items: str = "tiles"
    item: str = "tile"
    kept: str = "what is complete is kept"
    remedy: str = "run fewer workers, or give a smaller tile to a new store"
    at_once: int = 64


def compute_with(executor: TaskExecutor, tasks: Tasks[Item, Result], items: Sequence[Item]) -> None:
    """By an executor of concurrent.futures, or a client of dask.distributed; BrokenExecutor if its workers died."""
    pool = executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor
    check_executor(executor)
    _hand_out(pool, lambda: workers_of(executor), tasks, items)


def check_executor(executor: object) -> None:
    """Raise InvalidTypeError for what is none."""
    if not callable(getattr(executor, "submit", None)) and not hasattr(executor, "get_executor"):
        raise InvalidTypeError(
            f"executor is {executor!r}; expected None, a number of processes, an executor of concurrent.futures, or a "
            "dask.distributed.Client"
        )


def check_spread(executor: object) -> None:
    """Raise unless `executor` is None, a number of processes, an address of Dask's, or an executor."""
    if executor is None or isinstance(executor, str):
        return
    if is_whole(executor):
        check_whole("executor", executor, 1)
        return
    if isinstance(executor, bool):
        raise InvalidTypeError(f"executor is {executor!r}; expected a number of processes, or an executor")
    check_executor(executor)


def compute_by_processes(workers: int, tasks: Tasks[Item, Result], items: Sequence[Item]) -> None:
    """By `workers` processes of this machine, which share its cores; those that die are started again."""
    from joblib.externals.loky import ProcessPoolExecutor  # its processes run no `__main__`, and are told their threads

    threads = str(max(1, _cores() // workers))
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    breaks, waiting = 0, list(items)
    while waiting:
        pool = ProcessPoolExecutor(
            workers, env={**variables, **_given(variables)}, initializer=_follow, initargs=(os.getpid(),)
        )
        before = len(waiting)
        try:
            _hand_out(pool, lambda: workers, tasks, waiting)
            return
        except BrokenExecutor:
            waiting = [item for item in waiting if not tasks.is_there(item)]
            breaks = 0 if len(waiting) < before else breaks + 1
            if breaks == _BREAKS:
                raise StoreError(
                    f"the workers died {_BREAKS} times before a single {tasks.item} was complete, perhaps for lack of "
                    f"memory: {tasks.remedy}; {tasks.kept}"
                ) from None
            logger.warning("%s: a worker died; %d %s are handed out again", tasks.task, len(waiting), tasks.items)
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


@contextmanager
def dask_client(scheduler: str) -> Iterator[Any]:
    """A client of the Dask scheduler at an address such as tcp://host:8786, or described in a file.

    Where it does not answer, or dies, Dask's own loggers would show tracebacks beside the error that says so.
    """
    client_of = require("distributed", "scale", "a Dask scheduler").Client
    where = {"scheduler_file": scheduler} if os.path.isfile(scheduler) else {"address": scheduler}
    with _quiet(_DASK_TALK):
        try:
            client = client_of(**where, timeout=_CONNECTING)
        except (OSError, ValueError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise InvalidArgumentError(f"scheduler is {scheduler!r}, which does not answer: {said}") from None
        with client:
            yield client


@contextmanager
def _quiet(names: Sequence[str]) -> Iterator[None]:
    """Without the words of these loggers, which tell by tracebacks what an error of ours then says."""
    loggers = [logging.getLogger(name) for name in names]
    before = [one.disabled for one in loggers]
    for one in loggers:
        one.disabled = True
    try:
        yield
    finally:
        for one, was in zip(loggers, before, strict=True):
            one.disabled = was


def _hand_out(
    pool: TaskExecutor, workers: Callable[[], int], tasks: Tasks[Item, Result], items: Sequence[Item]
) -> None:
    """Keep every worker busy, with a task waiting; each is of as many items as take half a second, or longer for many
    workers.
    """
    complete: Queue[Future[Result]] = Queue()
    running: set[Future[Result]] = set()
    size, rest = 1, iter(items)
    count, counted = workers(), time.monotonic()
    try:
        while True:
            if time.monotonic() - counted > _COUNTED:
                count, counted = workers(), time.monotonic()
            while len(running) < _WAITING * count and (batch := _next(rest, size)):
                future = pool.submit(tasks.run, batch)
                running.add(future)
                future.add_done_callback(complete.put)
            if not running:
                return
            future = complete.get()
            running.remove(future)
            done = _result(future, tasks.kept)
            tasks.report(done)
            size = _size(tasks, done, max(_TASK, _TURN * count)) or size
            size = max(1, min(size, len(items) // (4 * count)))
    finally:
        for future in running:
            future.cancel()


def _size(tasks: Tasks[Item, Result], done: Finished, seconds: float) -> int:
    """How many items take so long, as those did that are done; 0 where these say nothing."""
    if not done.computed:
        return 0
    return max(1, min(tasks.at_once, int(seconds * done.computed / max(done.seconds, 1e-9))))


def _result(future: Future[Result], kept: str) -> Result:
    try:
        return future.result()
    except (EquitangentsError, BrokenExecutor):
        raise
    except concurrent.futures.CancelledError:
        raise StoreError(f"the scheduler dropped a task; {kept}, and the same call goes on") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "distributed":
            raise StoreError(
                f"the workers of the scheduler failed: {error}; {kept}, and the same call goes on"
            ) from error
        raise


def _next(rest: Iterator[Item], size: int) -> list[Item]:
    return [item for _, item in zip(range(size), rest, strict=False)]


def workers_of(executor: int | TaskExecutor) -> int:
    """How many tasks an executor runs at once, now; a number of processes is itself."""
    if is_whole(executor):
        return int(executor)
    if hasattr(executor, "nthreads"):  # of Dask, whose workers come and go
        return max(1, sum(executor.nthreads().values()))
    return max(1, int(getattr(executor, "_max_workers", 0) or _cores()))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _given(variables: dict[str, str]) -> dict[str, str]:
    """The numbers of threads that the environment asks for."""
    return {name: os.environ[name] for name in variables if name in os.environ}


@contextmanager
def opened(executor: ExecutorLike | None) -> Iterator[Any]:
    """`executor`, or a client of the Dask scheduler at this address, which is closed at the end."""
    if isinstance(executor, str):
        with dask_client(executor) as client:
            yield client
    else:
        yield executor


def spread(executor: int | TaskExecutor, tasks: Tasks[Item, Result], items: Sequence[Item]) -> None:
    """By so many processes of this machine, or by an opened executor, until every item is there.

    Where a worker of an executor dies and it takes no more tasks, processes of this machine compute the rest.
    """
    if is_whole(executor):
        compute_by_processes(int(executor), tasks, items)
        return
    pool = cast(TaskExecutor, executor)
    try:
        compute_with(pool, tasks, items)
    except BrokenExecutor:
        waiting = [item for item in items if not tasks.is_there(item)]
        count = workers_of(pool)
        logger.warning(
            "%s: a worker of the executor died, and it takes no more tasks; %d processes of this machine take the %d "
            "%s that are missing",
            tasks.task,
            count,
            len(waiting),
            tasks.items,
        )
        compute_by_processes(count, tasks, waiting)


def part_of(work: list[Item], shard: tuple[int, int] | None) -> list[Item]:
    """Every n-th item from the i-th on, for shard (i, n), 0 ≤ i < n; all of them for None.

    >>> part_of([1, 2, 3, 4, 5], (1, 2))
    [2, 4]
    """
    if shard is None:
        return work
    if not (isinstance(shard, tuple | list) and len(shard) == 2):
        raise InvalidTypeError(f"shard is {shard!r}; expected (i, n), the i-th of n parts")
    count = check_whole("n of shard", shard[1], 1)
    return work[check_whole("i of shard", shard[0], 0, count - 1) :: count]
