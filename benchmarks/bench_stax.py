"""Every layer of `stax` by both libraries: differences of kernels, and times; then the cookbook's regression.

Kernels of 32 inputs of 8 positions and 3 channels with themselves, in float64, each library in its own environment;
seconds are medians of three runs after one that compiles. Where neural-tangents is not to be had, ours alone.
"""

from __future__ import annotations

import json
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
    text = f"{layers_table(ours, theirs)}\n\n{cookbook_table(peer)}\n"
    print(text)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "stax.md").write_text(text)


def _layers(library: str, python: str, values: Path) -> tuple[list[dict], dict[str, np.ndarray]]:
    found = _run(python, "stax_worker.py", library, str(values))
    return found, dict(np.load(values))


def _run(python: str, script: str, *arguments: str) -> Any:
    done = subprocess.run([python, str(_HERE / script), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{script} {arguments[0]} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def layers_table(
    ours: tuple[list[dict], dict[str, np.ndarray]], theirs: tuple[list[dict], dict[str, np.ndarray]] | None
) -> str:
    """One row a network: seconds of both, and the largest difference relative to the largest entry."""
    lines = ["| network | ours, s | peer, s | NNGP differs by | NTK differs by |", "|---|---:|---:|---:|---:|"]
    for i, row in enumerate(ours[0]):
        name, peer = row["name"], {} if theirs is None else theirs[0][i]
        cells = [name, *(_seconds(found) for found in (row, peer))]
        for kind in ("nngp", "ntk"):
            key = f"{name}/{kind}"
            both = theirs is not None and key in ours[1] and key in theirs[1]
            cells.append(f"{_difference(ours[1][key], theirs[1][key]):.1e}" if both and theirs is not None else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _seconds(row: dict) -> str:
    return f"{row['seconds']:.4f}" if "seconds" in row else row.get("error", "").split(":")[0]


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


def cookbook_table(peer: str | None) -> str:
    """What the script prints by each library: some means, and its seconds."""
    lines = ["| cookbook | seconds | mean at -π, -π/2, π/2, π | largest deviation |", "|---|---:|---|---:|"]
    for library, python in (("equitangents", sys.executable), ("neural_tangents", peer)):
        if python is None:
            continue
        found = _run(python, "cookbook.py", library)
        means = ", ".join(f"{found['mean'][i]:.4f}" for i in (0, 12, 37, 49))
        lines.append(f"| {library} | {found['seconds']:.2f} | {means} | {max(found['deviation']):.4f} |")
    return "\n".join(lines)
