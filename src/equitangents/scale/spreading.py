"""Handing work to whatever a user calls an executor, so that all of it is done, whichever workers die."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any, cast

from equitangents._protocols import ExecutorLike, TaskExecutor
from equitangents.scale.executors import (
    Item,
    Result,
    Tasks,
    compute_by_processes,
    compute_with,
    dask_client,
    workers_of,
)
from equitangents.validation import is_whole

logger = logging.getLogger("equitangents")


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
