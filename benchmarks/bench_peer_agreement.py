"""Random networks over all layers and options of `stax`, by both libraries on the same inputs, in float64.

500 networks (`PEER_NETWORKS=50` for fewer, `PEER_NETWORKS=50:100` for some of them), drawn by `random_stax`: grids
of no, one and two dimensions, masks, graphs, axes in another order. Ours are computed here, theirs in an environment of
their own, which reads ours beside them and compares; differences are relative to the largest entry of a network's
kernels, over pairs for which neural-tangents has a number, those of an input's tangent kernel with itself by
themselves: there it takes the arc cosine of a number that is 1 but for rounding. Left out, since the two differ by
design: `Hermite` but on normalised fields, `ElementwiseNumerical`, `Sign`'s tangent kernel; and what neural-tangents
gets wrong (see the guide): `ConvLocal` whose windows or strides differ between the dimensions of a grid after a `Conv`,
where it exchanges them, or with a scale of its channels, which it does not have; and scales of channels beside
`ExpNormalized`, which it miscounts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_stax import run_worker
from benchmarks.peers import OUT, peer_python
from benchmarks.random_stax import draw

BOUND = 1e-9
ITSELF = 1e-7
_QUICK = "--xla_backend_optimization_level=0"  # compiling many small programs takes nearly all of the time


def main() -> None:
    """Print how many networks agree, the worst of them, and those that do not; write it to build/benchmarks."""
    peer = peer_python()
    if peer is None:
        return
    cases = [draw(seed) for seed in range(*_seeds())]
    text = report(cases, *compared(cases, peer))
    print(text)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "peer_agreement.md").write_text(text + "\n")


def _seeds() -> list[int]:
    first, _, last = os.environ.get("PEER_NETWORKS", "500").rpartition(":")
    return [int(first or 0), int(last)]


def compared(cases: list[dict[str, Any]], peer: str) -> tuple[list[dict], list[dict]]:
    """What ours says of each network, and what the peer's says beside it."""
    with tempfile.TemporaryDirectory() as folder:
        specification, values = Path(folder) / "cases.json", Path(folder) / "ours.npz"
        specification.write_text(json.dumps(cases))
        files = "agreement_worker.py", str(specification), str(values)
        ours, theirs = (
            run_worker(python, files[0], library, *files[1:], flags=_QUICK)
            for python, library in ((sys.executable, "equitangents"), (peer, "neural_tangents"))
        )
        return ours, theirs


def report(cases: list[dict[str, Any]], ours: list[dict], theirs: list[dict]) -> str:
    """Counts, the worst difference, and a line for each network that differs or that one library alone refuses."""
    rows = list(zip(cases, ours, theirs, strict=True))
    both = [(c, t) for c, o, t in rows if "error" not in o and "error" not in t and t["numbers"]]
    without = [c for c, o, t in rows if "error" not in o and not t.get("numbers", 1)]
    apart = [(c, t) for c, t in both if not (t["difference"] <= BOUND and t["itself"] <= ITSELF)]
    refused = [(c, o, t) for c, o, t in rows if "error" in o or "error" in t]
    worst, itself = (np.max([t[name] for _, t in both], initial=0.0) for name in ("difference", "itself"))
    rounded = sum(t["itself"] > BOUND for _, t in both)
    lines = [
        f"{len(cases)} networks: {len(both) - len(apart)} agree to {BOUND:g}, {len(apart)} do not; worst {worst:.1e}; "
        f"tangent kernels of an input with itself: {rounded} over {BOUND:g}, worst {itself:.1e}",
        f"refused by both {sum('error' in o and 'error' in t for _, o, t in refused)}, by ours alone "
        f"{sum('error' not in t for _, o, t in refused)}, by the peer alone "
        f"{sum('error' not in o for _, o, t in refused)}, networks without any number of the peer {len(without)}; "
        f"numbers that it lacks of others: {sum(t['nan'] for _, t in both)}",
    ]
    lines += [f"- no number of the peer: seed {c['seed']}, {c['net']}" for c in without]
    lines += [f"- {t['difference']:.1e}, with itself {t['itself']:.1e}: seed {c['seed']}, {c['net']}" for c, t in apart]
    lines += [
        f"- refused: seed {c['seed']}, ours {o.get('error')}; theirs {t.get('error')}; {c['net']}"
        for c, o, t in refused
    ]
    return "\n".join(lines)
