"""Handing out tiles: a Dask cluster of 64 workers whose tasks sleep, 1,000 workers in a model of time, and the store.

64 workers are threads of one LocalCluster; a tile sleeps for its time, and everything else is real: client, scheduler,
messages. Of 1,000 workers only the handing out is real, the code of `scale.executors`, and its time is measured; the
workers, a message's latency and what Dask's client and scheduler take for a task are figures in a model of time. The
last lines are processor time of the store; the disk writes one tile while the next one is computed.
"""

from __future__ import annotations

import heapq
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.scale import executors
from equitangents.scale.tiles import Done

LATENCY = 0.002  # seconds from client to worker, and back
# All workers are threads of this process, each of which would take its memory for its own and pause.
IN_THREADS: dict[str, Any] = {"processes": False, "dashboard_address": None, "threads_per_worker": 1, "memory_limit": 0}
A_TASK = 0.003  # seconds of client and scheduler for a task, one after another: what `cost_of_a_task` measures


def sleep(seconds: float, items: Sequence[Any]) -> Done:
    """What a worker does: it sleeps for a tile's time, tile after tile."""
    begin = time.monotonic()
    for _ in items:
        time.sleep(seconds)
    return Done(tuple((item,) for item in items), len(items), time.monotonic() - begin)


def on_dask(workers: int, tiles: int, seconds: float) -> float:
    """The efficiency of a real scheduler with sleeping tasks: tiles · seconds / (workers · time)."""
    from functools import partial

    import distributed

    with distributed.LocalCluster(n_workers=workers, **IN_THREADS) as cluster, distributed.Client(cluster) as client:
        handed = executors.Tasks[Any, Done](partial(sleep, seconds), lambda item: False, lambda done: None)
        begin = time.monotonic()
        executors.compute_with(client, handed, list(range(tiles)))
        return tiles * seconds / (workers * (time.monotonic() - begin))


def cost_of_a_task(tasks: int = 1000) -> float:
    """Processor seconds of Dask's client, scheduler and worker for a task that does nothing."""
    import distributed

    with distributed.LocalCluster(n_workers=1, **IN_THREADS) as cluster, distributed.Client(cluster) as client:
        pool = client.get_executor(pure=False)
        begin = time.process_time()
        for future in [pool.submit(int) for _ in range(tasks)]:
            future.result()
        return (time.process_time() - begin) / tasks


@dataclass
class Cluster:
    """Workers in a model of time; `now` is the client's clock, which its own work moves as long as it takes."""

    workers: int
    seconds: float

    def __post_init__(self) -> None:
        self.now = 0.0
        self._free = [0.0] * self.workers  # when each worker is free
        self._events: list[tuple[float, int, Future[Done], Done]] = []
        self._ready: deque[Future[Done]] = deque()
        self._resumed = time.process_time()
        self._count = 0

    def submit(self, run: Callable[..., Done], items: Sequence[Any]) -> Future[Done]:
        """A task goes to the worker that is free first."""
        self._work()
        self.now += A_TASK
        begin = max(self.now + LATENCY, heapq.heappop(self._free))
        end = begin + self.seconds * len(items)
        heapq.heappush(self._free, end)
        future: Future[Done] = Future()
        done = Done((), len(items), self.seconds * len(items))
        self._count += 1
        heapq.heappush(self._events, (end + LATENCY, self._count, future, done))
        self._resumed = time.process_time()
        return future

    def put(self, future: Future[Done]) -> None:
        """A task is done."""
        self._ready.append(future)

    def get(self) -> Future[Done]:
        """The next task that is done; the client waits until then."""
        self._work()
        when, _, future, done = heapq.heappop(self._events)
        self.now = max(self.now, when)
        future.set_result(done)
        self._resumed = time.process_time()
        return self._ready.popleft()

    def _work(self) -> None:
        self.now += time.process_time() - self._resumed


def simulated(workers: int, tiles: int, seconds: float) -> float:
    """The efficiency of so many workers in the model of time, whose client is the real code of `scale.executors`."""
    cluster = Cluster(workers, seconds)
    queue, executors.Queue = executors.Queue, lambda: cluster  # type: ignore[misc,assignment]
    try:
        handed = executors.Tasks[Any, Done](lambda items: None, lambda item: False, lambda done: None)  # type: ignore[arg-type,return-value]
        executors._hand_out(cluster, lambda: workers, handed, range(tiles))
    finally:
        executors.Queue = queue  # type: ignore[misc]
    return tiles * seconds / (workers * cluster.now)


def store_of_a_tile(side: int = 1000, repeats: int = 7) -> dict[str, float]:
    """Processor seconds, medians, that the store takes for a tile in float32 off the diagonal: four files of 4 MB."""
    from equitangents.nn import Dense, Relu, Sequential
    from equitangents.scale import GramStore

    net = Sequential(Dense(1), Relu(), Dense(1))
    x = np.random.default_rng(0).normal(size=(2 * side, 8)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        store = GramStore(Path(folder) / "k", net, x, tile=side)
        work, tile = store._work, (0, 1)
        values = work.values(tile)
        return {
            "write": _median(lambda: work.write(tile, values), repeats),
            "check and read inputs": _median(lambda: _check_and_read(work, tile), repeats),
            "whether all is finite": _median(lambda: np.isfinite(values).all(), repeats),
        }


def _check_and_read(work: Any, tile: tuple[int, int]) -> None:
    work.check()
    work.is_there(tile)
    for index in tile:
        work._inputs("x1", index, slice(0, work.record.tile))


def _median(function: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return float(np.median(times))


def main(full: bool = False) -> None:
    """Print efficiencies, and what the store takes; `full` sleeps through 10,000 tiles (three minutes)."""
    tiles = 10_000 if full else 1_000
    print(f"Dask's client, scheduler and worker: {1e3 * cost_of_a_task():.2f} ms of processor a task")
    print(f"64 workers of Dask, {tiles:,} tiles that sleep 1 s: {on_dask(64, tiles, 1.0):.1%} efficient", flush=True)
    print(f"model of time: {1e3 * A_TASK:.0f} ms of client and scheduler a task, {1e3 * LATENCY:.0f} ms latency")
    for workers, count, seconds in [(64, 10_000, 1.0), (1000, 1_000_000, 0.3), (1000, 1_000_000, 1.0)]:
        share = simulated(workers, count, seconds)
        print(f"{workers:>6,} workers, {count:>9,} tiles of {seconds} s: {share:.1%} efficient")
    parts = store_of_a_tile()
    for name, took in parts.items():
        print(f"store, a tile of 1000²: {name} {1e3 * took:.1f} ms")
    whole = sum(parts.values())
    print(f"together {1e3 * whole:.1f} ms of processor: 5 % of tiles that take {whole / 0.05:.2g} s or more")
