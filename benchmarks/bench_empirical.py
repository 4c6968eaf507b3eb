"""Empirical tangent kernels: the way that counted work chooses, beside the best of three of neural-tangents.

Kernels of 8 by 8 inputs of 8×8×3 with all pairs of outputs, in float32 with the same parameters, each library in its
own environment: milliseconds of processor time of one thread, medians of three runs after one that compiles. "auto" is
the way that counted work chooses; ways that raise an error in the peer's environment say which.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.bench_stax import run_worker
from benchmarks.peers import OUT, peer_python

_WAYS = ("jacobians", "vectors", "structured")


def main() -> None:
    """Print the table, and write it to build/benchmarks/empirical.md."""
    peer = peer_python()
    with tempfile.TemporaryDirectory() as folder:
        found, kernels = {}, {}
        for library, python in (("equitangents", sys.executable), ("neural_tangents", peer)):
            if python is None:
                continue
            values = Path(folder) / f"{library}.npz"
            found[library] = run_worker(python, "empirical_worker.py", library, str(values))
            kernels[library] = dict(np.load(values))
    text = table(found, kernels)
    print(text)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "empirical.md").write_text(text + "\n")


def table(found: dict[str, list[dict]], kernels: dict[str, dict[str, np.ndarray]]) -> str:
    """One row a network: each library's three ways, ours as chosen, and the peer's best over it."""
    head = [*(f"ours, {way}" for way in (*_WAYS, "auto")), *(f"peer, {way}" for way in _WAYS)]
    lines = ["| " + " | ".join(("network", *head, "peer's best / ours", "differ by")) + " |"]
    lines += ["|---|" + "---:|" * (len(head) + 2)]
    theirs = found.get("neural_tangents")
    for i, row in enumerate(found["equitangents"]):
        name = row["name"]
        cells = [name, *(_milliseconds(row[way]) for way in (*_WAYS, "auto"))]
        if theirs is None:
            cells += [""] * (len(_WAYS) + 2)
        else:
            cells += [_milliseconds(theirs[i][way]) for way in _WAYS]
            runs = [way for way in _WAYS if f"{name}/{way}" in kernels["neural_tangents"]]
            best = min((theirs[i][way], way) for way in runs)[1]
            cells.append(f"{theirs[i][best] / row['auto']:.2f}")
            a, b = kernels["equitangents"][f"{name}/auto"], kernels["neural_tangents"][f"{name}/{best}"]
            cells.append(f"{np.max(np.abs(a - b)) / np.max(np.abs(b)):.1e}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _milliseconds(seconds: float | str) -> str:
    return seconds if isinstance(seconds, str) else f"{1e3 * seconds:.3g}"
