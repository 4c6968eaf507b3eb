"""What a Gram store takes beside its tiles in memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np


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


def main(repeats: int = 3) -> None:
    """Print what the store takes beyond the same tiles in memory."""
    for name, (net, x) in cases().items():
        found = overhead(net, x, repeats)
        print(f"{name}, {len(x):,} inputs, {found['tiles']:.0f} tiles of {found['side']:.0f}²", flush=True)
        for base, words in (("tiles", "the same tiles, dropped"), ("matrix", "the same tiles, put into both halves")):
            for clock in ("processor", "clock"):
                mine, theirs = found[f"store, {clock}"], found[f"{base}, {clock}"]
                print(f"  {clock}: store {mine:.3f} s, {words} {theirs:.3f} s: {mine / theirs - 1:+.1%}", flush=True)
