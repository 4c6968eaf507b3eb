"""Every layer of `stax` by both libraries: differences of kernels, and times.

Kernels of 32 and of 256 inputs of 8 positions and 3 channels with themselves, in float64, each library in its own
environment, ours as it is called and compiled by `jax.jit`, which checks nothing, the peer's compiled; milliseconds of
processor time are medians of 15 turns of 20 calls, and of three calls, after one that compiles. Few inputs show what a
call costs, many what kernels cost. Differences are those of the 32. Myrtle-5 and -7 are those of *Neural
kernels without tangents*, on images of 32×32×3, in processor time of one thread. Where neural-tangents is not to be
had, ours alone. `Hermite` differs where inputs are not normalised, `ElementwiseNumerical` by the rules' errors: see the
guide on neural-tangents. Kernels of `RectifiedMonomial` are NaN there between an input and itself: those pairs are left
out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import OUT, peer_python

_HERE = Path(__file__).parent


def main() -> None:
    """Print both tables, and write them to build/benchmarks/stax.md."""
    peer = peer_python()
    with tempfile.TemporaryDirectory() as folder:
        ours = _layers("equitangents", sys.executable, Path(folder) / "ours.npz")
        theirs = None if peer is None else _layers("neural_tangents", peer, Path(folder) / "theirs.npz")
    text = f"{layers_table(ours, theirs)}\n\n{myrtle_table(peer)}\n"
    print(text)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "stax.md").write_text(text)


def _layers(library: str, python: str, values: Path) -> tuple[list[dict], dict[str, np.ndarray]]:
    found = run_worker(python, "stax_worker.py", library, str(values))
    return found, dict(np.load(values))


def run_worker(python: str, script: str, *arguments: str, flags: str = "") -> Any:
    """What a script of this folder prints as JSON, in an interpreter, on one thread; with further flags of XLA."""
    threads = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    one = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": f"{flags} {threads}".strip()}
    command = [python, str(_HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **one})
    if done.returncode:
        raise RuntimeError(f"{script} {arguments[0]} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def layers_table(
    ours: tuple[list[dict], dict[str, np.ndarray]], theirs: tuple[list[dict], dict[str, np.ndarray]] | None
) -> str:
    """One row a network: seconds of both, and the largest difference relative to the largest entry."""
    head = ["ours, 32, ms", "ours by `jax.jit`, 32, ms", "peer, 32, ms", "ours, 256, ms", "peer, 256, ms"]
    lines = ["| " + " | ".join(("network", *head, "peer / ours", "NNGP differs by", "NTK differs by")) + " |"]
    lines += ["|---|" + "---:|" * 8]
    peers = {} if theirs is None else {row["name"]: row for row in theirs[0]}
    for row in ours[0]:
        name = row["name"]
        peer = peers.get(name, {})
        cells = [name.replace("stax.", ""), _milliseconds(row, "called/few")]
        cells += [_milliseconds(found, "compiled/few") for found in (row, peer)]
        cells += [_milliseconds(row, "called/many"), _milliseconds(peer, "compiled/many")]
        both = "called/many" in row and "compiled/many" in peer
        cells.append(f"{peer['compiled/many'] / row['called/many']:.1f}" if both else "")
        for kind in ("nngp", "ntk"):
            key = f"{name}/{kind}"
            both = theirs is not None and key in ours[1] and key in theirs[1]
            cells.append(_compared(ours[1][key], theirs[1][key]) if both and theirs is not None else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _milliseconds(row: dict, what: str) -> str:
    return f"{1e3 * row[what]:.3g}" if what in row else row.get("error", "").split(":")[0]


def _compared(ours: np.ndarray, theirs: np.ndarray) -> str:
    """The difference over pairs of inputs where the peer has a number, and how many have none."""
    found = np.isfinite(theirs)
    text = f"{_difference(ours[found], theirs[found]):.1e}" if found.any() else "peer has no numbers"
    missing = theirs.size - np.count_nonzero(found)
    return f"{text} (peer: {missing} of {theirs.size} NaN)" if missing and found.any() else text


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


def myrtle_table(peer: str | None) -> str:
    """Pairs of images a second by both libraries and precisions, and how their kernels differ in float64."""
    head = ("network", "ours float32", "ours float64", "peer float32", "peer float64", "ours float32 / faster peer")
    lines = ["| " + " | ".join((*head, "NTK differs by")) + " |", "|---|" + "---:|" * len(head)]
    rates: dict[str, dict[str, float]] = {}
    kernels = {}
    with tempfile.TemporaryDirectory() as folder:
        for library, python in (("equitangents", sys.executable), ("neural_tangents", peer)):
            if python is None:
                continue
            values = Path(folder) / f"{library}.npz"
            for row in run_worker(python, "stax_worker.py", library, str(values), "myrtle"):
                rates.setdefault(row["name"], {})[f"{library}/{row['dtype']}"] = row["rate"]
            kernels[library] = dict(np.load(values))
    for name, found in rates.items():
        each = [found.get(f"{lib}/{d}") for lib in ("equitangents", "neural_tangents") for d in ("float32", "float64")]
        cells = [name, *("" if rate is None else f"{rate:,.3g}" for rate in each), "", ""]
        if peer is not None:
            cells[5] = f"{found['equitangents/float32'] / max(rate for rate in each[2:] if rate):.0f}"
            key = f"{name}/float64/ntk"
            cells[6] = f"{_difference(kernels['equitangents'][key], kernels['neural_tangents'][key]):.1e}"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
