"""Handing out tiles: a Dask cluster of 64 workers whose tasks sleep, 1,000 workers in a model of time, and the store.

64 workers are threads of one LocalCluster; a tile sleeps for its time, and everything else is real: client, scheduler,
messages. Of 1,000 workers only the handing out is real, the code of `scale.executors`, and its time is measured; the
workers, a message's latency and what Dask's client and scheduler take for a task are figures in a model of time. The
last lines are times of a store beside those of its tiles in memory; one tile is written while the next one is computed.
"""

from __future__ import annotations

import heapq
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.scale import executors
from equitangents.scale.work import Done

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
        self.tasks = 0

    def submit(self, run: Callable[..., Done], items: Sequence[Any]) -> Future[Done]:
        """A task goes to the worker that is free first."""
        self._work()
        self.now += A_TASK
        begin = max(self.now + LATENCY, heapq.heappop(self._free))
        end = begin + self.seconds * len(items)
        heapq.heappush(self._free, end)
        future: Future[Done] = Future()
        done = Done((), len(items), self.seconds * len(items))
        self.tasks += 1
        heapq.heappush(self._events, (end + LATENCY, self.tasks, future, done))
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


def simulated(workers: int, tiles: int, seconds: float) -> Cluster:
    """So many workers in the model of time, whose client is the real code of `scale.executors`, when all is done."""
    cluster = Cluster(workers, seconds)
    queue, executors.Queue = executors.Queue, lambda: cluster  # type: ignore[misc,assignment]
    try:
        handed = executors.Tasks[Any, Done](lambda items: None, lambda item: False, lambda done: None)  # type: ignore[arg-type,return-value]
        executors._hand_out(cluster, lambda: workers, handed, range(tiles))
    finally:
        executors.Queue = queue  # type: ignore[misc]
    return cluster


def cases() -> dict[str, tuple[Any, np.ndarray]]:
    """Networks whose tiles are fast and slow, and inputs of a few tiles, by name."""
    from equitangents_studies.systems import architecture

    rng = np.random.default_rng(0)
    flat = rng.normal(size=(4000, 784)).astype(np.float32)
    images = rng.normal(size=(480, 32, 32, 3)).astype(np.float32)
    return {
        "FCN, 8 layers": (architecture("FCN", depth=8), flat),
        "VEC, 8 layers": (architecture("VEC", depth=8), images),
    }


def overhead(net: Any, x: np.ndarray, repeats: int) -> dict[str, float]:
    """Processor seconds and seconds, medians, of a new store, and of its tiles in memory, kept or in one matrix."""
    from equitangents.scale import GramStore

    took: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repeats + 1):  # the first one warms up
            store = GramStore(Path(folder) / str(turn), net, x)
            parts = [tuple(slice(k * store.tile, (k + 1) * store.tile) for k in tile) for tile in store.tiles]
            ways: dict[str, Callable[[], object]] = {
                "store": store.compute,
                "tiles": partial(dropped, net, x, parts),
                "matrix": partial(assembled, net, x, parts),
            }
            for name, way in ways.items():
                begin, processor = time.monotonic(), time.process_time()
                way()
                if turn:
                    took.setdefault(name, []).append((time.process_time() - processor, time.monotonic() - begin))
    found = {"side": float(store.tile), "tiles": float(len(parts))}
    for name, times in took.items():
        found[f"{name}, processor"], found[f"{name}, clock"] = np.median(times, axis=0)
    return found


def dropped(net: Any, x: np.ndarray, parts: Sequence[tuple[slice, ...]]) -> None:
    """The kernels of all tiles, one after another, none of which is kept."""
    for rows, columns in parts:
        net.kernel(x[rows], None if rows == columns else x[columns])


def assembled(net: Any, x: np.ndarray, parts: Sequence[tuple[slice, ...]]) -> np.ndarray:
    """NNGP and NTK whole, both halves."""
    whole = np.empty((2, len(x), len(x)), x.dtype)
    for rows, columns in parts:
        kernels = net.kernel(x[rows], None if rows == columns else x[columns])
        for matrix, values in zip(whole, (kernels.nngp, kernels.ntk), strict=True):
            matrix[rows, columns] = values
            if rows != columns:
                matrix[columns, rows] = values.T
    return whole


def main(full: bool = False) -> None:
    """Print efficiencies, and what the store takes; `full` sleeps through 10,000 tiles (three minutes)."""
    tiles = 10_000 if full else 1_000
    print(f"Dask's client, scheduler and worker: {1e3 * cost_of_a_task():.2f} ms of processor a task")
    print(f"64 workers of Dask, {tiles:,} tiles that sleep 1 s: {on_dask(64, tiles, 1.0):.1%} efficient", flush=True)
    print(f"model of time: {1e3 * A_TASK:.0f} ms of client and scheduler a task, {1e3 * LATENCY:.0f} ms latency")
    for workers, count, seconds in [(64, 10_000, 1.0), (1000, 1_000_000, 0.3), (1000, 1_000_000, 1.0)]:
        share = count * seconds / (workers * simulated(workers, count, seconds).now)
        print(f"{workers:>6,} workers, {count:>9,} tiles of {seconds} s: {share:.1%} efficient")
    store()


def store(repeats: int = 3) -> None:
    """Print what the store takes beyond the same tiles in memory."""
    for name, (net, x) in cases().items():
        found = overhead(net, x, repeats)
        print(f"{name}, {len(x):,} inputs, {found['tiles']:.0f} tiles of {found['side']:.0f}²", flush=True)
        for base, words in (("tiles", "the same tiles, dropped"), ("matrix", "the same tiles, put into both halves")):
            for clock in ("processor", "clock"):
                mine, theirs = found[f"store, {clock}"], found[f"{base}, {clock}"]
                print(f"  {clock}: store {mine:.3f} s, {words} {theirs:.3f} s: {mine / theirs - 1:+.1%}", flush=True)


if __name__ == "__main__":
    store()
