"""Claims of every study in miniature: verdicts, and the numbers with their intervals."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from studies import miniatures

TOLERANCE = 1e-4  # of the largest number of a claim: networks are trained, in float32, and processors round differently


def names():
    return sorted([*miniatures.TINY, *miniatures.PARTS], key=lambda name: name == "forces")  # which takes longest


def case(name):
    """Of each claim its outcome and [number, low, high]; a code where there is no number or no interval."""
    with tempfile.TemporaryDirectory() as folder:
        claims = miniatures.run(name, Path(folder) / name).claims
    found = {}
    for i, claim in enumerate(claims):
        found[f"{i} verdict"] = claim.outcome
        for key, value in zip(("value", "low", "high"), (claim.number, *claim.interval), strict=True):
            found[f"{i} {key}"] = [float(value)] if np.isfinite(value) else "infinite" if np.isinf(value) else "none"
    return found
