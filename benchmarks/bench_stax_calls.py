"""What a call of `stax` on 32 inputs costs: as it is called, compiled by `jax.jit`, and by the peer, compiled.

Each in a process and environment of its own, in turns of 300 calls, on one thread: milliseconds of processor time, the
least of all turns and the median of their medians. Where neural-tangents is not to be had, ours alone.
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.bench_stax import run_worker
from benchmarks.peers import peer_python
from benchmarks.stax_worker import SHORT

TURNS = 3


def main() -> None:
    """One row a network."""
    peer = peer_python()
    ways = {
        "ours": (sys.executable, "equitangents", "calls"),
        "ours by `jax.jit`": (sys.executable, "equitangents", "compiled"),
    }
    if peer is not None:
        ways["peer by `jax.jit`"] = (peer, "neural_tangents", "compiled")
    found: dict[str, list[dict[str, list[float]]]] = {way: [] for way in ways}
    for _ in range(TURNS):
        for way, (python, library, mode) in ways.items():
            found[way].append(run_worker(python, "stax_worker.py", library, "", mode))
    print("| network | " + " | ".join(f"{way}, least | median" for way in ways) + " |")
    print("|---|" + "---:|" * (2 * len(ways)))
    for name in SHORT:
        cells = []
        for turns in found.values():
            least, median = min(turn[name][0] for turn in turns), statistics.median(turn[name][1] for turn in turns)
            cells += [f"{1e3 * least:.3f}", f"{1e3 * median:.3f}"]
        print(f"| {name.replace('stax.', '')} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
