"""How time grows with image size, depth and the number of inputs: fitted exponents, and a plot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.cases import Job
from benchmarks.peers import OUT, measure

_BASE = Job(3, 16, "pool", 8, 8)


@dataclass(frozen=True)
class Sweep:
    """One number varied, for ours and for the peer; time is expected to grow as its power `expected`."""

    name: str
    ours: tuple[tuple[int, Job], ...]
    theirs: tuple[tuple[int, Job], ...]
    expected: float


def sweeps(full: bool) -> list[Sweep]:
    """The sweeps, the shorter ones unless `full`."""
    sides, depths, numbers = ((8, 12, 16, 24, 32), (1, 2, 4, 8, 16), (16, 32, 64, 128))
    few_sides: tuple[int, ...] = (6, 8, 12, 16) if full else (8, 12, 16)
    few_depths: tuple[int, ...] = (1, 2, 4, 8) if full else (1, 2, 4)
    few_numbers: tuple[int, ...] = (2, 4, 8, 16) if full else (4, 8, 16)

    def images(n: int, side: int) -> Job:
        return replace(_BASE, side=side, n1=n, n2=n)

    return [
        Sweep(
            "image side, pooled",
            tuple((s, images(32 if s <= 16 else 16, s)) for s in sides),
            tuple((s, images(8, s)) for s in few_sides),
            4,
        ),
        Sweep(
            "depth, pooled",
            tuple((d, replace(images(32, 16), layers=d)) for d in depths),
            tuple((d, replace(images(8, 8), layers=d)) for d in few_depths),
            1,
        ),
        Sweep(
            "number of inputs, pooled",
            tuple((n, images(n, 16)) for n in numbers),
            tuple((n, images(n, 8)) for n in few_numbers),
            2,
        ),
        Sweep(
            "image side, flattened",
            tuple((s, replace(images(256, s), readout="flatten")) for s in (8, 16, 32, 48)),
            tuple((s, replace(images(32, s), readout="flatten")) for s in (8, 16, 32)),
            2,
        ),
    ]


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of log y over log x by least squares."""
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def run(peer: str | None, full: bool) -> tuple[str, list[dict]]:
    """(a table in Markdown, all measurements)."""
    lines = ["| time grows with | expected exponent | ours | neural-tangents |", "|---|---:|---:|---:|"]
    record = []
    for sweep in sweeps(full):
        found = _points(sweep.ours, "cpu", sys.executable, sweep.name)
        theirs = [] if peer is None else _points(sweep.theirs, "neural_tangents", peer, sweep.name)
        record.append({"name": sweep.name, "expected": sweep.expected, "ours": found, "theirs": theirs})
        slopes = f"{exponent(found):.2f} | {f'{exponent(theirs):.2f}' if theirs else ''}"
        lines.append(f"| {sweep.name} | {sweep.expected:g} | {slopes} |")
    _plot(record)
    return "\n".join(lines), record


def _points(jobs: tuple[tuple[int, Job], ...], library: str, python: str, name: str) -> list[tuple[int, float]]:
    """(number, seconds of processor time of a pair, or of all for the number of inputs)."""
    measured = measure(library, [job for _, job in jobs], python, seconds=1.0)
    return [
        (number, m.processor_seconds / (1 if name.startswith("number") else job.pairs))
        for (number, job), m in zip(jobs, measured, strict=True)
    ]


def _plot(record: list[dict]) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(record), figsize=(3.6 * len(record), 3.4), layout="constrained")
    for ax, sweep in zip(axes, record, strict=True):
        for label, marker in (("ours", "o"), ("theirs", "s")):
            points = sweep[label]
            if points:
                name = "equitangents" if label == "ours" else "neural-tangents"
                ax.loglog([p[0] for p in points], [p[1] for p in points], marker=marker, label=name)
        ax.set_xlabel(sweep["name"])
        ax.set_ylabel("processor seconds" if sweep["name"].startswith("number") else "processor seconds a pair")
    axes[0].legend(frameon=False)
    figure.savefig(OUT / "growth.svg")
    plt.close(figure)
