"""Audits beside e3nn's assert_equivariant and escnn's check_equivariance on the same networks: numbers, times, glue.

Each library checks its own network in its own environment; the audit gets the network over a pipe. Seconds are those of
the second check, after everything is imported and compiled; glue is the lines that a user writes beside the model.
Environments: build/e3nn, made at the versions of `constraints-e3nn.txt`, and that of the benchmark `escnn`;
EQUITANGENTS_E3NN_PYTHON and EQUITANGENTS_ESCNN_PYTHON name interpreters in their place.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.bench_audit import blobs, remote, split
from benchmarks.bench_escnn import escnn_python
from benchmarks.peers import OUT, environment

_SCRIPT = Path(__file__).with_name("audit_peers.py")
_E3NN = "EQUITANGENTS_E3NN_PYTHON"
_GLUE = {"e3nn": (3, 1), "escnn": (1, 1), "escnn-max": (1, 1)}
"""Lines that call each check: theirs and ours. e3nn is told irreps of inputs and outputs, ours the group and kinds."""


def e3nn_python() -> str | None:
    """The interpreter with e3nn."""
    constraints = Path(__file__).with_name("constraints-e3nn.txt")
    return os.environ.get(_E3NN) or environment("e3nn", constraints, ("torch", "e3nn"))


def theirs(python: str, name: str, x: np.ndarray, how: str = "check") -> dict[str, Any]:
    """What the library's own check found, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, x)
        command = [python, "-W", "ignore", str(_SCRIPT), name, how, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(python: str, name: str, x: np.ndarray, effort: Literal["quick", "full"]) -> tuple[Any, float]:
    """The audit, and its seconds with the network running already."""
    from equitangents.audit import audit

    model = remote(python, name)
    with model.ready():
        for _ in range(2):  # the second start stays
            model(x[:1])
        began = time.perf_counter()
        if name == "e3nn":
            report = audit(split(model), "O3", x, (None, "vectors"), effort=effort)
        else:
            report = audit(lambda x: model(x), "C4", x, layout="channels_first", effort=effort)
        return report, time.perf_counter() - began


def lie_derivatives(python: str, x: np.ndarray) -> None:
    """The Lie derivative of escnn's network along rotations, by the formula of arXiv 2210.02984 and by the audit."""
    from equitangents.audit import audit

    literal = theirs(python, "escnn", x, "lie")
    model = remote(python, "escnn")
    report = audit(model, "SO2", x, layout="channels_first", elements=4, off_data=False, data_test=None, layers=False)
    print(f"Lie derivative along rotations of ‖f(x)‖ per radian: {literal['worst']:.3g} by central differences of "
          f"bilinear images, {report.lie[0].value.mean:.3g} by the audit, with splines", flush=True)  # fmt: skip


def main(full: bool = False) -> None:
    """Print and write the table; `full` adds audits with full effort."""
    clouds = np.random.default_rng(1).normal(size=(8, 6, 3)).astype(np.float32)
    cases: list[tuple[str, Any, np.ndarray]] = [
        ("e3nn", e3nn_python(), clouds),
        ("escnn", escnn_python(), blobs(8, 29)),
        ("escnn-max", escnn_python(), blobs(8, 28)),
    ]
    header = "| network | theirs | s | ours | floor | verdict | s | ours / theirs | glue, lines |"
    lines = [header, "|---|---:|---:|---:|---:|---|---:|---:|---|"]
    for name, python, x in cases:
        if python is None:
            print(f"{name} is left out: no environment with it")
            continue
        checked = theirs(python, name, x)
        efforts: tuple[Literal["quick", "full"], ...] = ("quick", "full") if full else ("quick",)
        for effort in efforts:
            ours(python, name, x[:2], effort)  # imports and compilation
            report, seconds = ours(python, name, x, effort)
            head = report.headline
            found = checked.get("said") or f"{checked['worst']:.1e}"
            glue = "{} and {}".format(*_GLUE[name])
            cells = [f"{name}, {effort}", found, f"{checked['seconds']:.2f}", f"{head.error.estimate.mean:.1e}"]
            cells += [
                f"{head.floor:.1e}",
                report.verdict,
                f"{seconds:.2f}",
                f"{seconds / checked['seconds']:.2f}",
                glue,
            ]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if (python := escnn_python()) is not None:
        lie_derivatives(python, blobs(8, 29))
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "audit-peers.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("theirs: the largest absolute difference; ours: the mean relative error, beside its floor")


if __name__ == "__main__":
    main()
