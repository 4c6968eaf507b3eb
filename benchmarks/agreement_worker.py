"""Kernels of random networks by one library; by neural-tangents beside ours, with the difference of each.

`python agreement_worker.py equitangents CASES.json OURS.npz`, then in the environment of neural-tangents
`python agreement_worker.py neural_tangents CASES.json OURS.npz`: JSON to standard output.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))


def kernels(library: str, case: dict) -> dict:
    """NNGP and NTK of x1 with x2, of x1 with itself, and their diagonals."""
    from random_stax import arguments

    stax = importlib.import_module(f"{library}.stax")
    _, _, kernel_fn = eval(case["net"], {"stax": stax})
    x1, x2, keywords = arguments(case)
    alone = {**keywords}
    if "pattern" in keywords:
        alone["pattern"] = (keywords["pattern"][0],) * 2
    found: dict = {}
    for name, inputs, given in (
        ("cross", (x1, x2), keywords),
        ("back", (x2, x1), _turned(keywords)),
        ("own", (x1, None), alone),
    ):
        k = kernel_fn(*inputs, ("nngp", "ntk"), **given)
        found |= {f"{name}/{kind}": np.asarray(getattr(k, kind)) for kind in ("nngp", "ntk")}
    return found


def _turned(keywords: dict) -> dict:
    return {k: v[::-1] if k == "pattern" else v for k, v in keywords.items()}


def main(library: str, cases: str, values: str) -> list:
    """What each network gives: an error, or by neural-tangents the largest difference from ours."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    rows: list = []
    found: dict = {}
    ours = dict(np.load(values)) if library == "neural_tangents" else {}
    for case in json.loads(Path(cases).read_text()):
        row: dict = {"seed": case["seed"]}
        try:
            kernels_here = kernels(library, case)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:300]
            kernels_here = {}
        if library == "neural_tangents" and kernels_here and f"{case['seed']}/cross/nngp" in ours:
            row |= _compared(kernels_here, {k: ours[f"{case['seed']}/{k}"] for k in kernels_here})
        found |= {f"{case['seed']}/{k}": v for k, v in kernels_here.items()}
        rows.append(row)
    if library != "neural_tangents":
        np.savez(values, **found)
    return rows


def _compared(theirs: dict, ours: dict) -> dict:
    """The largest difference relative to the largest entry of NNGPs or NTKs, where the peer has numbers; and how many
    it has and lacks.

    Apart from these `itself`: of tangent kernels of an input with itself, where the angle that is 0 is the arc cosine
    of a rounded number there, 1e-8 for 1 - 1e-16.
    """
    worst = {"difference": 0.0, "itself": 0.0}
    missing = 0
    sizes = {"nngp": 1e-300, "ntk": 1e-300}
    for key, value in theirs.items():
        kind = key.rpartition("/")[2]
        sizes[kind] = np.max(np.abs(value), initial=sizes[kind], where=np.isfinite(value))
    for key, value in theirs.items():
        size = sizes[key.rpartition("/")[2]]
        gaps = np.where(np.isfinite(value), np.abs(value - ours[key]), 0) / size
        missing += int((~np.isfinite(value)).sum())
        parts = {"difference": gaps}
        if key == "own/ntk":
            same = np.eye(len(gaps), dtype=bool)
            parts = {"difference": gaps[~same], "itself": gaps[same]}
        for name, part in parts.items():
            worst[name] = np.maximum(worst[name], np.max(part))  # NaN where ours has no number
    entries = sum(value.size for value in theirs.values())
    return {**{name: float(gap) for name, gap in worst.items()}, "numbers": entries - missing, "nan": missing}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4])))
