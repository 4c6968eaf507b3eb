"""Gram matrices in an object store: requests for a tile, requests a second of 1,000 workers, and what the client holds.

Requests are counted: the real code computes a small store in a bucket in memory, in tasks as a scheduler hands them
out. How many tasks there are and how long all of it takes is the model of time of `bench_scheduling`.
"""

from __future__ import annotations

import pickle
import time
import tracemalloc
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from benchmarks.bench_scheduling import simulated
from equitangents.scale.cost import LARGEST_SHARD
from equitangents.tiles import place
from equitangents.tiles.grid import Grid

A_PREFIX = 3500  # puts a second that Amazon says S3 takes below one prefix at least


def bucket() -> Any:
    """A bucket in memory, which counts the requests it is asked."""
    from obstore.store import MemoryStore

    class Bucket(MemoryStore):
        __module__ = "obstore.memory"  # which Zarr asks for

        def __init__(self) -> None:
            self.asked: Counter[str] = Counter()

        def __getattribute__(self, name: str) -> Any:
            if name in ("get", "get_range", "put", "head", "list"):
                self.asked["get" if name == "get_range" else name] += 1
            return super().__getattribute__(name)

    return Bucket()


def counted(tiles_in_a_task: int, side: int = 24) -> tuple[Counter[str], int, int, int]:
    """(requests of workers, tiles, tasks, bytes of a task) of a symmetric matrix of `side` × `side` tiles."""
    import equitangents as et
    from equitangents.scale.work import compute_tiles

    net = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    x = np.random.default_rng(0).normal(size=(4 * side, 3))
    real, memory = place.bucket, bucket()
    place.bucket = lambda root: memory  # type: ignore[assignment]
    try:
        store = et.scale.GramStore("s3://bucket/k", net, x, tile=4)
        tiles = store.tiles
        memory.asked.clear()
        tasks = [tiles[k : k + tiles_in_a_task] for k in range(0, len(tiles), tiles_in_a_task)]
        for task in tasks:
            compute_tiles(store._work, task)
        size = len(pickle.dumps((partial(compute_tiles, store._work), tasks[0])))
        return Counter(memory.asked), len(tiles), len(tasks), size
    finally:
        place.bucket = real


def held(side: int) -> int:
    """Bytes of the list of the tiles of a symmetric matrix of `side` × `side`."""
    tracemalloc.start()
    try:
        tiles = Grid((side,), None, 1).tiles()
        return tracemalloc.get_traced_memory()[0] if tiles else 0
    finally:
        tracemalloc.stop()


def report(workers: int, tiles: int, seconds: float) -> dict[str, float]:
    """Requests a second of so many workers with tiles that take so long, and what the client holds."""
    begin = time.process_time()
    cluster = simulated(workers, tiles, seconds)
    took = time.process_time() - begin
    asked, some, _, size = counted(max(1, round(tiles / cluster.tasks)))
    found = {f"{name} a tile": asked[name] / some for name in ("head", "get", "put")}
    found |= {f"{name} a second": asked[name] / some * tiles / cluster.now for name in ("head", "get", "put")}
    found["get a second"] += workers / 60  # the record, which each looks at once a minute
    return found | {
        "tasks": float(cluster.tasks),
        "hours": cluster.now / 3600,
        "efficient": tiles * seconds / (workers * cluster.now),
        "task": float(size),
        "client": took,
    }


def main(full: bool = False) -> None:
    """Print requests and memory; `full` also for 10,000 workers."""
    side = round((2 * 10**6) ** 0.5)
    print(f"a symmetric matrix of 10⁶ tiles: the client's list of them takes {held(side) / 1e6:.0f} MB, and")
    print(f"  what is there is listed by {4 * 10**6 // 1000:,} requests", flush=True)
    cases = [(1000, 10**6, 1.0), (1000, 10**6, 10.0), *([(10_000, 10**6, 10.0)] if full else [])]
    for workers, tiles, seconds in cases:
        found = report(workers, tiles, seconds)
        print(
            f"{workers:,} workers, {tiles:,} tiles of {seconds:g} s: {found['hours']:.2f} h, {found['efficient']:.1%} "
            f"efficient, {found['tasks']:,.0f} tasks, at most {2 * workers:,} of {found['task'] / 1e3:.1f} kB in the "
            f"scheduler; {found['client']:.0f} s of the client's processor"
        )
        each = ", ".join(f"{found[f'{name} a tile']:.2f} {name}" for name in ("head", "get", "put"))
        rates = ", ".join(f"{found[f'{name} a second']:,.0f} {name}" for name in ("head", "get", "put"))
        print(f"  requests: {each} a tile; {rates} a second", flush=True)
        print(
            f"  the same matrix in shards of 4 × 4 such tiles: {found['put a second'] / 16:,.0f} puts a second "
            f"(a prefix of S3 takes {A_PREFIX:,})"
        )
    print(f"a new store has shards of up to {LARGEST_SHARD}², {4 * LARGEST_SHARD**2 / 1e6:.0f} MB in float32")
