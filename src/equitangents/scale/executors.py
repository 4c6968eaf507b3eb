"""Handing tiles to workers: this process, processes of this machine, any executor of concurrent.futures, Dask.

However many there are and whichever die: a tile that is not there afterwards is handed out again.
"""

from __future__ import annotations

import concurrent.futures
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from queue import Queue
from typing import Any

from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    InvalidTypeError,
    MissingLibraryError,
    StoreError,
)
from equitangents.scale.grid import Tile
from equitangents.scale.tiles import Done, Work, compute_tiles

logger = logging.getLogger("equitangents")

_TASK = 0.5  # seconds that the tiles of one task take, about
_AT_ONCE = 64  # tiles of one task at most
_CONNECTING = 30.0  # seconds until a scheduler is said not to answer
_COUNTED = 5.0  # seconds between counts of the workers, which come and go
_BREAKS = 3  # times that workers may die one after another without a single tile in between
_WAITING = 2  # tasks handed out for each worker: one that runs, and one that waits

Report = Callable[[Done], None]


def compute_here(work: Work, tiles: Sequence[Tile], report: Report) -> None:
    """One tile after another in this process."""
    for tile in tiles:
        report(compute_tiles(work, [tile]))


def compute_with(executor: Any, work: Work, tiles: Sequence[Tile], report: Report) -> None:
    """By an executor of concurrent.futures, or a client of dask.distributed."""
    pool = executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor
    if not callable(getattr(pool, "submit", None)):
        raise InvalidTypeError(
            f"executor is {executor!r}; expected None, an executor of concurrent.futures, or a dask.distributed.Client"
        )
    try:
        _hand_out(pool, lambda: _workers_of(executor), work, tiles, report)
    except BrokenExecutor:
        raise StoreError(
            "a worker of the executor died, and it takes no more tasks; what is complete is kept: give a new executor, "
            "or workers=, which starts dead ones again"
        ) from None


def compute_by_processes(workers: int, work: Work, tiles: Sequence[Tile], report: Report) -> None:
    """By `workers` processes of this machine, which share its cores; those that die are started again."""
    from joblib.externals.loky import ProcessPoolExecutor  # its processes run no `__main__`, and are told their threads

    threads = str(max(1, _cores() // workers))
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    breaks, waiting = 0, list(tiles)
    while waiting:
        pool = ProcessPoolExecutor(workers, env={**variables, **_given(variables)})
        before = len(waiting)
        try:
            _hand_out(pool, lambda: workers, work, waiting, report)
            return
        except BrokenExecutor:
            waiting = [tile for tile in waiting if not work.is_there(tile)]
            breaks = 0 if len(waiting) < before else breaks + 1
            if breaks == _BREAKS:
                raise StoreError(
                    f"the workers died {_BREAKS} times before a single tile was complete, perhaps for lack of memory: "
                    "run fewer workers, or give a smaller tile to a new store; what is complete is kept"
                ) from None
            logger.warning("gram: a worker died; %d tiles are handed out again", len(waiting))
        finally:
            pool.shutdown(wait=True, kill_workers=True)


def dask_client(scheduler: str) -> Any:
    """A client of the Dask scheduler at an address such as tcp://host:8786, or described in a file."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingLibraryError(
            "a Dask scheduler needs the package distributed, which is not installed: pip install 'equitangents[dask]'"
        ) from None
    where = {"scheduler_file": scheduler} if os.path.isfile(scheduler) else {"address": scheduler}
    try:
        return Client(**where, timeout=_CONNECTING)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"scheduler is {scheduler!r}, which does not answer: {error}") from None


def _hand_out(pool: Executor, workers: Callable[[], int], work: Work, tiles: Sequence[Tile], report: Report) -> None:
    """Keep every worker busy, with a task waiting; each is of as many tiles as take half a second."""
    complete: Queue[Future[Done]] = Queue()
    running: set[Future[Done]] = set()
    size, rest = 1, iter(tiles)
    count, counted = workers(), time.monotonic()
    try:
        while True:
            if time.monotonic() - counted > _COUNTED:
                count, counted = workers(), time.monotonic()
            while len(running) < _WAITING * count and (batch := _next(rest, size)):
                future = pool.submit(compute_tiles, work, batch)
                running.add(future)
                future.add_done_callback(complete.put)
            if not running:
                return
            future = complete.get()
            running.remove(future)
            done = _result(future)
            report(done)
            if done.computed:
                size = max(1, min(_AT_ONCE, int(_TASK * done.computed / max(done.seconds, 1e-9))))
            size = max(1, min(size, len(tiles) // (4 * count)))
    finally:
        for future in running:
            future.cancel()


def _result(future: Future[Done]) -> Done:
    try:
        return future.result()
    except (EquitangentsError, BrokenExecutor):
        raise
    except concurrent.futures.CancelledError:
        raise StoreError("the scheduler dropped a task; what is complete is kept, and the same call goes on") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "distributed":
            raise StoreError(
                f"the workers of the scheduler failed: {error}; what is complete is kept, and the same call goes on"
            ) from error
        raise


def _next(rest: Iterator[Tile], size: int) -> list[Tile]:
    return [tile for _, tile in zip(range(size), rest, strict=False)]


def _workers_of(executor: Any) -> int:
    """How many tasks an executor runs at once, now."""
    if hasattr(executor, "nthreads"):  # of Dask, whose workers come and go
        return max(1, sum(executor.nthreads().values()))
    return max(1, int(getattr(executor, "_max_workers", 0) or _cores()))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _given(variables: dict[str, str]) -> dict[str, str]:
    """The numbers of threads that the environment asks for."""
    return {name: os.environ[name] for name in variables if name in os.environ}
