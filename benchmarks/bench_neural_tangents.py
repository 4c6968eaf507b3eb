"""Comparison with neural-tangents 0.6.5: pairs per second, agreement and memory, with the machine's limits.

Every library runs in a process of its own with all cores, ours on inputs enough to fill them and the peer on as many
as suit it (its speed a pair hardly depends on them); medians of at least three runs after one that compiles. The bound
is the bare loop (`roofline.cpp`) run on all cores at once; of an MLP a bare matrix product and one pass of the loop.
Processor time, of all threads together, is what other work on the machine changes least.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.cases import CASES, QUICK, Case, Job
from benchmarks.peers import OUT, Measured, measure, peer_python
from benchmarks.rooflines import Bare, all_cores, matrix_product, stream
from equitangents.memory import threads

_TOLERANCE = {"float32": 2e-6, "float64": 1e-12}


@dataclass(frozen=True)
class Row:
    """One case: pairs per second, ratios, and the largest differences relative to the kernels of single inputs."""

    name: str
    ours32: float
    ours64: float
    reference32: float
    peer32: float | None
    peer64: float | None
    over_peer_processor: float | None
    of_bound: float | None
    error32: float
    difference64: float | None
    megabytes: float
    peer_megabytes: float | None
    over_peer_target: float | None
    of_bound_target: float | None

    @property
    def over_peer(self) -> float | None:
        """Ours in float32 against the faster of the peer's precisions."""
        return None if self.peer32 is None or self.peer64 is None else self.ours32 / max(self.peer32, self.peer64)


def run_case(case: Case, peer: str | None, bare: Bare | None) -> Row:
    """Measure one case by all libraries, one after another."""
    job, few = case.job, case.job.sized(case.few, case.few)
    found = {d: measure("cpu", [_in(few, d), _in(job, d)]) for d in ("float32", "float64")}
    ours = {d: (measured[1], measured[0]) for d, measured in found.items()}
    slow = few if job.side else few.sized(400, 400)
    reference = measure("reference", [slow])[0]
    theirs: dict[str, Measured] = {}
    if peer is not None:
        theirs = {d: measure("neural_tangents", [_in(few, d)], peer)[0] for d in ("float32", "float64")}
    speed = {d: job.pairs / ours[d][0].seconds for d in ours}
    bound = _bound_seconds(case, bare)
    return Row(
        name=case.name,
        ours32=speed["float32"],
        ours64=speed["float64"],
        reference32=slow.pairs / reference.seconds,
        peer32=few.pairs / theirs["float32"].seconds if theirs else None,
        peer64=few.pairs / theirs["float64"].seconds if theirs else None,
        over_peer_processor=_processor_ratio(ours["float32"][0].processor_seconds / job.pairs, few.pairs, theirs),
        of_bound=None if bound is None else bound / ours["float32"][0].processor_seconds,
        error32=_difference(ours["float32"][1], ours["float64"][1], few.symmetric),
        difference64=_difference(theirs["float64"], ours["float64"][1], few.symmetric) if theirs else None,
        megabytes=ours["float32"][1].megabytes,
        peer_megabytes=theirs["float32"].megabytes if theirs else None,
        over_peer_target=case.over_peer,
        of_bound_target=case.of_bound,
    )


def _in(job: Job, dtype: str) -> Job:
    return replace(job, dtype=dtype)


def _processor_ratio(ours: float, pairs: int, theirs: dict[str, Measured]) -> float | None:
    return min(m.processor_seconds for m in theirs.values()) / pairs / ours if theirs else None


def _bound_seconds(case: Case, bare: Bare | None) -> float | None:
    """Seconds of processor time."""
    if bare is None:
        return None
    passes = case.job.pairs * case.job.element_layers / (bare[1] / threads())
    return passes if case.job.side else passes + matrix_product(case.job.n1, case.job.n2, case.job.channels)


def _difference(found: Measured, expected: Measured, symmetric: bool) -> float:
    """The largest difference, relative to the largest entry."""
    return max(
        float(np.abs(a - b).max() / np.abs(b).max())
        for a, b in ((found.nngp, expected.nngp), (found.ntk, expected.ntk))
    )


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown."""
    columns = (
        "case",
        "ours float32",
        "ours float64",
        "reference float32",
        "peer float32",
        "peer float64",
        "ours / faster peer (target)",
        "the same in processor time",
        "ours / bound in processor time (target)",
        "float32 off float64",
        "off peer, float64",
        "memory: ours, peer MB",
    )
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    for r in rows:
        memory = f"{r.megabytes:.0f}" + ("" if r.peer_megabytes is None else f", {r.peer_megabytes:.0f}")
        cells = [
            r.name,
            *(_rate(v) for v in (r.ours32, r.ours64, r.reference32, r.peer32, r.peer64)),
            _against(r.over_peer, r.over_peer_target, "×"),
            _against(r.over_peer_processor, None, "×"),
            _against(r.of_bound, r.of_bound_target, ""),
            f"{r.error32:.1e}",
            "" if r.difference64 is None else f"{r.difference64:.1e}",
            memory,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _against(value: float | None, target: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.3g}{unit}" + ("" if target is None else f" ({target:g}{unit})")


def main(full: bool = False) -> None:
    """Print the table, and write it to build/benchmarks."""
    OUT.mkdir(parents=True, exist_ok=True)
    peer = peer_python()
    bare = all_cores()
    if bare is not None:
        print(f"on all cores, {bare}")
    print(f"one addition of large arrays moves {stream() / 1e9:.1f} GB/s; below, pairs of inputs per second\n")
    rows = []
    for case in CASES if full else [CASES[i] for i in QUICK]:
        rows.append(run_case(case, peer, bare))
        print(table(rows[-1:]).splitlines()[-1] if len(rows) > 1 else table(rows), flush=True)
    head = "" if bare is None else f"On all cores, {bare}.\n\n"
    (OUT / "neural-tangents.md").write_text(f"{head}{table(rows)}\n")
    record = {
        "bare": None if bare is None else bare._asdict(),
        "cases": [{**asdict(r), "over_peer": r.over_peer} for r in rows],
    }
    (OUT / "neural-tangents.json").write_text(json.dumps(record, indent=1))
    print(f"\nwritten: {OUT.relative_to(OUT.parent.parent)}/neural-tangents.md and .json")
